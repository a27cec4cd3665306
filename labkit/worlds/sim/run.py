"""Runs a scenario by an ordinary function call, which also works in a notebook."""

import asyncio
import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeVar

from labkit.system.trace.log import TraceLog
from labkit.worlds.sim.chosen_order import ChosenOrderWorld
from labkit.worlds.sim.future_world import FutureInChosenOrder, FutureWorld
from labkit.worlds.sim.machine.garbage_collector import without_garbage_collection
from labkit.worlds.sim.machine.interrupt import OneThreadExecutor, awaited
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.world import World

T = TypeVar("T")

STEP_BUDGET = 5_000_000
"""The maximum number of steps in a run. A run that exceeds this limit is considered endless."""


def run(scenario: Scenario, step_budget: int = STEP_BUDGET) -> Trace:
    """Run a scenario in the simulated world and return its trace. In a notebook, whose cells run
    inside an event loop, the world runs in a separate thread. Raises `SimulationError` if the run
    deadlocks or takes more steps than `step_budget`.
    """
    return outside_event_loops(partial(_run, scenario, step_budget))


def outside_event_loops(call: Callable[[], T]) -> T:
    """Make a call outside any running event loop, so that the call can start its own event loop.
    Return the result of the call.

    An interrupt stops the simulated world that the call is running and is re-raised here.
    """
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        return call()
    if sys.platform == "emscripten":  # In a browser, Python has no threads.
        return _without_running_loop(running, call)
    with OneThreadExecutor() as thread:
        return awaited(thread.submit(call))


def _without_running_loop(running: asyncio.AbstractEventLoop, call: Callable[[], T]) -> T:
    # asyncio documents these calls for implementers of event loops.
    task = asyncio.current_task(running)
    if task is not None:
        asyncio.tasks._leave_task(running, task)
    asyncio._set_running_loop(None)
    try:
        return call()
    finally:
        asyncio._set_running_loop(running)
        if task is not None:
            asyncio.tasks._enter_task(running, task)


def run_all(scenarios: Iterable[Scenario]) -> Iterator[Trace]:
    """Run the scenarios one after another and yield their traces.

    This is faster than calling `run` for each scenario. However, this function does not work in a
    notebook cell; call it in a separate thread or process.
    """
    with without_garbage_collection():
        for scenario in scenarios:
            yield _run(scenario)


def run_future(scenario: Scenario, moment_us: int, seed: int) -> Trace:
    """Run the scenario, but make other decisions after the given moment, and do not inject any more
    faults.

    `moment_us` is in microseconds of virtual time. The decisions after this moment are drawn from
    `seed`. The scenario of the returned trace lists the decisions and faults that occurred, so it
    fully describes the new run. Raises `SimulationError` if the run does not end.
    """
    world_class = FutureInChosenOrder if scenario.in_turn else FutureWorld
    new_world = partial(world_class, scenario, moment_us=moment_us, seed=seed)
    trace = outside_event_loops(partial(_run_new, new_world, STEP_BUDGET))
    struck = [fault for _, fault in trace.struck]
    faults = tuple(fault for fault in scenario.faults if fault in struck)
    return replace(trace, scenario=replace(trace.explicit(), faults=faults))


def _run(scenario: Scenario, step_budget: int = STEP_BUDGET) -> Trace:
    world_class = ChosenOrderWorld if scenario.in_turn else World
    return _run_new(partial(world_class, scenario), step_budget)


def _run_new(new_world: Callable[[SimLoop], World], step_budget: int) -> Trace:
    with without_garbage_collection():
        trace = run_world(new_world(SimLoop(step_budget)))
        # Free the world. It is full of reference cycles, but all of its objects are young, so this
        # is fast.
        gc.collect(0)
    return trace


def run_world(world: World) -> Trace:
    """Run a new world's scenario and return the trace. Raises `SimulationError`."""
    return world.loop.run(_run_and_outlast(world))


async def _run_and_outlast(world: World) -> Trace:
    await world.run()
    trace = trace_of(world)
    await world.outlast()
    return replace(trace, answers=tuple(world.results.recorded))


def trace_of(world: World) -> Trace:
    log = TraceLog()
    log.add(world.rows)
    log.settle()
    disk_calls = (call for each in world.bookies.values() for call in each.disk_faults.calls)
    return Trace(
        world.scenario,
        tuple(log.events),
        dict(world.decisions.drawn),
        dict(world.decisions.made_at_us),
        tuple(world.struck),
        tuple(world.network.transit.parcels),
        tuple(world.choices),
        tuple(disk_calls),
        tuple(world.results.recorded),
        world.loop.event_count,
        world.loop.now,
        run,
        run_future,
    )
