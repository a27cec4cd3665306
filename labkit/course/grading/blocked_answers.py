"""Makes labkit's own answers to the exercises unavailable while an answer is graded.

In the submission's process, the code of these functions is replaced: calling one, under any name,
raises an error that says that the answer is labkit's own. The trials run in the grader's process,
where labkit works as usual. An answer that is a value, such as an order of steps, cannot be
blocked. labkit's source is readable, and neither an answer copied from it nor a second copy of its
module is detected.
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
    "quorums.coverage": ("labkit.system.client.quorum:is_covered",),
    "quorums.write_set": ("labkit.system.client.striping:write_set",),
    "repair.fragments": ("labkit.system.autorecovery.fragments:underreplicated_indexes",),
    "streams.holes": ("labkit.views.spark.streams:missing_entries",),
    "streams.order": ("labkit.views.spark.streams:order_violations",),
    "topics.retention": ("labkit.system.topic.chain.retention:ledgers_to_delete",),
}
"""By exercise: the functions of the storage system that do what the exercise asks for, as
`module:name`, where `like` is only the function with which the trial compares an answer.
"""


def labkits_answers(exercises: Iterable[Exercise]) -> list[str]:
    """Return labkit's functions that answer these exercises, as `module:name`."""
    found: set[str] = set()
    for exercise in exercises:
        found |= set(REAL.get(exercise.name, ()))
        if exercise.like is not None and not exercise.needs_spark:
            found.add(f"{exercise.like.__module__}:{exercise.like.__qualname__}")
    return sorted(found)


def block_answers(names: Iterable[str]) -> None:
    """Replace the code of these functions in this process; this cannot be undone."""
    for name in names:
        module, _, qualified_name = name.partition(":")
        owner: Any = import_module(module)
        function = reduce(getattr, qualified_name.split("."), owner)
        # Replace the code, not the module's attribute: other modules may have imported the
        # function.
        function.__code__ = _refusing(qualified_name, function)


def _refusing(name: str, function: Callable[..., Any]) -> Any:
    """Return code that raises an error; its function name and file identify it as labkit's."""
    refusal = f"{name} is labkit's own answer: write your own."
    names: dict[str, Any] = {}
    exec(f"def refuse(*_, **__): raise RuntimeError({refusal!r})", names)
    code = function.__code__
    return names["refuse"].__code__.replace(co_name=code.co_name, co_filename=code.co_filename)
