"""Mutates scenarios: adds or modifies faults, but keeps the cluster and the workload."""

import random
from collections.abc import Callable, Mapping
from dataclasses import replace

from labkit.worlds.sim.explore.scenarios.scenario_random import ScenarioRandom
from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.explore.situations.situations_reached import Situation
from labkit.worlds.sim.scenario.faults import Crash, Fault, HangingMetadata, Pause, SessionLoss
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import At, Moment, On
from labkit.worlds.sim.workload.steps import Delete, Recover, Step

_HORIZON_MS = 100.0
_LEDGER = 0
_STRANGER = "z"
"""A client name that never occurs in random scenarios, because checks identify a recovery by its
client.
"""


def variation_of(scenario: Scenario, situation: Situation, rng: random.Random) -> Scenario:
    """Return a variation of a scenario in which the situation was reached.

    The variation has a new seed and, usually, modified faults.
    """
    faults = list(scenario.faults)
    seed = rng.getrandbits(40)
    if faults and rng.random() < 0.2:
        faults.pop(rng.randrange(len(faults)))
    if faults and rng.random() < 0.6:
        index = rng.randrange(len(faults))
        faults[index] = _at_another_moment(faults[index], situation, rng)
    scenario = replace(scenario, faults=tuple(faults), seed=seed)
    return storm(scenario, seed, rng.choice((0, 0, 1)), _HORIZON_MS)


def can_be_provoked(situation: Situation, scenario: Scenario) -> bool:
    """Return whether `provoke` can trigger the situation's event in the scenario."""
    if situation.during is None or not situation.during.begins:
        return False
    # In scenarios with brokers, no other clients may use the ledgers, so do not inject steps.
    injectable = _FAULTS if scenario.cluster.brokers else {**_FAULTS, **_STEPS}
    return situation.kind in injectable


def provoke(scenario: Scenario, situation: Situation, rng: random.Random) -> Scenario:
    """Return a mutation that triggers the situation's event at the moment the activity begins.

    The given scenario must have reached the activity. The mutation also has a new seed.
    """
    assert situation.during is not None
    seed = rng.getrandbits(40)
    when = On(rng.choice(situation.during.begins), rng.choice((1, 1, 1, 2, 3)))
    nodes = (*scenario.clients, *scenario.cluster.broker_names)
    drawn = ScenarioRandom(
        "provoked", seed, scenario.cluster, tuple(dict.fromkeys(nodes)), _HORIZON_MS
    )
    if situation.kind in _FAULTS:
        return replace(scenario.with_fault(_FAULTS[situation.kind](drawn, when)), seed=seed)
    others = [step for step in scenario.workload if step.client != _STRANGER]
    return replace(scenario, workload=(*others, _STEPS[situation.kind](when)), seed=seed)


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
"""Maps kinds of events to the faults and steps that cause them."""


def _at_another_moment(fault: Fault, situation: Situation, rng: random.Random) -> Fault:
    """Move the fault a little earlier or later, or to the beginning of the situation's activity."""
    when = fault.when
    begins = situation.during.begins if situation.during is not None else ()
    if begins and rng.random() < 0.3:
        when = On(rng.choice(begins), rng.choice((1, 1, 2, 3)))
    elif isinstance(when, At):
        when = At(float(f"{when.ms * rng.uniform(0.5, 1.5):.3g}"))
    else:
        when = replace(when, nth=max(1, when.nth + rng.choice((-2, -1, 1, 2))))
    return replace(fault, when=when)
