"""withheld: labkit's own answers to the exercises, out of reach while an answer is graded.

Inside the submission's process these functions keep their place and lose their code: a call of
one, under any name, raises and says whose answer it is.  The trials run in the grader's process, so
labkit itself works as before.  A value that is the answer, such as an order of steps, cannot be
withheld, and labkit's source can be read: a copy of it, or a second load of its module, is not
found.
"""

from collections.abc import Callable, Iterable
from functools import reduce
from importlib import import_module
from typing import Any

from labkit.course.checking.exercise import Exercise

REAL = {
    "ensemble_change.first_entry": ("labkit.system.client.ensemble:first_of_new_segment",),
    "ensemble_change.replacement": ("labkit.system.client.ensemble:with_replacements",),
    "entry.intact": ("labkit.system.model.entry:decode_entry",),
    "entry.pack": ("labkit.system.model.entry:pack_entry",),
    "garbage.dropped": ("labkit.system.storage.garbage:deleted_ledgers",),
    "journal.records": (
        "labkit.system.storage.journal_scan:JournalScan.records",
        "labkit.system.storage.journal_scan:JournalScan.batches",
    ),
    "quorums.coverage": ("labkit.system.client.quorum:is_covered",),
    "quorums.write_set": ("labkit.system.client.striping:write_set",),
    "repair.fragments": ("labkit.system.autorecovery.fragments:missing_places",),
    "streams.holes": ("labkit.views.spark.streams:missing_entries",),
    "streams.order": ("labkit.views.spark.streams:order_violations",),
    "topics.retention": ("labkit.system.topic.chain.retention:ledgers_to_delete",),
}
"""By exercise: the functions of the storage system that do what is asked, as `module:name`, where
`like` is only what the trial compares with.
"""


def own_answers(exercises: Iterable[Exercise]) -> list[str]:
    """The functions of labkit that answer these exercises, as `module:name`."""
    found: set[str] = set()
    for exercise in exercises:
        found |= set(REAL.get(exercise.name, ()))
        if exercise.like is not None and not exercise.needs_spark:
            found.add(f"{exercise.like.__module__}:{exercise.like.__qualname__}")
    return sorted(found)


def withhold(names: Iterable[str]) -> None:
    """Take the code out of these functions of this process; it cannot be undone."""
    for name in names:
        module, _, place = name.partition(":")
        owner: Any = import_module(module)
        function = reduce(getattr, place.split("."), owner)
        # Not the name in a module: the function may be known under other names already.
        function.__code__ = _refusing(place, function)


def _refusing(place: str, function: Callable[..., Any]) -> Any:
    """Code that raises, under the name and file of the function, which say whose it is."""
    refusal = f"{place} is labkit's own answer: a graded answer must be written."
    names: dict[str, Any] = {}
    exec(f"def refuse(*_, **__): raise RuntimeError({refusal!r})", names)
    code = function.__code__
    return names["refuse"].__code__.replace(co_name=code.co_name, co_filename=code.co_filename)
