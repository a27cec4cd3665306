"""Adds a storm to a scenario: faults drawn from a seed.

A storm has only a few kinds of faults, many of which happen at about the same moment. Most bugs
show up only if two faults coincide, which would rarely happen if all kinds of faults were spread
evenly over time.
"""

from collections.abc import Callable
from dataclasses import replace

from labkit.worlds.sim.explore.scenarios.scenario_random import ScenarioRandom
from labkit.worlds.sim.scenario import faults
from labkit.worlds.sim.scenario.faults import Fault
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import Moment

_CENTER_SHARE = 0.4


def storm(scenario: Scenario, seed: int, fault_count: int, horizon_ms: float = 100.0) -> Scenario:
    """Return the scenario with this seed and with `fault_count` additional faults within
    `horizon_ms`.
    """
    draw = ScenarioRandom("storm", seed, scenario.cluster, scenario.clients, horizon_ms)
    kinds = draw.some_of(_KINDS, draw.one_of(2, 4, len(_KINDS)))
    center = draw.moment()
    found = []
    for _ in range(fault_count):
        when = center if draw.chance(_CENTER_SHARE) else draw.moment()
        found.append(draw.one_of(*kinds)(draw, when))
    return replace(scenario.with_fault(*found), seed=seed)


def _share(draw: ScenarioRandom) -> float:
    return draw.one_of(0.1, 0.3, 0.6)


def _partition(draw: ScenarioRandom, when: Moment) -> Fault:
    source, target = draw.link()
    others = draw.one_of((), (target,))
    return faults.Partition((source,), others, draw.one_of("both", "in", "out"), draw.ms(), when)


def _skew(draw: ScenarioRandom, when: Moment) -> Fault:
    return faults.ClockSkew(draw.node(), draw.one_of(0.5, 0.9, 1.1, 2.0), 0, draw.ms(), when)


def _rot(draw: ScenarioRandom, when: Moment) -> Fault:
    return faults.BitRot(
        draw.bookie(), "entry log", draw.position_in_file(), when, draw.one_of(1, 512)
    )


_KINDS: tuple[Callable[[ScenarioRandom, Moment], Fault], ...] = (
    lambda draw, when: faults.Crash(draw.bookie(), draw.unsynced(), draw.ms(), when),
    lambda draw, when: faults.Crash(draw.client(), draw.unsynced(), draw.ms(), when),
    lambda draw, when: faults.CrashAtOperation(
        draw.bookie(), draw.number(1, 20), draw.unsynced(), draw.ms(), when
    ),
    lambda draw, when: faults.PowerCut(draw.unsynced(), draw.ms(), when),
    lambda draw, when: faults.Pause(draw.node(), draw.ms(), when),
    lambda draw, when: faults.SlowDisk(draw.bookie(), draw.ms(30), draw.ms(), when),
    lambda draw, when: faults.FailingSync(draw.bookie(), draw.ms(), when),
    lambda draw, when: faults.FullDisk(draw.bookie(), draw.ms(), when),
    _rot,
    lambda draw, when: faults.Delay(*draw.link(), draw.ms(30), draw.ms(), when),
    lambda draw, when: faults.Loss(*draw.link(), _share(draw), draw.ms(), when),
    lambda draw, when: faults.Duplication(*draw.link(), _share(draw), draw.ms(), when),
    lambda draw, when: faults.Reordering(*draw.link(), _share(draw), draw.ms(), when),
    _partition,
    lambda draw, when: faults.Reset(*draw.link(), when),
    _skew,
    lambda draw, when: faults.SessionLoss(draw.node(), when),
    lambda draw, when: faults.SlowMetadata(draw.ms(30), draw.ms(), when),
)
