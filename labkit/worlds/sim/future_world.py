"""A world that repeats a run up to a given moment, and makes new decisions from then on."""

from labkit.worlds.sim.chosen_order import ChosenOrderWorld
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.scenario.faults import Fault
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.world import World

BEFORE_THE_RUN_US = -1
"""A moment before the first step and the first fault, after which every decision is drawn again."""


class FutureWorld(World):
    """After `moment_us` (µs of virtual time), this world draws all decisions from `seed` and
    injects no more faults.
    """

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


class FutureInChosenOrder(FutureWorld, ChosenOrderWorld):
    pass
