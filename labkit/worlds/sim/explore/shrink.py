"""Shrinking: the smallest scenario in which the same promise still breaks.

    1  every decision that the seed drew is named: the scenario no longer needs the seed
    2  faults, steps and decisions are removed: half of them, a quarter, ... one at a time, as long
       as the promise still breaks (Zeller's ddmin)
    3  numbers become smaller and rounder, and settings get their defaults
    4  again from 2, until nothing changes

This is possible because each decision has a name, so removing one does not shift the others. Every
attempt keeps only the decisions that were taken before the promise broke: so large parts go first,
and most decisions go with them.  The result is the smallest that these steps reach, not the
smallest possible.
"""

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, is_dataclass, replace
from types import NoneType
from typing import Any, TypeVar

from labkit.system.check import CHECKS, Check, Verdict, broken, check_all
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.sim.explore.replay_until_broken import replay_until_broken
from labkit.worlds.sim.machine.loop import SimulationError
from labkit.worlds.sim.run import outside_event_loops, run
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.scenario_values import default_of
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.workload.steps import Write

T = TypeVar("T")

_COUNTS = (
    *("bookies", "entries", "ensemble", "write_quorum", "ack_quorum", "polls", "nth"),
    *("brokers", "messages"),
)
"""Fields that become smaller; others get their defaults, or become rounder."""
_ONCE_AN_ENTRY = ("add.pushed", "lac.advanced")
_SETTINGS = (
    *("flush_interval_ms", "gc_wait_time_ms", "session_timeout_ms"),
    *("autorecovery", "broker"),
)
"""Fields that keep their value or get their default: with other values a run may never end."""
_LONGER, _START_STEPS = 4, 2000
"""A run may take `_LONGER` times the steps of the last one that broke the promise, plus
`_START_STEPS`: a run that takes longer is not simpler.
"""
_KEPT = ("variant", "seed", "limit_s", "in_turn", "storage")


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The smallest scenario, how its promise breaks, and the runs and time it took to find."""

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
    """Make a scenario that breaks a promise (a check's name; "": the first that breaks) as small as
    possible within `patience_s`.

    Raises `LookupError` when the promise does not break in it, and for a run without end: what
    never ends has no trace that a check could judge, and each attempt would take as long again.
    """
    began = time.monotonic()
    try:
        trace = run(scenario)
    except SimulationError as error:
        raise LookupError(
            f"a run that does not end cannot be shrunk ({error}); leave out steps and faults by"
            f" hand while `run` raises this error: {scenario!r}"
        ) from error
    names = [each.name for each in broken(check_all(trace, checks))]
    if not names or (promise and promise not in names):
        raise LookupError(f"{promise or 'no promise'} breaks in {scenario!r}")
    promise = promise or names[0]
    (check,) = (each for each in checks if each.__name__ == promise)
    smaller = _Smaller(trace.explicit(), check, began + patience_s)
    outside_event_loops(smaller.run)
    (verdict,) = check_all(run(smaller.scenario), [check])
    return Shrunk(smaller.scenario, verdict, smaller.run_count, time.monotonic() - began)


class _Smaller:
    """A scenario that becomes smaller and smaller."""

    def __init__(self, scenario: Scenario, check: type[Check], deadline: float) -> None:
        self.scenario = scenario
        self.run_count = 0
        self._check = check
        self._deadline = deadline
        self._step_count = 0
        self._no_good: set[str] = set()

    def run(self) -> None:
        """Simplify until nothing changes."""
        found = replay_until_broken(self.scenario, self._check)
        if found is None:
            raise AssertionError(f"its decisions give another run: {self.scenario!r}")
        self.scenario, self._step_count = found
        before = None
        while self.scenario != before:
            is_first_time, before = before is None, self.scenario
            self._with_fewer_parts(0 if is_first_time else 1)
            self._as_far_as_it_goes(shorter)
            self._as_far_as_it_goes(simpler_values)

    def _is_good(self, smaller: Scenario) -> bool:
        """Whether the promise breaks there too; if so, it replaces the scenario.  Always False once
        the time is up.
        """
        key = repr(smaller)
        if key in self._no_good or time.monotonic() > self._deadline:
            return False
        self.run_count += 1
        found = replay_until_broken(smaller, self._check, _LONGER * self._step_count + _START_STEPS)
        if found is None:
            self._no_good.add(key)
            return False
        self.scenario, self._step_count = found
        return True

    def _with_fewer_parts(self, at_once: int) -> None:
        """Keep as few faults, steps and decisions as possible."""
        faults, steps = self.scenario.faults, self.scenario.workload
        ddmin(faults, lambda some: self._is_good_with(faults=some), at_once)
        ddmin(steps, lambda some: self._is_good_with(workload=some), at_once)
        ddmin(tuple(self.scenario.decisions), self._is_good_with_decisions, at_once)

    def _is_good_with(self, **parts: Any) -> bool:
        try:
            smaller = replace(self.scenario, **parts)
        except BKIncorrectParameterException:
            return False  # A fault names a client that has no other step.
        return self._is_good(smaller)

    def _is_good_with_decisions(self, names: tuple[str, ...]) -> bool:
        left = {name: to for name, to in self.scenario.decisions.items() if name in names}
        # Some of the decisions may have gone with others already.
        is_less = len(left) < len(self.scenario.decisions)
        return not is_less or self._is_good(replace(self.scenario, decisions=left))

    def _as_far_as_it_goes(self, simplify: Callable[[Scenario], Iterator[Scenario]]) -> None:
        place, ways = 0, list(simplify(self.scenario))
        while place < len(ways):
            if not self._is_good(ways[place]):
                place += 1
                continue
            # Earlier ones did not help a moment ago, when another part was not as simple yet.
            behind = len(ways) - 1 - place
            ways = list(simplify(self.scenario))
            place = max(0, min(place, len(ways) - behind))


def ddmin(
    parts: tuple[T, ...], still_breaks: Callable[[tuple[T, ...]], bool], at_once: int = 0
) -> tuple[T, ...]:
    """The fewest parts that still break it: no single one of them can be removed.  Up to `at_once`
    are removed together (0: all).
    """
    size = at_once or len(parts)
    while size:
        at = 0
        while at < len(parts):
            fewer = parts[:at] + parts[at + size :]
            if still_breaks(fewer):
                parts = fewer
            else:
                at += size
        size = min(size, len(parts)) // 2
    return parts


# Smaller numbers


def shorter(scenario: Scenario) -> Iterator[Scenario]:
    """Fewer entries; an event at the last entry moves to the new last one."""
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
    """The step or fault, its moment moved as for `fewer` entries less, each on Qw bookies."""
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
    """Every way to make one thing in the value simpler; `name` is the name of its field.

    Each is strictly simpler, so simplifying again and again comes to an end.
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
            # A default is the simplest value: it need not be written.
            ways = [] if part == default else [default, *ways]
        for simpler in ways:
            # Some parts exclude others, and such a combination is not a scenario.
            with suppress(BKIncorrectParameterException):
                yield replace(value, **{field.name: simpler})


def _smaller(number: int) -> Iterator[int]:
    return (each for each in dict.fromkeys((1, 2, 3, number // 2, number - 1)) if 0 < each < number)


def _rounder(number: float) -> Iterator[float]:
    """Numbers with fewer digits, or as many and smaller.  Never 0, which often means no limit."""
    round_ones = (1, 10, 100, 1000, float(f"{number:.1g}"), float(f"{number:.2g}"))
    for each in dict.fromkeys(map(type(number), round_ones)):
        if each > 0 and _weight(each) < _weight(number):
            yield each


def _weight(number: float) -> tuple[int, float]:
    return len(f"{number:.12g}".replace(".", "").strip("0")), abs(number)
