"""Shrinking: the smallest scenario in which the same promise still breaks.

    1  every decision that the seed drew is named: the scenario needs no seed any more
    2  decisions, faults and steps are taken away, half of them, a quarter, ... one at a time, as
       long as the promise still breaks (Zeller's ddmin)
    3  numbers become smaller and rounder, and settings what they are by default
    4  again from 2, until nothing changes

Taking a decision back shifts no other, as each has its name, and that makes all this possible.  The
result is the smallest that these steps reach, not the smallest there is.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from types import NoneType
from typing import Any, TypeVar

from labkit.check import CHECKS, Check, Outcome, Verdict, broken, check_all
from labkit.model.errors import BKIncorrectParameterException
from labkit.sim.faults import Fault
from labkit.sim.loop import SimulationError
from labkit.sim.moments import At, On
from labkit.sim.run import run
from labkit.sim.scenario import Scenario
from labkit.sim.value import default_of
from labkit.sim.workload import Step, Write

T = TypeVar("T")
StillBreaks = Callable[[Scenario], bool]

_COUNTS = (
    *("bookies", "entries", "ensemble", "write_quorum", "ack_quorum", "polls", "nth"),
    *("brokers", "messages"),
)
"""Fields that are to be small; others are to have their defaults, or to be round."""
_ONCE_AN_ENTRY = ("add.pushed", "lac.advanced")
_SETTINGS = (
    *("flush_interval_ms", "gc_wait_time_ms", "session_timeout_ms"),
    *("autorecovery", "broker"),
)
"""Fields that are to have their defaults, or to stay: with odd values a run may take for ever."""
_KEPT = ("variant", "seed", "limit_s", "in_turn", "storage")


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest scenario, how its promise breaks, and what it took to find it."""

    scenario: Scenario
    verdict: Verdict
    run_count: int
    seconds: float

    def __repr__(self) -> str:
        cost = f"{self.run_count} runs, {self.seconds:.1f} s"
        return f"{self.scenario!r}\n{self.verdict!r}\n({cost})"


def shrink(
    scenario: Scenario,
    promise: str = "",
    *,
    checks: Sequence[type[Check]] = CHECKS,
    patience_s: float = 60.0,
) -> Shrunk:
    """Make a scenario that breaks a promise (a check's name; "": the first that breaks) as small
    as it gets, or as small as it is after `patience_s`.

    Raises `LookupError` when the promise does not break in it.
    """
    began = time.monotonic()
    trace = run(scenario)
    verdicts = {each.name: each for each in broken(check_all(trace, checks))}
    if not verdicts or (promise and promise not in verdicts):
        raise LookupError(f"{promise or 'no promise'} breaks in {scenario!r}")
    promise = promise or next(iter(verdicts))
    trial = _Trial([check for check in checks if check.__name__ == promise], began + patience_s)
    smallest = trace.explicit()
    if not trial.breaks(smallest):
        raise AssertionError(f"its decisions alone do not give the same run again: {scenario!r}")
    before = None
    while smallest != before:
        before = smallest
        smallest = _with_fewer_parts(smallest, trial.still_breaks)
        smallest = _as_far_as_it_goes(smallest, trial.still_breaks, shorter)
        smallest = _as_far_as_it_goes(smallest, trial.still_breaks, simpler_values)
    (verdict,) = check_all(run(smallest), trial.checks)
    return Shrunk(smallest, verdict, trial.run_count, time.monotonic() - began)


class _Trial:
    """Runs scenarios, and asks one check."""

    def __init__(self, checks: list[type[Check]], deadline: float) -> None:
        self.checks = checks
        self.run_count = 0
        self._deadline = deadline
        self._known: dict[str, bool] = {}

    def still_breaks(self, scenario: Scenario) -> bool:
        """Whether the promise breaks there; never, once there is no time left."""
        key = repr(scenario)
        if key not in self._known:
            if time.monotonic() > self._deadline:
                return False
            self.run_count += 1
            self._known[key] = self.breaks(scenario)
        return self._known[key]

    def breaks(self, scenario: Scenario) -> bool:
        """The same, at any time."""
        try:
            (verdict,) = check_all(run(scenario), self.checks)
        except SimulationError:
            return False
        return verdict.outcome is Outcome.INVALID


# Fewer parts


def _with_fewer_parts(scenario: Scenario, still_breaks: StillBreaks) -> Scenario:
    """Of decisions, faults and steps as few as possible."""

    def with_decisions(names: list[str]) -> Scenario:
        return replace(scenario, decisions={name: scenario.decisions[name] for name in names})

    def with_faults(faults: list[Fault]) -> Scenario:
        return replace(scenario, faults=tuple(faults))

    def with_steps(steps: list[Step]) -> Scenario:
        return replace(scenario, workload=tuple(steps))

    names = ddmin(list(scenario.decisions), lambda some: still_breaks(with_decisions(some)))
    scenario = with_decisions(names)
    faults = ddmin(list(scenario.faults), lambda some: still_breaks(with_faults(some)))
    scenario = with_faults(faults)

    def breaks_with_steps(steps: list[Step]) -> bool:
        try:
            return still_breaks(with_steps(steps))
        except BKIncorrectParameterException:
            return False  # A fault names a client that has no other step.

    return with_steps(ddmin(list(scenario.workload), breaks_with_steps))


