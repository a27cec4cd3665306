"""Aims a search at rare situations, with near relatives of scenarios that came close to them.

A seed knows nothing of what other seeds reached.  Here the latest scenarios that reached each
situation are in stock.  The aim is a situation that few seeds reached, or none did:

    it is in stock       a relative of what reached it: other random decisions, another fault
    its activity is      what reached the activity, and now its event is made to happen then

`relatives` makes both.  They reach rare situations far more often than new seeds do.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from labkit.worlds.sim.scenario.scenario import Scenario
from tools.search.covered_situations import SITUATIONS
from tools.search.mutations import can_be_provoked, provoked, relative
from tools.search.situations_reached import Situation

RARE = 0.01
"""A situation is rare when at most this share of the seeds has reached it."""
_IN_STOCK = 4
"""How many scenarios are kept of a situation: the latest ones."""
_PROVOKED = 0.5
"""The share of provoked scenarios where a relative is possible as well."""


@dataclass(slots=True)
class Reached:
    """How many seeds and aimed runs reached a situation, the first seed that did, and the latest
    scenarios that did.
    """

    by_seeds: int = 0
    by_aimed: int = 0
    first_seed: int | None = None
    stock: list[Scenario] = field(default_factory=list)


class Aim:
    """What was reached so far, and the scenarios to try next because of it."""

    def __init__(self, situations: Sequence[Situation] = SITUATIONS) -> None:
        self.reached = {each.name: Reached() for each in situations}
        self.seeds = 0
        """How many seeds were tried."""
        self._situations = situations

    def note(self, scenario: Scenario, names: Iterable[str], seed: int | None) -> None:
        """Take in what a run reached: of that seed, or with None of an aimed scenario."""
        if seed is not None:
            self.seeds += 1
        for name in names:
            reached = self.reached[name]
            if seed is None:
                reached.by_aimed += 1
            else:
                reached.by_seeds += 1
                if reached.first_seed is None:
                    reached.first_seed = seed
            reached.stock = [*reached.stock[1 - _IN_STOCK :], scenario]

    def is_rare(self, name: str) -> bool:
        """Whether few seeds reached that situation, or none did."""
        return self.reached[name].by_seeds <= RARE * self.seeds

    def never_reached(self) -> list[str]:
        """The situations that no run reached."""
        return [
            name for name, each in self.reached.items() if not each.by_seeds and not each.by_aimed
        ]

    def next(self, number: int) -> Scenario | None:
        """A scenario that comes close to a rare situation, the same one for the same `number` and
        stock; None while there is none.  The rarer a situation is, the likelier it is the aim.
        """
        aims = [each for each in self._situations if self._is_possible(each)]
        if not aims:
            return None
        lots = random.Random(f"aim {number}")
        counts = [self.reached[each.name] for each in aims]
        weights = [1 / (1 + each.by_seeds + each.by_aimed) for each in counts]
        (aim,) = lots.choices(aims, weights)
        near, stock = self._near(aim), self.reached[aim.name].stock
        if near and (not stock or lots.random() < _PROVOKED):
            return provoked(lots.choice(near), aim, lots)
        return relative(lots.choice(stock), aim, lots)

    def _is_possible(self, situation: Situation) -> bool:
        if not self.is_rare(situation.name):
            return False
        return bool(self.reached[situation.name].stock or self._near(situation))

    def _near(self, situation: Situation) -> list[Scenario]:
        """Scenarios that reached what the situation's activity is, without its event."""
        return [
            scenario
            for each in self._situations
            if each.during == situation.during
            for scenario in self.reached[each.name].stock
            if can_be_provoked(situation, scenario)
        ]
