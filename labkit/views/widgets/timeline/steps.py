"""Merges two runs into one list of steps, sorted by time.

If both runs contain the same event, it is a single step. Both epilogues are at the end, so that
neither starts while the other run is still in progress.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice, takewhile

from labkit.system.trace.events import Event

BOTH, FIRST, OTHER = 0, 1, 2


@dataclass(frozen=True, slots=True)
class MergedStep:
    """The run that advances in this step (`which`), and the number of events of each run so far."""

    which: int
    of_first: int
    of_other: int

    @property
    def place(self) -> tuple[int, int]:
        """The run whose event happens in this step, and the event's index. If the event happens in
        both runs, this is run 0.
        """
        return (1, self.of_other - 1) if self.which == OTHER else (0, self.of_first - 1)

    def index_in(self, run: int) -> int | None:
        """Return the index of the event of run 0 or 1 that happens in this step, or None if this is
        a step of the other run only.
        """
        if self.which == (OTHER, FIRST)[run]:
            return None
        return (self.of_first, self.of_other)[run] - 1


def steps_of(first: Sequence[Event], other: Sequence[Event] | None = None) -> list[MergedStep]:
    """Return all steps. If there is no second run, each event is a step."""
    if other is None:
        return [MergedStep(BOTH, count, count) for count in range(1, len(first) + 1)]
    ends = epilogue_of(first), epilogue_of(other)
    before = _merged(first[: ends[0]], other[: ends[1]])
    epilogues = _merged(first[ends[0] :], other[ends[1] :])
    return before + [
        MergedStep(step.which, step.of_first + ends[0], step.of_other + ends[1])
        for step in epilogues
    ]


def epilogue_of(events: Sequence[Event]) -> int:
    """Return the index of the epilogue's first event, or the number of events if there is no
    epilogue.
    """
    return next((n for n, e in enumerate(events) if e.kind == "epilogue.started"), len(events))


def _merged(first: Sequence[Event], other: Sequence[Event]) -> list[MergedStep]:
    steps: list[MergedStep] = []
    i = j = 0
    while i < len(first) or j < len(other):
        which = _which(first, i, other, j)
        i += which != OTHER
        j += which != FIRST
        steps.append(MergedStep(which, i, j))
    return steps


def first_difference(steps: Sequence[MergedStep]) -> int:
    """Return the number of steps before the first difference between the runs, or the number of all
    steps if there is none.
    """
    return next((n for n, step in enumerate(steps) if step.which != BOTH), len(steps))


def _which(first: Sequence[Event], i: int, other: Sequence[Event], j: int) -> int:
    if j >= len(other):
        return FIRST
    if i >= len(first):
        return OTHER
    if _what(first[i]) == _what(other[j]):
        return BOTH
    if first[i].time_us == other[j].time_us:
        # If an event of the fork also occurs in the original run, but later in the same
        # microsecond, put the original run's event first. Otherwise the fork's event comes first,
        # because a fault exists only in the fork and precedes the events that it changes.
        return FIRST if _comes_soon(other[j], first, i) else OTHER
    return FIRST if first[i].time_us < other[j].time_us else OTHER


def _comes_soon(event: Event, run: Sequence[Event], at: int) -> bool:
    """Return whether the same event happens in `run` at the same time, at or after index `at`."""
    later = takewhile(lambda each: each.time_us == event.time_us, islice(run, at, None))
    return any(_what(each) == _what(event) for each in later)


def _what(event: Event) -> Event:
    return event._replace(seq=0, cause=0)
