"""Run a scenario: a plain call, in a notebook too."""

import asyncio
import gc
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from typing import TypeVar

from labkit.system.trace.log import TraceLog
from labkit.worlds.sim.chosen_order import ChosenOrderWorld
from labkit.worlds.sim.machine.garbage_collector import without_garbage_collection
from labkit.worlds.sim.machine.interrupt import OneThreadExecutor, awaited
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.nodes.bookie_node import BookieNode
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.world import World

T = TypeVar("T")

STEP_BUDGET = 5_000_000
"""The largest number of steps in a run; one with more counts as endless."""
_TIME_LIMIT_S = 3600.0


def run(scenario: Scenario) -> Trace:
    """Run a scenario in the simulated world and return its trace.

    A notebook's cells run inside an event loop, so there the world runs in a separate thread.
    Raises `SimulationError` when the protocol never comes to rest.
    """
    return outside_event_loops(partial(_run, scenario))


def outside_event_loops(call: Callable[[], T]) -> T:
    """Make the call where it can run event loops, and return its result.

    An interrupt ends what the call runs in a simulated world, and is raised here.
    """
    try:
        running = asyncio.get_running_loop()
    except RuntimeError:
        return call()
    if sys.platform == "emscripten":  # A browser's Python has no threads.
        return _in_place_of(running, call)
    with OneThreadExecutor() as thread:
        return awaited(thread.submit(call))


def _in_place_of(running: asyncio.AbstractEventLoop, call: Callable[[], T]) -> T:
    # The calls that asyncio documents for writing event loops.
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
    """What happens in each, one after the other; quicker than as many calls of `run`.  Not for a
    notebook's cell: use it in a search's own thread or process.
    """
    with without_garbage_collection():
        for scenario in scenarios:
            yield _run(scenario)


def _run(scenario: Scenario) -> Trace:
    with without_garbage_collection():
        trace = _live(scenario)
        # A world is full of cycles, and all its objects are young: this costs little now.
        gc.collect(0)
    return trace


def _live(scenario: Scenario) -> Trace:
    loop = SimLoop(STEP_BUDGET, _TIME_LIMIT_S)
    return live((ChosenOrderWorld if scenario.in_turn else World)(scenario, loop))


def live(world: World) -> Trace:
    """Run the scenario in a new world.  Raises `SimulationError`."""
    return world.loop.run(_live_and_outlast(world))


async def _live_and_outlast(world: World) -> Trace:
    await world.live()
    trace = trace_of(world)
    await world.outlast()
    return replace(trace, answers=tuple(world.answers.noted))


def trace_of(world: World) -> Trace:
    """The trace of a world as it is."""
    log = TraceLog()
    log.add(world.rows)
    log.settle()
    bookies = (node for node in world.nodes.values() if isinstance(node, BookieNode))
    disk_calls = tuple(call for bookie in bookies for call in bookie.disk_calls)
    return Trace(
        world.scenario,
        tuple(log.events),
        dict(world.decisions.drawn),
        tuple(world.network.transit.parcels),
        tuple(world.choices),
        disk_calls,
        tuple(world.answers.noted),
        world.loop.event_count,
        world.loop.now,
        run,
    )