def ddmin(parts: list[T], still_breaks: Callable[[list[T]], bool]) -> list[T]:
    """As few of the parts as still break it: none of them can be taken away alone."""
    if not parts or still_breaks([]):
        return []
    size = len(parts)
    while True:
        size = max(1, size // 2)
        at = 0
        while at < len(parts):
            fewer = parts[:at] + parts[at + size :]
            if fewer and still_breaks(fewer):
                parts = fewer
            else:
                at += size
        if size == 1:
            return parts


# Smaller numbers


def _as_far_as_it_goes(
    scenario: Scenario,
    still_breaks: StillBreaks,
    simplify: Callable[[Scenario], Iterator[Scenario]],
) -> Scenario:
    rejected = 0
    while True:
        for at, simpler in enumerate(simplify(scenario)):
            # Those before were no good a moment ago, when another part was not as simple yet.
            if at >= rejected and still_breaks(simpler):
                scenario, rejected = simpler, at
                break
        else:
            return scenario


def shorter(scenario: Scenario) -> Iterator[Scenario]:
    """Fewer entries, and whatever happens at the last of them happens at the new last one."""
    for at, step in enumerate(scenario.workload):
        if not isinstance(step, Write):
            continue
        for entries in _smaller(step.entries):
            fewer = step.entries - entries
            steps = [_earlier(each, fewer, step) for each in scenario.workload]
            steps[at] = replace(_earlier(step, fewer, step), entries=entries)
            faults = [_earlier(each, fewer, step) for each in scenario.faults]
            decisions = {_renumbered(n, fewer): v for n, v in scenario.decisions.items()}
            yield replace(
                scenario, workload=tuple(steps), faults=tuple(faults), decisions=decisions
            )


def _earlier(part: T, fewer: int, step: Write) -> T:
    """A step or fault whose moment comes with so many entries fewer, each on Qw bookies."""
    moment = getattr(part, "when", None)
    if not isinstance(moment, On):
        return part
    of_an_entry = 1 if moment.kind in _ONCE_AN_ENTRY else step.write_quorum
    when = replace(moment, nth=max(1, moment.nth - fewer * of_an_entry))
    return replace(part, when=when)  # type: ignore[type-var]


def _renumbered(decision: str, fewer: int) -> str:
    name, _, number = decision.rpartition(" ")
    return f"{name} {max(0, int(number) - fewer)}"


def simpler_values(value: T, name: str = "") -> Iterator[T]:
    """The value with one thing simpler in it, in as many ways as there are; `name` is its field's.

    Each makes progress, so whoever goes on and on with one of them comes to an end.
    """
    ways: Iterator[Any] = iter(())
    if is_dataclass(value):
        ways = _simpler_fields(value)
    elif isinstance(value, tuple):
        ways = (
            (*value[:at], simpler, *value[at + 1 :])
            for at, part in enumerate(value)
            for simpler in simpler_values(part)
        )
    elif isinstance(value, dict):
        ways = (
            {**value, key: simpler}
            for key, part in value.items()
            for simpler in simpler_values(part)
        )
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        ways = _smaller(int(value)) if name in _COUNTS else _rounder(value)
    return ways


def _simpler_fields(value: Any) -> Iterator[Any]:
    for field in fields(value):
        if field.name in _KEPT:
            continue
        part, default = getattr(value, field.name), default_of(field)
        ways = [] if field.name in _SETTINGS else list(simpler_values(part, field.name))
        if field.name not in _COUNTS and isinstance(default, (bool, int, float, str, At, NoneType)):
            # Nothing is simpler than what need not be said.
            ways = [] if part == default else [default, *ways]
        for simpler in ways:
            # Some parts do not go with some others, and an odd combination is no scenario.
            with suppress(BKIncorrectParameterException):
                yield replace(value, **{field.name: simpler})


def _smaller(number: int) -> Iterator[int]:
    return (each for each in dict.fromkeys((1, 2, 3, number // 2, number - 1)) if 0 < each < number)


def _rounder(number: float) -> Iterator[float]:
    """Fewer digits, or as few and less.  Never 0, which often means that there is no limit."""
    round_ones = (1, 10, 100, 1000, float(f"{number:.1g}"), float(f"{number:.2g}"))
    for each in dict.fromkeys(map(type(number), round_ones)):
        if each > 0 and _weight(each) < _weight(number):
            yield each


def _weight(number: float) -> tuple[int, float]:
    return len(f"{number:.12g}".replace(".", "").strip("0")), abs(number)
