"""Scenarios of lesson 07: writers whose bookies fail, each designed to reveal one kind of bug."""

from collections.abc import Iterator

from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.scenario.faults import Crash, Delay
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.workload.steps import Recover, Write

STORM_COUNT = 6


def both_bookies_fail() -> Scenario:
    """Each entry needs both bookies' acknowledgements, and both bookies die while all adds are in
    flight.
    """
    kept = {"disk": "kept", "when": On("add.sent", 1)}
    return Scenario(
        Cluster(4),
        (Write(entries=3, ensemble=2, write_quorum=2, ack_quorum=2),),
        (Crash("b0", **kept), Crash("b1", **kept)),  # type: ignore[arg-type]
        ends_in_power_cut=False,
    )


def a_later_add_fails() -> Scenario:
    """b2 responds first, and dies while the two others are still working on the same entries."""
    slow = (Delay("w", name, 6.0, 12.0) for name in ("b0", "b1"))
    return Scenario(
        Cluster(4),
        (Write(entries=5, window=5, every_ms=1.5),),
        (*slow, Crash("b2", when=At(7.0))),
        ends_in_power_cut=False,
    )


def a_bookie_fails_in_the_middle() -> Scenario:
    """b1 dies after some entries have been confirmed."""
    return Scenario(
        Cluster(4),
        (Write(entries=8, window=3, ensemble=3, write_quorum=2, ack_quorum=2),),
        (Crash("b1", when=On("lac.advanced", 3)),),
        ends_in_power_cut=False,
    )


def storms() -> Iterator[Scenario]:
    """Writers with various ensembles and quorums, random faults, and a client that recovers a
    ledger.
    """
    for seed in range(STORM_COUNT):
        sizes = ((3, 3, 2), (3, 2, 2), (2, 2, 2), (4, 3, 2))[seed % 4]
        steps = Write(0, 12, *sizes, window=6), Recover(when=At(15.0))
        dies = Crash(f"b{seed % 3}", when=On("lac.advanced", 1 + seed))
        yield storm(Scenario(Cluster(6), steps, (dies,)), seed, fault_count=2)
