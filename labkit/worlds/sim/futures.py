"""Finds out when a broken promise became inevitable, by trying alternative continuations of the
run.

    found = inevitability(run(counterexample("ack after one bookie")), "AcknowledgedIsDurable")
    found.jump      the moment at which most futures were lost, and how many were lost

An alternative continuation is called a future. A future of a moment is a run that is identical to
the original run up to that moment. From then on, all random decisions are drawn again, and no more
faults occur. If few futures of one moment break the promise but nearly all futures of the next
moment do, then the events in between made the failure inevitable.

Only some moments are tried, each with a sample of futures. The search repeatedly halves the
interval in which the share of futures that break the promise changes most.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count, islice, pairwise
from math import ceil, log2
from typing import Protocol

from labkit.system.check import CHECKS, Check, Outcome, check_all
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.trace.events import Event
from labkit.system.trace.sentence import describe
from labkit.worlds.sim.future_world import BEFORE_THE_RUN_US
from labkit.worlds.sim.machine.decisions import sentence_of
from labkit.worlds.sim.machine.loop import SimulationError
from labkit.worlds.sim.scenario.faults import (
    Crash,
    CrashAtOperation,
    Fault,
    Partition,
    Pause,
    PowerCut,
)
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import START

_FAULT_EVENTS = ("node.killed", "node.paused", "link.cut", "session.lost")
_SEEN_AS_EVENTS = (Crash, CrashAtOperation, Partition, Pause, PowerCut)
"""Faults that are completely described by events."""


class RepeatableRun(Protocol):
    """The attributes and methods of a `Trace` that the search uses."""

    @property
    def scenario(self) -> Scenario: ...
    @property
    def events(self) -> Sequence[Event]: ...
    @property
    def struck(self) -> Sequence[tuple[int, Fault]]: ...
    @property
    def decisions(self) -> Mapping[str, float]: ...
    @property
    def decided_at_us(self) -> Mapping[str, int]: ...
    def future(self, moment_us: int, seed: int) -> "RepeatableRun":
        """Run a future of this moment, with decisions drawn from the seed. Raises
        `SimulationError`.
        """


@dataclass(frozen=True, slots=True)
class FutureShare:
    """The number of futures of a moment that were tried, and the number of futures that broke the
    promise. `seq` is the number of the last event at that moment, or -1 before the first event.
    """

    time_us: int
    seq: int
    broken: int
    tried: int

    @property
    def share(self) -> float:
        return self.broken / self.tried


@dataclass(frozen=True, slots=True)
class Jump:
    """The two neighbouring moments between which the share of futures that break the promise rises
    most, and the events, faults and decisions in between. Decisions with the harmless default value
    are omitted.
    """

    before: FutureShare
    after: FutureShare
    events: tuple[Event, ...]
    faults: tuple[Fault, ...]
    decisions: Mapping[str, float]

    @property
    def reason(self) -> str:
        """The likely cause: the faults, the decisions if there were no faults, or all events if
        there were no decisions either. Decisions about the order of messages are omitted, because
        the events are more informative.
        """
        decisions = {
            name: value for name, value in self.decisions.items() if not name.startswith("next ")
        }
        if self.faults and all(isinstance(fault, _SEEN_AS_EVENTS) for fault in self.faults):
            causes = [describe(event) for event in self.events if event.kind in _FAULT_EVENTS]
        elif self.faults:
            causes = [f"{replace(fault, when=START)!r} struck" for fault in self.faults]
        elif decisions:
            causes = [sentence_of(name, value) for name, value in decisions.items()]
        else:
            causes = [describe(event) for event in self.events]
        return "; ".join(causes)


@dataclass(frozen=True, slots=True)
class Inevitability:
    """The share of futures that break a promise, for several moments in chronological order.

    `jump` is None if the share is the same for all moments, which means that nothing in the run
    made a difference. `remaining` is an estimate of how many more moments will be tried.
    """

    promise: str
    shares: tuple[FutureShare, ...]
    jump: Jump | None
    remaining: int

    @property
    def points(self) -> list[tuple[int, float]]:
        return [(each.seq, each.share) for each in self.shares]

    @property
    def seq(self) -> int:
        """The number of the last event of the jump, or -1 if there is no jump."""
        return -1 if self.jump is None else self.jump.after.seq

    @property
    def change(self) -> str:
        """A description of how the share of futures that break the promise changes at the jump."""
        if self.jump is None:
            first = self.shares[0]
            return (
                f"{first.broken} of {first.tried} futures break this promise from the beginning on,"
                " and nothing that happened in this run changed that"
            )
        before, after = self.jump.before, self.jump.after
        return (
            f"{after.broken} of {after.tried} futures break this promise; just before,"
            f" {before.broken} did"
        )

    @property
    def words(self) -> str:
        """A sentence that describes the jump."""
        if self.jump is None:
            return f"{self.change}."
        moment_ms = self.jump.after.time_us / 1000
        return f"From {moment_ms:,.2f} ms on, {self.change}. In between: {self.jump.reason}."

    def __repr__(self) -> str:
        if self.jump is None:
            return f"{self.promise}: {self.change}"
        before, after = self.jump.before, self.jump.after
        return (
            f"{self.promise}: from {after.time_us / 1000:.2f} ms on, it breaks in {after.broken} of"
            f" {after.tried} futures; just before, in {before.broken}. {self.jump.reason}"
        )


def inevitability(trace: RepeatableRun, promise: str, futures: int = 32) -> Inevitability:
    """Return the last result of `inevitability_so_far`."""
    *_, found = inevitability_so_far(trace, promise, futures)
    return found


def inevitability_so_far(
    trace: RepeatableRun, promise: str, futures: int = 32
) -> Iterator[Inevitability]:
    """Find the two neighbouring moments between which the share of futures that break the promise
    rises most.

    Tries about ten moments, with `futures` futures each. After each moment except the first, yields
    the result so far.

    Raises `BKIncorrectParameterException` if `promise` is not the name of a check, or if the
    promise is not broken in this run.
    """
    check = next((each for each in CHECKS if each.__name__ == promise), None)
    if check is None:
        raise BKIncorrectParameterException(
            f"{promise!r} is not the name of a check; see labkit.system.check.CHECKS"
        )
    if not _breaks(trace, check):
        raise BKIncorrectParameterException(
            f"{promise} holds in this run; choose a promise that the run breaks"
        )
    moments = _moments(trace)

    def share_at(index: int) -> FutureShare:
        time_us, seq = moments[index]
        return FutureShare(time_us, seq, _count_broken(trace, time_us, check, futures), futures)

    for shares, first, last in largest_changes(len(moments) - 1, share_at):
        before, after = shares[first], shares[last]
        jump = _jump(trace, before, after) if before.broken < after.broken else None
        tried = tuple(shares[index] for index in sorted(shares))
        yield Inevitability(promise, tried, jump, ceil(log2(last - first)))


def largest_changes(
    last: int, share_at: Callable[[int], FutureShare]
) -> Iterator[tuple[Mapping[int, FutureShare], int, int]]:
    """Repeatedly halve the interval in which the share changes most.

    Yields the known shares, by index from 0 to `last`, and this interval.
    """
    shares = {index: share_at(index) for index in (0, last)}
    while True:
        # If several intervals have the same change, choose the latest one.
        start, end = max(
            pairwise(sorted(shares)),
            key=lambda pair: (shares[pair[1]].share - shares[pair[0]].share, pair),
        )
        yield shares, start, end
        if end - start == 1:
            return
        middle = (start + end) // 2
        shares[middle] = share_at(middle)


def _moments(trace: RepeatableRun) -> list[tuple[int, int]]:
    """Return the times of all events before the epilogue, each with the number of the last event at
    that time.
    """
    last_events = {BEFORE_THE_RUN_US: -1}
    for event in trace.events:
        if event.kind == "epilogue.started":
            break
        last_events[event.time_us] = event.seq
    return list(last_events.items())


def _jump(trace: RepeatableRun, before: FutureShare, after: FutureShare) -> Jump:
    def is_between(time_us: int) -> bool:
        return before.time_us < time_us <= after.time_us

    return Jump(
        before,
        after,
        tuple(event for event in trace.events if is_between(event.time_us)),
        tuple(fault for time_us, fault in trace.struck if is_between(time_us)),
        {name: trace.decisions[name] for name, at in trace.decided_at_us.items() if is_between(at)},
    )


def _count_broken(trace: RepeatableRun, moment_us: int, check: type[Check], futures: int) -> int:
    def breaks(seed: int) -> bool:
        try:
            return _breaks(trace.future(moment_us, seed), check)
        except SimulationError:
            return False

    # Skip the seed of the run itself, because a future with this seed would make the same decisions
    # as the run.
    seeds = (seed for seed in count() if seed != trace.scenario.seed)
    return sum(map(breaks, islice(seeds, futures)))


def _breaks(trace: RepeatableRun, check: type[Check]) -> bool:
    return check_all(trace, [check])[0].outcome is Outcome.INVALID
