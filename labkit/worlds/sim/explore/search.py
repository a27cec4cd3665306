"""Runs many scenarios in several processes, and reports the promises that were broken.

    search(range(5000))                                    the correct system: finds nothing
    search(range(5000), variant="ack after one bookie")    stops at the first finding
    search([storm(mine, seed, 3) for seed in range(500)])  your own scenarios

A number stands for the scenario that is generated from this seed: a `random_scenario`, or a
`random_topic_scenario` if the variant needs brokers. Results are returned in the order of the
scenarios, regardless of the number of processes, so the first finding is always the same.
"""

import concurrent.futures
import gc
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from multiprocessing import get_context
from typing import ParamSpec, TypeVar

from labkit.system.check import CHECKS, Check, broken, check_all
from labkit.worlds.sim.explore.progress import ProgressLine
from labkit.worlds.sim.explore.scenarios.random_scenarios import random_scenario
from labkit.worlds.sim.explore.scenarios.random_topic_scenarios import random_topic_scenario
from labkit.worlds.sim.machine.garbage_collector import without_garbage_collection
from labkit.worlds.sim.machine.interrupt import OneThreadExecutor, awaited
from labkit.worlds.sim.machine.loop import SimulationError
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.variants.variants import VARIANTS

_P = ParamSpec("_P")
_T = TypeVar("_T")
_Item = TypeVar("_Item")

_BATCH_SIZE = 8
"""The number of scenarios that are passed to a process at a time."""

_BROKERS_EVERY = 5

NEVER_ENDS = "EveryRunEnds"
"""The name of the promise that a run breaks if it never ends."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A scenario, the promise that it broke (the name of a check), and a description of how it did
    so.
    """

    scenario: Scenario
    promise: str
    reason: str

    def __repr__(self) -> str:
        return f"{self.promise}: {self.reason}\n{self.scenario!r}"


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings in the first `tried` scenarios, and how many `seconds` the search took."""

    found: tuple[Finding, ...]
    tried: int
    seconds: float
    was_interrupted: bool = False

    @property
    def first(self) -> Finding | None:
        return self.found[0] if self.found else None

    def __repr__(self) -> str:
        head = f"{self.tried:,} scenarios in {self.seconds:.1f} s, {len(self.found)} findings"
        stopped = " (interrupted)" if self.was_interrupted else ""
        return "\n".join((head + stopped, *map(repr, self.found)))


def search(
    scenarios: Iterable[Scenario | int],
    *,
    variant: str | None = None,
    checks: Sequence[type[Check]] = CHECKS,
    stop_at: int = 1,
    jobs: int = 0,
    on_progress: Callable[[int, int], None] | None = None,
) -> Findings:
    """Try the scenarios in order until there are `stop_at` findings (0: try all).

    If `variant` is not None, every scenario runs with it. The search uses `jobs` processes (0: one
    per processor). If `jobs` is 1, the search runs in this process, which is necessary if checks or
    variants are defined in a notebook. `on_progress` is called with the number of scenarios tried
    and the number of broken promises found. If the search is interrupted, the findings so far are
    returned.
    """
    started_at = time.monotonic()
    found: list[Finding] = []
    tried, was_interrupted = 0, False
    report = on_progress or ProgressLine(len(scenarios) if isinstance(scenarios, Sequence) else 0)
    try:
        judge = partial(_judge_all, variant=variant, checks=tuple(checks))
        for findings in in_processes(judge, scenarios, jobs):
            tried += 1
            found += findings
            report(tried, len(found))
            if stop_at and len(found) >= stop_at:
                break
    except KeyboardInterrupt:
        was_interrupted = True
    return Findings(tuple(found), tried, time.monotonic() - started_at, was_interrupted)


def in_processes(
    work: Callable[[list[_Item]], list[_T]], items: Iterable[_Item], jobs: int
) -> Iterator[_T]:
    """Apply `work` to batches of items in `jobs` processes, and yield the results in order.

    Items are fetched as late as possible. At most about `_BATCH_SIZE` * (`jobs` + 1) results are
    pending at any time, so a new item can depend on all results except the pending ones. If `jobs`
    is 0, one process per processor is used.
    """
    jobs = jobs or os.cpu_count() or 1
    remaining = iter(items)
    pending: deque[concurrent.futures.Future[list[_T]]] = deque()
    pool = _pool(jobs)
    try:
        while True:
            while len(pending) <= jobs and (batch := list(islice(remaining, _BATCH_SIZE))):
                pending.append(pool.submit(work, batch))
            if not pending:
                return
            yield from awaited(pending.popleft())
    finally:
        pool.shutdown(cancel_futures=True)


class SynchronousExecutor(concurrent.futures.Executor):
    """Runs each call within `submit`, because neither threads nor processes are available in the
    browser.
    """

    def submit(
        self, call: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> concurrent.futures.Future[_T]:
        done: concurrent.futures.Future[_T] = concurrent.futures.Future()
        done.set_result(call(*args, **kwargs))
        return done


def _pool(jobs: int) -> concurrent.futures.Executor:
    """Return an executor with one thread if `jobs` is 1, else with `jobs` new processes.

    A thread can also be used in notebook cells. Processes are spawned rather than forked, because
    forking a process with threads may deadlock.
    """
    if sys.platform == "emscripten":
        return SynchronousExecutor()
    if jobs == 1:
        return OneThreadExecutor()
    return concurrent.futures.ProcessPoolExecutor(
        jobs, mp_context=get_context("spawn"), initializer=_ignore_interrupts
    )


def _ignore_interrupts() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _judge_all(
    scenarios: list[Scenario | int], variant: str | None, checks: tuple[type[Check], ...]
) -> list[list[Finding]]:
    with without_garbage_collection():
        findings = [run_and_check(scenario_of(each, variant), checks)[0] for each in scenarios]
    # Collect only young objects, because a full collection would take as long as half a run.
    gc.collect(1)
    return findings


def scenario_of_seed(seed: int, variant: str = "") -> Scenario:
    """Return the scenario that `labkit search` runs for a seed.

    Without a variant, every fifth scenario includes brokers.
    """
    if not variant and seed % _BROKERS_EVERY == 0:
        return random_topic_scenario(seed)
    return scenario_of(seed, variant)


def scenario_of(each: Scenario | int, variant: str | None) -> Scenario:
    """Return `each` or, if it is a seed, the scenario generated from it, and set the variant."""
    draw = random_topic_scenario if VARIANTS[variant or ""].with_brokers else random_scenario
    scenario = each if isinstance(each, Scenario) else draw(each)
    return scenario if variant is None else replace(scenario, variant=variant)


def run_and_check(
    scenario: Scenario, checks: Sequence[type[Check]] = CHECKS
) -> tuple[list[Finding], Trace | None]:
    """Run a scenario. Return the broken promises and the trace (None if the run did not end)."""
    try:
        trace = run(scenario)
        verdicts = check_all(trace, checks)
    except SimulationError as error:
        return [Finding(scenario, NEVER_ENDS, str(error))], None
    except Exception as error:
        error.add_note(f"in {scenario!r}")
        raise
    return [Finding(scenario, each.name, each.reason) for each in broken(verdicts)], trace
