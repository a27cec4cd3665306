"""Runs a scenario until a promise is broken, checking the events as they occur.

A broken promise stays broken, so the run can end at that moment. The rest of the workload and the
epilogue do not run, and later random decisions do not matter.
"""

import gc
from dataclasses import replace
from typing import NamedTuple

from labkit.system.check import Check, Outcome
from labkit.system.check.judge import Judge
from labkit.system.trace.events import Event
from labkit.worlds.sim.chosen_order import ChosenOrderWorld
from labkit.worlds.sim.machine.garbage_collector import without_garbage_collection
from labkit.worlds.sim.machine.loop import SimLoop, SimulationError
from labkit.worlds.sim.run import STEP_BUDGET
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.world import World


class BrokenRun(NamedTuple):
    """The part of a run up to the moment at which the promise was broken.

    The scenario has no seed, and contains only the decisions that had been made by then.
    `step_count` is the number of steps that the event loop had executed.
    """

    scenario: Scenario
    step_count: int


def replay_until_broken(
    scenario: Scenario, check: type[Check], step_budget: int = STEP_BUDGET
) -> BrokenRun | None:
    """Return the run, or None if the promise holds or the run exceeds `step_budget`."""
    with without_garbage_collection():
        found = _run(scenario, check, step_budget)
        # Free the world, which is full of reference cycles. All of its objects are young, so this
        # is fast.
        gc.collect(0)
    return found


def _run(scenario: Scenario, check: type[Check], step_budget: int) -> BrokenRun | None:
    world_class = _JudgedChosenOrder if scenario.in_turn else _JudgedWorld
    world = world_class(scenario, SimLoop(step_budget), check)
    try:
        world.loop.run(_live_and_outlast(world))
        is_broken = world.judge.verdicts()[0].outcome is Outcome.INVALID
    except _FoundBrokenError:
        is_broken = True
    except SimulationError:
        is_broken = False
    if not is_broken:
        return None
    explicit = replace(scenario, seed=None, decisions=dict(world.decisions.drawn))
    return BrokenRun(explicit, world.loop.event_count)


async def _live_and_outlast(world: World) -> None:
    await world.run()
    await world.outlast()


class _FoundBrokenError(Exception):
    pass


class _JudgedWorld(World):
    """A world that passes its events to a check, and ends when the promise is broken."""

    def __init__(self, scenario: Scenario, loop: SimLoop, check: type[Check]) -> None:
        super().__init__(scenario, loop)
        self._events: list[Event] = []
        self.judge = Judge(self._events, [check], self.results.recorded)
        self._on_idle = loop.on_idle
        loop.on_idle = self._end_or_continue

    def receive_events(self, rows: list[Event]) -> None:
        """Check the events before they trigger any faults, because the faults report further
        events.
        """
        if self.recording_stopped:
            return
        for row in rows:
            seq = len(self._events)
            event = row._replace(seq=seq)
            self._events.append(event)
            self.judge.handle(event)
        super().receive_events(rows)

    def _end_or_continue(self) -> bool:
        if self.judge.has_found_any:
            raise _FoundBrokenError
        return self._on_idle is not None and self._on_idle()


class _JudgedChosenOrder(_JudgedWorld, ChosenOrderWorld):
    pass
