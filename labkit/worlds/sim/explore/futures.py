"""Finds out when a broken promise became inevitable, by trying other futures of the same run.

    found = inevitability(run(counterexample("ack after one bookie")), "AcknowledgedIsDurable")
    found.jump      the moment at which most futures were lost, and how many

A future of a moment is a run that is identical to the original up to that moment; after it, all
random decisions are drawn again, and no further fault strikes. If the promise is broken in few
futures of one moment but in nearly all futures of the next, then whatever happened between the two
moments made this inevitable.

Only some moments are tried, each with a sample of futures: the search repeatedly halves the
interval in which the share of broken futures changes most.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise

from labkit.system.check import CHECKS, Check, Outcome, check_all
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.trace.events import Event
from labkit.system.trace.sentence import describe
from labkit.worlds.sim.chosen_order import ChosenOrderWorld
from labkit.worlds.sim.machine.decisions import sentence_of
from labkit.worlds.sim.machine.garbage_collector import without_garbage_collection
from labkit.worlds.sim.machine.loop import SimLoop, SimulationError
from labkit.worlds.sim.run import STEP_BUDGET, outside_event_loops, run_world
from labkit.worlds.sim.scenario.faults import (
    Crash,
    CrashAtOperation,
    Fault,
    Partition,
    Pause,
    PowerCut,
)
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.world import World

_FAULT_EVENTS = ("node.killed", "node.paused", "link.cut", "session.lost")
_SEEN_AS_EVENTS = (Crash, CrashAtOperation, Partition, Pause, PowerCut)
"""Faults that the events describe completely."""
BEFORE_THE_RUN_US = -1
"""A moment before the first step and the first fault, so every decision is drawn again."""


@dataclass(frozen=True, slots=True)
class FutureShare:
    """The number of futures of the moment `time_us` that were `tried`, and the number of those in
    which the promise was `broken`.
    """

    time_us: int
    broken: int
    tried: int

    @property
    def share(self) -> float:
        return self.broken / self.tried


@dataclass(frozen=True, slots=True)
class Jump:
    """The two neighbouring moments between which the share of broken futures changes most, and what
    happened between them: the events of the trace, the faults that struck, and the decisions that
    were not harmless.
    """

    before: FutureShare
    after: FutureShare
    events: tuple[Event, ...]
    faults: tuple[Fault, ...]
    decisions: Mapping[str, float]

    @property
    def reason(self) -> str:
        """The likely cause: the faults if there were any, else the decisions if there were any,
        else all events.
        """
        if self.faults and all(isinstance(fault, _SEEN_AS_EVENTS) for fault in self.faults):
            causes = [describe(event) for event in self.events if event.kind in _FAULT_EVENTS]
        elif self.faults:
            causes = [f"{fault!r} struck" for fault in self.faults]
        elif self.decisions:
            causes = [sentence_of(name, value) for name, value in self.decisions.items()]
        else:
            causes = [describe(event) for event in self.events]
        return "; ".join(causes)


@dataclass(frozen=True, slots=True)
class Inevitability:
    """The share of futures that break a promise, for several moments in chronological order.

    `jump` is None if the share is the same for all moments, that is, if nothing that happened
    during the run made a difference.
    """

    promise: str
    shares: tuple[FutureShare, ...]
    jump: Jump | None

    def __repr__(self) -> str:
        if self.jump is None:
            first = self.shares[0]
            return (
                f"{self.promise}: it breaks in {first.broken} of {first.tried} futures, whatever"
                " the moment; nothing that happened in this run made a difference"
            )
        before, after = self.jump.before, self.jump.after
        return (
            f"{self.promise}: from {after.time_us / 1000:.2f} ms on, it breaks in {after.broken} of"
            f" {after.tried} futures; just before, in {before.broken}. {self.jump.reason}"
        )


def inevitability(trace: Trace, promise: str, futures: int = 32) -> Inevitability:
    """Return the last result of `inevitability_so_far`."""
    *_, found = inevitability_so_far(trace, promise, futures)
    return found


def inevitability_so_far(trace: Trace, promise: str, futures: int = 32) -> Iterator[Inevitability]:
    """Find the two neighbouring moments between which the share of broken futures changes most.

    Tries about ten moments, with `futures` futures each, and yields the result so far after each
    moment except the first.

    Raises `BKIncorrectParameterException` if `promise` is not the name of a check or holds in this
    run.
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
        judge = partial(_count_broken, trace.scenario, moments[index], check, futures)
        return FutureShare(moments[index], outside_event_loops(judge), futures)

    shares = {index: share_at(index) for index in (0, len(moments) - 1)}
    while True:
        first, last = _largest_change(shares)
        before, after = shares[first], shares[last]
        jump = _jump(trace, before, after) if before.broken < after.broken else None
        yield Inevitability(promise, tuple(shares[index] for index in sorted(shares)), jump)
        if last - first == 1:
            return
        middle = (first + last) // 2
        shares[middle] = share_at(middle)


