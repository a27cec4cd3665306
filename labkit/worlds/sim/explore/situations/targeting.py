"""Aims a search at rare situations by mutating scenarios that came close to such situations.

Drawing new seeds does not benefit from earlier seeds that came close to a situation. This module
therefore stores the latest scenarios that reached each situation, picks a situation that few or no
seeds have reached, and mutates one of two kinds of scenarios:

    a scenario that reached the situation       by changing its seed and its faults
    a scenario that reached only its activity   by injecting the situation's event at that moment

`mutations` implements both. Mutations reach rare situations far more often than new seeds do.
"""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from labkit.worlds.sim.explore.situations.covered_situations import SITUATIONS
from labkit.worlds.sim.explore.situations.mutations import can_be_provoked, provoke, variation_of
from labkit.worlds.sim.explore.situations.situations_reached import Situation
from labkit.worlds.sim.scenario.scenario import Scenario

RARE = 0.01
"""A situation is rare if it was reached by at most this share of the seeds."""
LATEST = 4
"""How many of the latest scenarios are kept for each situation."""
_PROVOKED = 0.5
"""If both kinds of mutation are possible, this share of them injects the event."""


@dataclass(frozen=True, slots=True)
class Reached:
    """How often a situation was reached, the first seed that reached it, and the latest scenarios
    in which it was reached.
    """

    by_seeds: int = 0
    by_aimed: int = 0
    first_seed: int | None = None
    latest: tuple[Scenario, ...] = ()


class Aim:
    """Records the situations that were reached, and derives the next scenarios from this record."""

    def __init__(self, situations: Sequence[Situation] = SITUATIONS) -> None:
        self.reached = {each.name: Reached() for each in situations}
        self.seeds = 0
        """The number of seeds that have been run."""
        self._situations = situations

    def add(self, seeds: int, reached: Mapping[str, Reached]) -> None:
        """Record the situations that further runs reached. `seeds` is the number of these runs that
        were generated from a seed.
        """
        self.seeds += seeds
        for name, new in reached.items():
            if (old := self.reached.get(name)) is None:
                continue  # An earlier version of the code may have counted other situations.
            first_seeds = [each for each in (old.first_seed, new.first_seed) if each is not None]
            self.reached[name] = Reached(
                old.by_seeds + new.by_seeds,
                old.by_aimed + new.by_aimed,
                min(first_seeds, default=None),
                (*old.latest, *new.latest)[-LATEST:],
            )

    def is_rare(self, name: str) -> bool:
        return self.reached[name].by_seeds <= RARE * self.seeds

    def never_reached(self) -> list[str]:
        return [
            name for name, each in self.reached.items() if not each.by_seeds and not each.by_aimed
        ]

    def next(self, number: int) -> Scenario | None:
        """Return a scenario that comes close to a rare situation, or None if no such scenario is
        known yet.

        The rarer a situation is, the more likely it is to be chosen. The result depends only on
        `number` and the recorded scenarios.
        """
        aims = [each for each in self._situations if self._is_possible(each)]
        if not aims:
            return None
        rng = random.Random(f"aim {number}")
        counts = [self.reached[each.name] for each in aims]
        weights = [1 / (1 + each.by_seeds + each.by_aimed) for each in counts]
        (aim,) = rng.choices(aims, weights)
        near, latest = self._near(aim), self.reached[aim.name].latest
        if near and (not latest or rng.random() < _PROVOKED):
            return provoke(rng.choice(near), aim, rng)
        return variation_of(rng.choice(latest), aim, rng)

    def _is_possible(self, situation: Situation) -> bool:
        if not self.is_rare(situation.name):
            return False
        return bool(self.reached[situation.name].latest or self._near(situation))

    def _near(self, situation: Situation) -> list[Scenario]:
        """Return scenarios that reached the activity of the situation, possibly with a different
        event.
        """
        return [
            scenario
            for each in self._situations
            if each.during == situation.during
            for scenario in self.reached[each.name].latest
            if can_be_provoked(situation, scenario)
        ]
