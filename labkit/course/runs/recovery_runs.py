"""Scenarios of lesson 08 in which another client recovers a ledger, each designed to reveal one
kind of bug.
"""

from collections.abc import Iterator
from dataclasses import replace

from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.scenario.faults import BitRot, Crash, Delay, Fault, Partition, Pause
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.workload.steps import Recover, Write

STORM_COUNT = 6


def writer_dies() -> Scenario:
    """The writer dies while it is adding entries, and all bookies respond."""
    return Scenario(
        Cluster(3),
        (Write(entries=9, window=3, every_ms=0.4), Recover(when=At(12.0))),
        (Crash("w", when=On("lac.advanced", 4)),),
        ends_in_power_cut=False,
    )


def nothing_was_written() -> Scenario:
    """The writer created its ledger, but no bookie ever received a request for it."""
    return Scenario(
        Cluster(3),
        (Write(entries=1), Recover(when=At(4.0))),
        (Partition(("w",), ("b0", "b1", "b2")), Crash("w", when=At(3.6))),
        ends_in_power_cut=False,
    )


def fresh_ensemble() -> Scenario:
    """Both bookies were replaced, and the writer died before it sent anything to the new ones."""
    return Scenario(
        Cluster(4),
        (
            Write(entries=8, window=2, ensemble=2, write_quorum=2, ack_quorum=2, every_ms=1.0),
            Recover(when=At(60.0)),
        ),
        (
            Delay("w", "b2", 50.0),
            Delay("w", "b3", 50.0),
            Crash("b0", down_ms=20.0, when=On("lac.advanced", 3)),
            Crash("b1", down_ms=20.0, when=On("lac.advanced", 3)),
            Crash("w", when=On("ensemble.set", 2)),
        ),
        ends_in_power_cut=False,
    )


def silent_bookie() -> Scenario:
    """b0 and b1 acknowledged the last entry, and b2 never received it.

    When r looks for the entry, b1 is down and b0 does not respond for a while.
    """
    return Scenario(
        Cluster(3),
        (Write(entries=4, window=1, close=False), Recover(when=At(30.0))),
        (
            Partition(("w",), ("b2",), when=On("add.pushed", 3)),
            Crash("w", when=At(18.0)),
            Crash("b1", when=At(20.0)),
            Pause("b0", 8000.0, On("recovery.covered")),
        ),
        ends_in_power_cut=False,
        limit_s=20.0,
    )


def damaged_bookie() -> Scenario:
    """Like `silent_bookie`, but b1 is up with a corrupt entry log."""
    base = silent_bookie()
    faults = (
        *base.faults[:2],
        *(BitRot("b1", "entry log", part / 20, At(400.0)) for part in range(20)),
        Crash("b1", down_ms=50.0, when=At(300.0)),
        Delay("b0", "r", 5.0, when=At(20.0)),
    )
    late = Recover(when=At(500.0))
    return replace(base, faults=faults, workload=(base.workload[0], late))


def old_writer() -> Scenario:
    """The writer is only paused, and resumes after its ledger has been recovered."""
    return Scenario(
        Cluster(3),
        (Write(entries=9, window=3, every_ms=1.0), Recover(when=At(9.0))),
        (Pause("w", 15.0, At(7.0)),),
        ends_in_power_cut=False,
    )


def storms() -> Iterator[Scenario]:
    """Random faults, and two clients that recover the ledger at about the same time."""
    for seed in range(STORM_COUNT):
        sizes = ((3, 3, 2), (3, 2, 2), (4, 3, 2), (3, 3, 3))[seed % 4]
        readers = Recover(when=At(10.0)), Recover(client="s", when=At(11.0))
        steps = Write(0, 12, *sizes, window=6), *readers
        yield storm(Scenario(Cluster(5), steps), seed, fault_count=3)


def damaged_copy() -> Scenario:
    """Entries 2 and 3 are on b0 and b1 only; b1's copies are damaged and b0 is slow to respond."""
    write = Write(entries=4, window=1, close=False)
    faults: tuple[Fault, ...] = (
        Partition(("w",), ("b2",), when=On("add.pushed", 3)),
        Crash("w", when=At(18.0)),
        Crash("b1", down_ms=50.0, when=At(300.0)),
        *(BitRot("b1", "entry log", part / 20, At(400.0)) for part in range(20)),
        Delay("b0", "r", 5.0),
    )
    return Scenario(Cluster(3), (write, Recover(when=At(500.0))), faults)