def _moments(trace: Trace) -> list[int]:
    """Return the times of all events before the epilogue, without duplicates."""
    times = [BEFORE_THE_RUN_US]
    for event in trace.events:
        if event.kind == "epilogue.started":
            break
        if event.time_us > times[-1]:
            times.append(event.time_us)
    return times


def _largest_change(shares: dict[int, FutureShare]) -> tuple[int, int]:
    """Return the two neighbouring moments whose shares differ most; if there are several such
    pairs, return the latest one.
    """
    known = sorted(shares)
    return max(
        pairwise(known),
        key=lambda pair: (shares[pair[1]].share - shares[pair[0]].share, pair),
    )


def _jump(trace: Trace, before: FutureShare, after: FutureShare) -> Jump:
    def is_between(time_us: int) -> bool:
        return before.time_us < time_us <= after.time_us

    return Jump(
        before,
        after,
        tuple(event for event in trace.events if is_between(event.time_us)),
        tuple(fault for time_us, fault in trace.struck if is_between(time_us)),
        {name: trace.decisions[name] for name, at in trace.decided_at_us.items() if is_between(at)},
    )


def _count_broken(scenario: Scenario, moment_us: int, check: type[Check], futures: int) -> int:
    def breaks(seed: int) -> bool:
        try:
            return _breaks(future(scenario, moment_us, seed), check)
        except SimulationError:
            return False

    with without_garbage_collection():
        return sum(map(breaks, range(futures)))


def _breaks(trace: Trace, check: type[Check]) -> bool:
    return check_all(trace, [check])[0].outcome is Outcome.INVALID


def future(scenario: Scenario, moment_us: int, seed: int) -> Trace:
    """Run the scenario, but after the given moment, make other decisions and do not inject any
    further faults.

    `moment_us` is in microseconds of virtual time; the decisions after it are drawn from `seed`.
    Raises `SimulationError` if the run does not end.
    """
    world_class = _FutureInChosenOrder if scenario.in_turn else _FutureWorld
    return run_world(world_class(scenario, SimLoop(STEP_BUDGET), moment_us, seed))


class _FutureWorld(World):
    def __init__(self, scenario: Scenario, loop: SimLoop, moment_us: int, seed: int) -> None:
        super().__init__(scenario, loop)
        self._moment_us = moment_us
        if moment_us == BEFORE_THE_RUN_US:
            self.decisions.draw_anew(seed)
        else:
            # Add half a microsecond, so that everything that is due at exactly that moment happens
            # first.
            due = (moment_us + 0.5) / 1e6
            loop.call_at_world_time(due, self.decisions.draw_anew, seed, context=loop.world)

    def strike(self, fault: Fault) -> None:
        if self.loop.now_us() <= self._moment_us:
            super().strike(fault)


class _FutureInChosenOrder(_FutureWorld, ChosenOrderWorld):
    pass
