"""Aims a search at rare situations: what got into one is changed a little and tried again.

A seed knows nothing of what other seeds reached.  Here a scenario that got into a situation which
few runs reach stays in stock, and its near relatives are tried: other chance, another moment for a
fault, a fault more or less.  They reach that situation, and others close to it, far more often than
new seeds do.
"""

import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from labkit.sim.explore.meetings import Situation
from labkit.sim.explore.protocol_situations import SITUATIONS
from labkit.sim.explore.storm import storm
from labkit.sim.faults import Fault
from labkit.sim.moments import At, On
from labkit.sim.scenario import Scenario

RARE = 0.01
"""A situation is rare when fewer seeds than that share of all have reached it."""
_IN_STOCK = 8
"""How many scenarios are kept of a rare situation: the latest ones."""
_FEW = 10
"""With so few seeds a situation may turn out to be rare."""
_HORIZON_MS = 100.0


@dataclass(slots=True)
class Reached:
    """How many seeds and aimed runs got into a situation, the first seed that did, and scenarios
    that did.
    """

    by_seeds: int = 0
    by_aimed: int = 0
    first_seed: int | None = None
    stock: list[Scenario] = field(default_factory=list)


class Aim:
    """What was reached so far, and what is to be tried because of that."""

    def __init__(self, situations: Sequence[Situation] = SITUATIONS) -> None:
        self.reached = {each.name: Reached() for each in situations}
        self.seeds = 0
        """How many seeds were tried."""
        self._situations = {each.name: each for each in situations}

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
            if reached.by_seeds <= _FEW or self.is_rare(name):
                reached.stock = [*reached.stock[1 - _IN_STOCK :], scenario]
            else:
                reached.stock = []

    def is_rare(self, name: str) -> bool:
        """Whether few seeds got into that situation, or none did."""
        return self.reached[name].by_seeds <= RARE * self.seeds

    def never_reached(self) -> list[str]:
        """The situations that no run got into."""
        return [
            name for name, each in self.reached.items() if not each.by_seeds and not each.by_aimed
        ]

    def next(self, number: int) -> Scenario | None:
        """A near relative of a scenario in stock, the same one for the same `number` and stock;
        None while there is none.  The less a situation was reached, the likelier it is the aim.
        """
        aims = [name for name, each in self.reached.items() if each.stock and self.is_rare(name)]
        if not aims:
            return None
        lots = random.Random(f"aim {number}")
        counts = [self.reached[name].by_seeds + self.reached[name].by_aimed for name in aims]
        (name,) = lots.choices(aims, [1 / (1 + count) for count in counts])
        return _changed(lots.choice(self.reached[name].stock), self._situations[name], lots)


def _changed(scenario: Scenario, situation: Situation, lots: random.Random) -> Scenario:
    """The scenario with other chance, and mostly with other faults, too."""
    faults = list(scenario.faults)
    seed = lots.getrandbits(40)
    if faults and lots.random() < 0.2:
        faults.pop(lots.randrange(len(faults)))
    if faults and lots.random() < 0.6:
        place = lots.randrange(len(faults))
        faults[place] = _at_another_moment(faults[place], situation, lots)
    scenario = replace(scenario, faults=tuple(faults), seed=seed)
    return storm(scenario, seed, lots.choice((0, 0, 1)), _HORIZON_MS)


def _at_another_moment(fault: Fault, situation: Situation, lots: random.Random) -> Fault:
    """A little earlier or later, or when what the situation is about begins."""
    when = fault.when
    begins = situation.during.begins if situation.during is not None else ()
    if begins and lots.random() < 0.3:
        when = On(lots.choice(begins), lots.choice((1, 1, 2, 3)))
    elif isinstance(when, At):
        when = At(float(f"{when.ms * lots.uniform(0.5, 1.5):.3g}"))
    else:
        when = replace(when, nth=max(1, when.nth + lots.choice((-2, -1, 1, 2))))
    return replace(fault, when=when)
