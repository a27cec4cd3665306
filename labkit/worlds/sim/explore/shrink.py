"""Shrinks a scenario, that is, makes it as small as possible while it still breaks the same
promise.

    1  list every decision drawn from the seed, so that the scenario no longer needs the seed
    2  remove faults, steps and decisions: half of them, a quarter, ... and finally one at a time,
       as long as the promise still breaks (Zeller's ddmin)
    3  make numbers smaller and rounder, and reset settings to their defaults
    4  repeat from 2 until nothing changes

This is possible because each decision has a name, so removing one does not shift the others. Every
attempt keeps only the decisions that were made before the promise was broken, so removing large
parts first also removes most of the decisions. The result is the smallest scenario that these steps
can reach, not the smallest possible one.
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
"""Fields whose values are made smaller. Other fields are reset to their defaults or rounded."""
_ONCE_PER_ENTRY = ("add.pushed", "lac.advanced")
_SETTINGS = (
    *("flush_interval_ms", "gc_wait_time_ms", "session_timeout_ms"),
    *("autorecovery", "broker"),
)
"""Fields that are only reset to their defaults, because a run with other values may never end."""
_STEP_FACTOR, _EXTRA_STEPS = 4, 2000
"""The step limit of a run is this multiple of the number of steps in the last failing run, plus
some extra steps.
"""
_FIXED = ("variant", "seed", "limit_s", "in_turn", "storage")


@dataclass(frozen=True, slots=True)
class Shrunk:
    """The shrunk scenario, how it breaks its promise, and the number of runs and seconds that the
    shrinking took.
    """

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
    """Make a scenario that breaks a promise as small as possible within `patience_s` seconds of
    processor time. Because processor time is limited instead of elapsed time, a busy machine
    shrinks the scenario as far as an idle one. `promise` is the name of a check, or "" for the
    first promise that is broken.

    Raises `LookupError` if the promise is not broken, or if the run does not end. A run that does
    not end has no trace to check, and every attempt would take just as long.
    """
    started_at = time.monotonic()
    try:
        trace = run(scenario)
    except SimulationError as error:
        raise LookupError(
            f"cannot shrink a run that does not end ({error}); remove steps and faults by hand"
            f" as long as `run` raises this error: {scenario!r}"
        ) from error
    names = [each.name for each in broken(check_all(trace, checks))]
    if not names or (promise and promise not in names):
        raise LookupError(
            f"{promise or 'every promise'} holds in this run; choose a scenario that breaks a"
            f" promise: {scenario!r}"
        )
    promise = promise or names[0]
    (check,) = (each for each in checks if each.__name__ == promise)
    shrinker = _Shrinker(trace.explicit(), check, time.process_time() + patience_s)
    outside_event_loops(shrinker.run)
    (verdict,) = check_all(run(shrinker.scenario), [check])
    return Shrunk(shrinker.scenario, verdict, shrinker.run_count, time.monotonic() - started_at)


class _Shrinker:
    def __init__(self, scenario: Scenario, check: type[Check], deadline: float) -> None:
        self.scenario = scenario
        self.run_count = 0
        self._check = check
        self._deadline = deadline
        self._step_count = 0
        self._rejected: set[str] = set()

    def run(self) -> None:
        found = replay_until_broken(self.scenario, self._check)
        if found is None:
            raise AssertionError(f"the decisions do not reproduce the run: {self.scenario!r}")
        self.scenario, self._step_count = found
        before = None
        while self.scenario != before:
            is_first_time, before = before is None, self.scenario
            self._remove_parts(0 if is_first_time else 1)
            self._simplify_fully(with_fewer_entries)
            self._simplify_fully(simpler_values)

    def _accept(self, smaller: Scenario) -> bool:
        """Keep the scenario if it still breaks the promise, and return whether it was kept."""
        key = repr(smaller)
        if key in self._rejected or time.process_time() > self._deadline:
            return False
        self.run_count += 1
        found = replay_until_broken(
            smaller, self._check, _STEP_FACTOR * self._step_count + _EXTRA_STEPS
        )
        if found is None:
            self._rejected.add(key)
            return False
        self.scenario, self._step_count = found
        return True

    def _remove_parts(self, at_once: int) -> None:
        faults, steps = self.scenario.faults, self.scenario.workload
        ddmin(faults, lambda some: self._accept_parts(faults=some), at_once)
        ddmin(steps, lambda some: self._accept_parts(workload=some), at_once)
        ddmin(tuple(self.scenario.decisions), self._accept_decisions, at_once)

    def _accept_parts(self, **parts: Any) -> bool:
        try:
            smaller = replace(self.scenario, **parts)
        except BKIncorrectParameterException:
            # Some combinations are invalid, for example a fault that affects a client without any
            # steps.
            return False
        return self._accept(smaller)

    def _accept_decisions(self, names: tuple[str, ...]) -> bool:
        kept = {name: value for name, value in self.scenario.decisions.items() if name in names}
        # Some of these decisions may already have been removed together with others.
        is_less = len(kept) < len(self.scenario.decisions)
        return not is_less or self._accept(replace(self.scenario, decisions=kept))

    def _simplify_fully(self, simplify: Callable[[Scenario], Iterator[Scenario]]) -> None:
        index, candidates = 0, list(simplify(self.scenario))
        while index < len(candidates):
            if not self._accept(candidates[index]):
                index += 1
                continue
            # Continue with the candidates that follow this one. The earlier candidates have just
            # failed. They might succeed now, but they will be tried again in the next pass.
            remaining = len(candidates) - 1 - index
            candidates = list(simplify(self.scenario))
            index = max(0, min(index, len(candidates) - remaining))


def ddmin(
    parts: tuple[T, ...], still_breaks: Callable[[tuple[T, ...]], bool], at_once: int = 0
) -> tuple[T, ...]:
    """Return a subset of the parts for which `still_breaks` returns true. At first, try to remove
    up to `at_once` parts at a time (0: no limit), then fewer and fewer.
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


