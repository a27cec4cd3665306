"""Near relatives of a scenario: the same cluster and work with a little more, or other, trouble."""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from labkit.worlds.sim.explore.scenarios.scenario_random import ScenarioRandom
from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.scenario.faults import Crash, Fault, Pause
from labkit.worlds.sim.scenario.metadata_faults import HangingMetadata, SessionLoss
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import At, Moment, On
from labkit.worlds.sim.workload.steps import Delete, Recover, Step
from tools.search.situations_reached import Situation

_HORIZON_MS = 100.0
_LEDGER = 0
_STRANGER = "z"
"""A client of no drawn scenario: checks tell recoveries apart by the client's name."""


def relative(scenario: Scenario, situation: Situation, lots: random.Random) -> Scenario:
    """The scenario, which has reached that situation, with other random decisions, and mostly with
    other faults.
    """
    faults = list(scenario.faults)
    seed = lots.getrandbits(40)
    if faults and lots.random() < 0.2:
        faults.pop(lots.randrange(len(faults)))
    if faults and lots.random() < 0.6:
        place = lots.randrange(len(faults))
        faults[place] = _at_another_moment(faults[place], situation, lots)
    scenario = replace(scenario, faults=tuple(faults), seed=seed)
    return storm(scenario, seed, lots.choice((0, 0, 1)), _HORIZON_MS)


def can_be_provoked(situation: Situation, scenario: Scenario) -> bool:
    """Whether `provoked` can try to bring that situation about in the scenario.

    A client beside the brokers has no business with their ledgers.
    """
    if situation.during is None or not situation.during.begins:
        return False
    known = _FAULTS if scenario.cluster.brokers else {**_FAULTS, **_STEPS}
    return any(kind in known for kind in situation.kinds)


def provoked(scenario: Scenario, situation: Situation, lots: random.Random) -> Scenario:
    """The scenario, in which the situation's activity has taken place, with other random decisions,
    and with the situation's event at the moment when the activity begins.
    """
    assert situation.during is not None
    seed = lots.getrandbits(40)
    when = On(lots.choice(situation.during.begins), lots.choice((1, 1, 1, 2, 3)))
    nodes = (*scenario.clients, *scenario.cluster.broker_names)
    drawn = ScenarioRandom(
        "provoked", seed, scenario.cluster, tuple(dict.fromkeys(nodes)), _HORIZON_MS
    )
    kind = next(kind for kind in situation.kinds if kind in _FAULTS or kind in _STEPS)
    if kind in _FAULTS:
        return replace(scenario.with_fault(_FAULTS[kind](drawn, when)), seed=seed)
    others = [step for step in scenario.workload if step.client != _STRANGER]
    return replace(scenario, workload=(*others, _STEPS[kind](when)), seed=seed)


_FAULTS: Mapping[str, Callable[[ScenarioRandom, Moment], Fault]] = {
    "node.killed": lambda draw, when: Crash(draw.node(), draw.unsynced(), draw.ms(), when),
    "session.lost": lambda draw, when: SessionLoss(draw.node(), when),
    "node.paused": lambda draw, when: Pause(draw.node(), draw.ms(), when),
    "metadata.hung": lambda draw, when: HangingMetadata(draw.ms(), when=when),
}
_STEPS: Mapping[str, Callable[[Moment], Step]] = {
    "recovery.started": lambda when: Recover(_LEDGER, _STRANGER, when),
    "ledger.fenced": lambda when: Recover(_LEDGER, _STRANGER, when),
    "ledger.deleted": lambda when: Delete(_LEDGER, _STRANGER, when),
}
"""Kinds of events, and what brings them about."""


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
