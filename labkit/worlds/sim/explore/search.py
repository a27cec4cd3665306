"""Search: runs many scenarios in several processes, and reports which promises broke.

    search(range(5000))                                    the real protocol: finds nothing
    search(range(5000), variant="ack after one bookie")    until the first finding
    search([storm(mine, seed, 3) for seed in range(500)])  your own scenarios

A number stands for the scenario that `drawn` makes of it, or `drawn_topic` if the variant needs
brokers.  Results come in the order of the scenarios, whatever the number of processes, so the first
finding is always the same.
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
from labkit.worlds.sim.explore.scenarios.random_scenarios import drawn
from labkit.worlds.sim.explore.scenarios.random_topic_scenarios import drawn_topic
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

_AT_ONCE = 8
"""The number of scenarios that a process gets at a time."""

NEVER_ENDS = "EveryRunEnds"
"""The promise that a run breaks if the protocol loops without end."""


@dataclass(frozen=True, slots=True)
class Finding:
    """A scenario, the promise that broke in it (its check's name), and how, in one sentence."""

    scenario: Scenario
    promise: str
    reason: str

    def __repr__(self) -> str:
        return f"{self.promise}: {self.reason}\n{self.scenario!r}"


@dataclass(frozen=True, slots=True)
class Findings:
    """The findings of a search in the first `tried` scenarios, and the `seconds` it took."""

    found: tuple[Finding, ...]
    tried: int
    seconds: float
    was_interrupted: bool = False

    @property
    def first(self) -> Finding | None:
        """The first finding, if there is one."""
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
    """Try one scenario after the other, up to `stop_at` findings (0: all scenarios).

    `variant` is put into every scenario; None leaves them as they are.  `jobs` processes work (0:
    one for each processor); with 1 the search stays in this process, which it must to use checks
    and variants defined in a notebook.  `on_progress` is called with the number of scenarios tried
    and of promises found broken.  An interrupt ends the search and keeps its findings.
    """
    began = time.monotonic()
    found: list[Finding] = []
    tried, was_interrupted = 0, False
    tell = on_progress or ProgressLine(len(scenarios) if isinstance(scenarios, Sequence) else 0)
    try:
        judge = partial(_judge_all, variant=variant, checks=tuple(checks))
        for findings in in_processes(judge, scenarios, jobs):
            tried += 1
            found += findings
            tell(tried, len(found))
            if stop_at and len(found) >= stop_at:
                break
    except KeyboardInterrupt:
        was_interrupted = True
    return Findings(tuple(found), tried, time.monotonic() - began, was_interrupted)


def in_processes(
    work: Callable[[list[_Item]], list[_T]], items: Iterable[_Item], jobs: int
) -> Iterator[_T]:
    """What `work` makes of the items, a few at a time, in their order; `jobs` as in `search`.

    An item is drawn when some `_AT_ONCE` * (`jobs` + 1) results before its own are missing, no
    earlier: it may depend on those before them.
    """
    jobs = jobs or os.cpu_count() or 1
    left = iter(items)
    under_way: deque[concurrent.futures.Future[list[_T]]] = deque()
    pool = _pool(jobs)
    try:
        while True:
            while len(under_way) <= jobs and (some := list(islice(left, _AT_ONCE))):
                under_way.append(pool.submit(work, some))
            if not under_way:
                return
            yield from awaited(under_way.popleft())
    finally:
        pool.shutdown(cancel_futures=True)


class SynchronousExecutor(concurrent.futures.Executor):
    """Makes each call before `submit` returns: a browser's Python has no threads or processes."""

    def submit(
        self, call: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs
    ) -> concurrent.futures.Future[_T]:
        """The call's result, already done; an exception is raised here, not kept."""
        done: concurrent.futures.Future[_T] = concurrent.futures.Future()
        done.set_result(call(*args, **kwargs))
        return done


def _pool(jobs: int) -> concurrent.futures.Executor:
    """One thread, so that this also works in a notebook's cell, or new processes; they are not
    forked, since a fork of a process with threads may hang.
    """
    if sys.platform == "emscripten":
        return SynchronousExecutor()
    if jobs == 1:
        return OneThreadExecutor()
    return concurrent.futures.ProcessPoolExecutor(
        jobs, mp_context=get_context("spawn"), initializer=_leave_interrupts_to_the_parent
    )


def _leave_interrupts_to_the_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _judge_all(
    scenarios: list[Scenario | int], variant: str | None, checks: tuple[type[Check], ...]
) -> list[list[Finding]]:
    with without_garbage_collection():
        findings = [judged_run(scenario_of(each, variant), checks)[0] for each in scenarios]
    # What the runs left is young; a collection of all objects takes as long as half a run.
    gc.collect(1)
    return findings


def scenario_of(each: Scenario | int, variant: str | None) -> Scenario:
    """The scenario with that variant in it; a number is a seed."""
    draw = drawn_topic if VARIANTS[variant or ""].with_brokers else drawn
    scenario = each if isinstance(each, Scenario) else draw(each)
    return scenario if variant is None else replace(scenario, variant=variant)


def judged_run(
    scenario: Scenario, checks: Sequence[type[Check]] = CHECKS
) -> tuple[list[Finding], Trace | None]:
    """What broke in the scenario's run, and the run; None if it never came to rest."""
    try:
        trace = run(scenario)
        verdicts = check_all(trace, checks)
    except SimulationError as error:
        return [Finding(scenario, NEVER_ENDS, str(error))], None
    except Exception as error:
        error.add_note(f"in {scenario!r}")
        raise
    return [Finding(scenario, each.name, each.reason) for each in broken(verdicts)], trace