def with_fewer_entries(scenario: Scenario) -> Iterator[Scenario]:
    """Yield scenarios with fewer entries. Triggers that wait for the last entry are moved to the
    new last entry.
    """
    for at, step in enumerate(scenario.workload):
        if not isinstance(step, Write):
            continue
        for entries in _smaller(step.entries):
            fewer = step.entries - entries
            steps = [_move_trigger(each, fewer, step) for each in scenario.workload]
            steps[at] = replace(_move_trigger(step, fewer, step), entries=entries)
            faults = [_move_trigger(each, fewer, step) for each in scenario.faults]
            decisions = {_renumber(n, fewer): v for n, v in scenario.decisions.items()}
            yield replace(
                scenario, workload=tuple(steps), faults=tuple(faults), decisions=decisions
            )


def _move_trigger(part: T, fewer: int, step: Write) -> T:
    """Return the step or fault with its trigger moved to an earlier event, by `fewer` entries.

    Most events occur Qw times per entry, once for each bookie to which the entry is written.
    """
    moment = getattr(part, "when", None)
    if not isinstance(moment, On):
        return part
    per_entry = 1 if moment.kind in _ONCE_PER_ENTRY else step.write_quorum
    when = replace(moment, nth=max(1, moment.nth - fewer * per_entry))
    return replace(part, when=when)  # type: ignore[type-var]


def _renumber(decision: str, fewer: int) -> str:
    name, _, number = decision.rpartition(" ")
    return f"{name} {max(0, int(number) - fewer)}"


def simpler_values(value: T, name: str = "") -> Iterator[T]:
    """Yield all versions of the value in which a single part has been simplified.

    `name` is the name of the field that holds the value. Each result is strictly simpler than the
    value, so repeated simplification terminates.
    """
    candidates: Iterator[Any] = iter(())
    if is_dataclass(value):
        candidates = _simpler_fields(value)
    elif isinstance(value, tuple):
        candidates = (
            (*value[:at], simpler, *value[at + 1 :])
            for at, part in enumerate(value)
            for simpler in simpler_values(part)
        )
    elif isinstance(value, dict):
        candidates = (
            {**value, key: simpler}
            for key, part in value.items()
            for simpler in simpler_values(part)
        )
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        candidates = _smaller(int(value)) if name in _COUNTS else _rounder(value)
    return candidates


def _simpler_fields(value: Any) -> Iterator[Any]:
    for field in fields(value):
        if field.name in _FIXED:
            continue
        part, default = getattr(value, field.name), default_of(field)
        candidates = [] if field.name in _SETTINGS else list(simpler_values(part, field.name))
        if field.name not in _COUNTS and isinstance(default, (bool, int, float, str, At, NoneType)):
            # The default counts as the simplest value, because it can be omitted.
            candidates = [] if part == default else [default, *candidates]
        for simpler in candidates:
            # Some combinations of values do not form a valid scenario.
            with suppress(BKIncorrectParameterException):
                yield replace(value, **{field.name: simpler})


def _smaller(number: int) -> Iterator[int]:
    return (each for each in dict.fromkeys((1, 2, 3, number // 2, number - 1)) if 0 < each < number)


def _rounder(number: float) -> Iterator[float]:
    """Yield numbers that are smaller or have fewer digits. Never yield 0, which often means "no
    limit".
    """
    candidates = (1, 10, 100, 1000, float(f"{number:.1g}"), float(f"{number:.2g}"))
    for each in dict.fromkeys(map(type(number), candidates)):
        if each > 0 and _weight(each) < _weight(number):
            yield each


def _weight(number: float) -> tuple[int, float]:
    return len(f"{number:.12g}".replace(".", "").strip("0")), abs(number)
