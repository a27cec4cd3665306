"""Bad weather: faults drawn from a seed and written into a scenario, one by one."""

import random
from collections.abc import Callable
from dataclasses import replace

from labkit.sim.faults import (
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
from labkit.sim.moments import At, Moment, On
from labkit.sim.scenario import Scenario

_TURNS = ("add.sent", "journal.appended", "journal.synced", "add.acked", "lac.advanced")
"""Events at which a fault may strike: where an entry goes from one state to the next."""
_FATES = ("kept", "lost", "torn", "lot")


def storm(scenario: Scenario, seed: int, fault_count: int, horizon_ms: float = 100.0) -> Scenario:
    """The scenario with that many faults more, each within `horizon_ms`, and with that seed."""
    lots = random.Random(f"storm {seed}")
    drawn = [_draw(scenario, lots, horizon_ms) for _ in range(fault_count)]
    return replace(scenario.with_fault(*drawn), seed=seed)


def _draw(scenario: Scenario, lots: random.Random, horizon_ms: float) -> Fault:
    bookie = lots.choice(scenario.cluster.names)
    nodes = (*scenario.cluster.names, *dict.fromkeys(step.client for step in scenario.workload))
    node, other = lots.sample(nodes, 2)
    for_ms = _round(lots.uniform(1, horizon_ms))
    when = _moment(lots, horizon_ms)
    fate, share = lots.choice(_FATES), lots.choice((0.1, 0.3, 0.6))
    makers: tuple[Callable[[], Fault], ...] = (
        lambda: Crash(bookie, fate, for_ms, when),
        lambda: Crash(node, fate, for_ms, when),
        lambda: CrashAtOperation(bookie, lots.randrange(1, 20), fate, for_ms, when),
        lambda: PowerCut(fate, for_ms, when),
        lambda: Pause(node, for_ms, when),
        lambda: SlowDisk(bookie, _round(lots.uniform(1, 30)), for_ms, when),
        lambda: FailingSync(bookie, for_ms, when),
        lambda: FullDisk(bookie, for_ms, when),
        lambda: BitRot(bookie, "entry log", _round(lots.random()), when),
        lambda: Delay(node, other, _round(lots.uniform(1, 30)), for_ms, when),
        lambda: Loss(node, other, share, for_ms, when),
        lambda: Duplication(node, other, share, for_ms, when),
        lambda: Reordering(node, other, share, for_ms, when),
        lambda: Partition((node,), (other,), lots.choice(("both", "in", "out")), for_ms, when),
        lambda: Partition((node,), (), lots.choice(("both", "in", "out")), for_ms, when),
        lambda: Reset(node, other, when),
        lambda: ClockSkew(node, lots.choice((0.5, 0.9, 1.1, 2.0)), 0, for_ms, when),
        lambda: SessionLoss(node, when),
        lambda: SlowMetadata(_round(lots.uniform(1, 30)), for_ms, when),
    )
    return lots.choice(makers)()


def _moment(lots: random.Random, horizon_ms: float) -> Moment:
    if lots.random() < 0.5:
        return At(_round(lots.uniform(0, horizon_ms)))
    return On(lots.choice(_TURNS), lots.randrange(1, 60))


def _round(value: float) -> float:
    return float(f"{value:.3g}")
