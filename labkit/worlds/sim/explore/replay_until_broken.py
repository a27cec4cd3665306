"""A trial: whether a promise breaks in a scenario.  Its check follows the world's events.

A broken promise stays broken, so the run ends at once: neither the rest of the work nor the
epilogue is run, and later random decisions do not matter.
"""

import gc
from dataclasses import replace
from typing import NamedTuple

from labkit.system.check import Check, Outcome
from labkit.system.check.judge import Judge
from labkit.system.trace.events import Event
from labkit.system.trace.recorder import Row
from labkit.worlds.sim.chosen_order import ChosenOrderWorld
from labkit.worlds.sim.machine.garbage_collector import without_garbage_collection
from labkit.worlds.sim.machine.loop import SimLoop, SimulationError
from labkit.worlds.sim.run import STEP_BUDGET
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.world import World


class BrokenRun(NamedTuple):
    """The scenario without a seed, with only the decisions taken before the promise broke, and the
    number of steps of all nodes until then.
    """

    scenario: Scenario
    step_count: int


def replay_until_broken(
    scenario: Scenario, check: type[Check], step_budget: int = STEP_BUDGET
) -> BrokenRun | None:
    """How the promise breaks; None if it holds, or the run takes more than `step_budget` steps."""
    with without_garbage_collection():
        found = _run(scenario, check, step_budget)
        # A world is full of reference cycles, all of them young: collecting them costs little now.
        gc.collect(0)
    return found


def _run(scenario: Scenario, check: type[Check], step_budget: int) -> BrokenRun | None:
    kind = _JudgedChosenOrder if scenario.in_turn else _JudgedWorld
    world = kind(scenario, SimLoop(step_budget), check)
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
    await world.live()
    await world.outlast()


class _FoundBrokenError(Exception):
    """The promise broke: ends the run."""


class _JudgedWorld(World):
    """Shows its events to a check, and ends when the promise breaks."""

    def __init__(self, scenario: Scenario, loop: SimLoop, check: type[Check]) -> None:
        super().__init__(scenario, loop)
        self._events: list[Event] = []
        self.judge = Judge(self._events, [check], self.answers.noted)
        self._on_idle = loop.on_idle
        loop.on_idle = self._end_or_continue

    def take(self, rows: list[Row]) -> None:
        """Events of a node, judged before a fault that one of them triggers reports its own."""
        if self.has_ended:
            return
        for row in rows:
            seq = len(self._events)
            event = Event(seq, row.time_us, row.node, row.kind, -1, *row[3:])
            self._events.append(event)
            self.judge.take(event)
        super().take(rows)

    def _end_or_continue(self) -> bool:
        if self.judge.has_found_any:
            raise _FoundBrokenError
        return self._on_idle is not None and self._on_idle()


class _JudgedChosenOrder(_JudgedWorld, ChosenOrderWorld):
    """The same with messages that arrive in a chosen order."""
