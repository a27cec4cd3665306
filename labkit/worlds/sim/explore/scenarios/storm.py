"""Bad weather: faults drawn from a seed and written into a scenario, one by one.

Every storm has a few kinds of faults, and a moment around which many of them happen: if all kinds
were spread evenly over the time, faults would rarely coincide, and most mistakes need two that do.
"""

from collections.abc import Callable
from dataclasses import replace

from labkit.worlds.sim.explore.scenarios.scenario_random import Lots
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
    SlowDisk,
)
from labkit.worlds.sim.scenario.metadata_faults import SessionLoss, SlowMetadata
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import Moment

_AT_THE_CENTER = 0.4


def storm(scenario: Scenario, seed: int, fault_count: int, horizon_ms: float = 100.0) -> Scenario:
    """The scenario with `fault_count` more faults, each within `horizon_ms`, and with the seed."""
    clients = tuple(dict.fromkeys(step.client for step in scenario.workload))
    lots = Lots(f"storm {seed}", scenario.cluster, clients, horizon_ms)
    kinds = lots.some_of(_KINDS, lots.one_of(2, 4, len(_KINDS)))
    center = lots.moment()
    faults = []
    for _ in range(fault_count):
        when = center if lots.chance(_AT_THE_CENTER) else lots.moment()
        faults.append(lots.one_of(*kinds)(lots, when))
    return replace(scenario.with_fault(*faults), seed=seed)


def _share(lots: Lots) -> float:
    return lots.one_of(0.1, 0.3, 0.6)


def _direction(lots: Lots) -> str:
    return lots.one_of("both", "in", "out")


def _partition(lots: Lots, when: Moment) -> Fault:
    one, other = lots.way()
    others = lots.one_of((), (other,))
    return Partition((one,), others, _direction(lots), lots.ms(), when)


def _skew(lots: Lots, when: Moment) -> Fault:
    return ClockSkew(lots.node(), lots.one_of(0.5, 0.9, 1.1, 2.0), 0, lots.ms(), when)


def _rot(lots: Lots, when: Moment) -> Fault:
    return BitRot(lots.bookie(), "entry log", lots.late_part(), when, lots.one_of(1, 512))


_KINDS: tuple[Callable[[Lots, Moment], Fault], ...] = (
    lambda lots, when: Crash(lots.bookie(), lots.fate(), lots.ms(), when),
    lambda lots, when: Crash(lots.client(), lots.fate(), lots.ms(), when),
    lambda lots, when: CrashAtOperation(
        lots.bookie(), lots.number(1, 20), lots.fate(), lots.ms(), when
    ),
    lambda lots, when: PowerCut(lots.fate(), lots.ms(), when),
    lambda lots, when: Pause(lots.node(), lots.ms(), when),
    lambda lots, when: SlowDisk(lots.bookie(), lots.ms(30), lots.ms(), when),
    lambda lots, when: FailingSync(lots.bookie(), lots.ms(), when),
    lambda lots, when: FullDisk(lots.bookie(), lots.ms(), when),
    _rot,
    lambda lots, when: Delay(*lots.way(), lots.ms(30), lots.ms(), when),
    lambda lots, when: Loss(*lots.way(), _share(lots), lots.ms(), when),
    lambda lots, when: Duplication(*lots.way(), _share(lots), lots.ms(), when),
    lambda lots, when: Reordering(*lots.way(), _share(lots), lots.ms(), when),
    _partition,
    lambda lots, when: Reset(*lots.way(), when),
    _skew,
    lambda lots, when: SessionLoss(lots.node(), when),
    lambda lots, when: SlowMetadata(lots.ms(30), lots.ms(), when),
)
