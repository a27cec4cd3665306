"""Two runs side by side: one step at a time, in the order of time.

An event that is the same in both is one step.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, takewhile

from labkit.system.trace.events import Event

BOTH, FIRST, OTHER = 0, 1, 2


@dataclass(frozen=True, slots=True)
class MergedStep:
    """The run that goes on (`which`), and the number of events of each run after the step."""

    which: int
    of_first: int
    of_other: int


def steps_of(first: Sequence[Event], other: Sequence[Event] | None = None) -> list[MergedStep]:
    """All steps; without a second run each event is a step."""
    if other is None:
        return [MergedStep(BOTH, count, count) for count in range(1, len(first) + 1)]
    steps: list[MergedStep] = []
    i = j = 0
    while i < len(first) or j < len(other):
        which = _which(first, i, other, j)
        i += which != OTHER
        j += which != FIRST
        steps.append(MergedStep(which, i, j))
    return steps


def first_difference(steps: Sequence[MergedStep]) -> int:
    """The number of steps before the first difference of the runs; all steps if there is none."""
    return next((n for n, step in enumerate(steps) if step.which != BOTH), len(steps))


def _which(first: Sequence[Event], i: int, other: Sequence[Event], j: int) -> int:
    if j >= len(other):
        return FIRST
    if i >= len(first):
        return OTHER
    if _what(first[i]) == _what(other[j]):
        return BOTH
    if first[i].time_us == other[j].time_us:
        # A fault, which only the other run has, comes before the events that it changes.
        return FIRST if _comes_soon(other[j], first, i) else OTHER
    return FIRST if first[i].time_us < other[j].time_us else OTHER


def _comes_soon(event: Event, run: Sequence[Event], at: int) -> bool:
    """Whether the same event happens in the run at the same time, from the place `at` on."""
    later = takewhile(lambda each: each.time_us == event.time_us, islice(run, at, None))
    return any(_what(each) == _what(event) for each in later)


def _what(event: Event) -> Event:
    """The event without its place in its run."""
    return event._replace(seq=0, cause=0)
