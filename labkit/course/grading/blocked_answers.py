"""Lists labkit's own answers to the exercises, which a submission must not call.

An answer that is a value, such as an order of steps, cannot be blocked. Students can read labkit's
source code, and the grader detects neither an answer copied from it nor a second copy of one of its
modules.
"""

from collections.abc import Iterable

from labkit.course.checking.exercise import Exercise

STORAGE_ANSWERS = {
    "entry.intact": ("labkit.system.model.entry:decode_entry",),
    "entry.pack": ("labkit.system.model.entry:pack_entry",),
    "garbage.dropped": ("labkit.system.storage.garbage:deleted_ledgers",),
    "quorums.coverage": ("labkit.system.client.quorum:is_covered",),
    "quorums.write_set": ("labkit.system.client.striping:write_set",),
    "repair.fragments": ("labkit.system.autorecovery.fragments:underreplicated_indexes",),
    "streams.holes": ("labkit.views.spark.streams:missing_entries",),
    "streams.order": ("labkit.views.spark.streams:order_violations",),
    "topics.retention": ("labkit.system.topic.chain.retention:ledgers_to_delete",),
}
"""Answers inside the storage system, as `module:name`, for exercises whose `like` is a separate
reference function.
"""


def labkits_answers(exercises: Iterable[Exercise]) -> list[str]:
    """Return labkit's functions that answer these exercises, as `module:name`."""
    found: set[str] = set()
    for exercise in exercises:
        found |= set(STORAGE_ANSWERS.get(exercise.name, ()))
        if exercise.like is not None and not exercise.needs_spark:
            found.add(f"{exercise.like.__module__}:{exercise.like.__qualname__}")
    return sorted(found)
