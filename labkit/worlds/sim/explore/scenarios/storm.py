"""Adds a storm to a scenario: faults drawn from a seed.

A storm has only a few kinds of faults, many of which happen at about the same moment. Most bugs
show up only if two faults coincide, which would rarely happen if all kinds of faults were spread
evenly over time.
"""

from collections.abc import Callable
from dataclasses import replace

from labkit.worlds.sim.explore.scenarios.scenario_random import ScenarioRandom
from labkit.worlds.sim.scenario.faults import (
    BitRot,
    ClockSkew,
    Crash,
    CrashAtOperation,
    Delay,
    Duplication,
    FailingSync,
    Fault,
    FullDisk,
    Loss,
    Partition,
    Pause,
    PowerCut,
    Reordering,
    Reset,
    SessionLoss,
    SlowDisk,
    SlowMetadata,
)
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
    faults = []
    for _ in range(fault_count):
        when = center if draw.chance(_CENTER_SHARE) else draw.moment()
        faults.append(draw.one_of(*kinds)(draw, when))
    return replace(scenario.with_fault(*faults), seed=seed)


def _share(draw: ScenarioRandom) -> float:
    return draw.one_of(0.1, 0.3, 0.6)


def _partition(draw: ScenarioRandom, when: Moment) -> Fault:
    source, target = draw.link()
    others = draw.one_of((), (target,))
    return Partition((source,), others, draw.one_of("both", "in", "out"), draw.ms(), when)


def _skew(draw: ScenarioRandom, when: Moment) -> Fault:
    return ClockSkew(draw.node(), draw.one_of(0.5, 0.9, 1.1, 2.0), 0, draw.ms(), when)


def _rot(draw: ScenarioRandom, when: Moment) -> Fault:
    return BitRot(draw.bookie(), "entry log", draw.position_in_file(), when, draw.one_of(1, 512))


_KINDS: tuple[Callable[[ScenarioRandom, Moment], Fault], ...] = (
    lambda draw, when: Crash(draw.bookie(), draw.unsynced(), draw.ms(), when),
    lambda draw, when: Crash(draw.client(), draw.unsynced(), draw.ms(), when),
    lambda draw, when: CrashAtOperation(
        draw.bookie(), draw.number(1, 20), draw.unsynced(), draw.ms(), when
    ),
    lambda draw, when: PowerCut(draw.unsynced(), draw.ms(), when),
    lambda draw, when: Pause(draw.node(), draw.ms(), when),
    lambda draw, when: SlowDisk(draw.bookie(), draw.ms(30), draw.ms(), when),
    lambda draw, when: FailingSync(draw.bookie(), draw.ms(), when),
    lambda draw, when: FullDisk(draw.bookie(), draw.ms(), when),
    _rot,
    lambda draw, when: Delay(*draw.link(), draw.ms(30), draw.ms(), when),
    lambda draw, when: Loss(*draw.link(), _share(draw), draw.ms(), when),
    lambda draw, when: Duplication(*draw.link(), _share(draw), draw.ms(), when),
    lambda draw, when: Reordering(*draw.link(), _share(draw), draw.ms(), when),
    _partition,
    lambda draw, when: Reset(*draw.link(), when),
    _skew,
    lambda draw, when: SessionLoss(draw.node(), when),
    lambda draw, when: SlowMetadata(draw.ms(30), draw.ms(), when),
)
