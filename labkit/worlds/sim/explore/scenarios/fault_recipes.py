"""Situations that clusters get into, with their details drawn at random.

Faults alone rarely do harm; they do when they coincide with a client's actions.  So a situation is
faults together with the steps that they affect: a ledger is taken over while its writer lives, or
its bookies restart, or it is deleted; a client needs data that a disk has lost, or an absent
bookie.  Its clients have distinct names: checks tell recoveries apart by the client's name.
"""

from collections.abc import Callable
from dataclasses import replace

from labkit.worlds.sim.explore.scenarios.scenario_random import Lots
from labkit.worlds.sim.scenario.faults import (
    BitRot,
    Crash,
    Delay,
    Fault,
    Loss,
    Partition,
    Pause,
    Reordering,
    SlowStart,
)
from labkit.worlds.sim.scenario.metadata_faults import HangingMetadata, LaggingMetadata, SessionLoss
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, Moment, On
from labkit.worlds.sim.workload.steps import Delete, Read, Recover, Step, Write

Parts = tuple[list[Step], list[Fault]]

_DELETED = 2
"""The ledger of `with_a_deletion`, beside those of the workload."""
_OF_AN_ADD = ("add.sent", "add.acked", "lac.advanced")
_OF_RECOVERY = ("recovery.started", "ledger.fenced", "recovery.covered", "recovery.ended")


def in_a_situation(scenario: Scenario, lots: Lots) -> Scenario:
    """The scenario with none, one or two of the situations."""
    for situation in lots.some_of(_SITUATIONS, lots.one_of(0, 1, 1, 2)):
        steps, faults = situation(lots, scenario.cluster)
        scenario = replace(
            scenario,
            workload=(*scenario.workload, *steps),
            faults=(*scenario.faults, *faults),
        )
    return scenario


def with_metadata_trouble(scenario: Scenario, lots: Lots) -> Scenario:
    """The scenario.  Sometimes the metadata store hangs for about as long as sessions last, or a
    bookie loses its session while it starts: mostly in scenarios with autorecovery, which reacts.
    Sometimes the server that answers a node is behind the others.
    """
    if lots.chance(0.1):
        lag_ms = lots.between(0.05, 1) * lots.horizon_ms
        scenario = scenario.with_fault(LaggingMetadata(lots.bookie(), lag_ms))
    if not lots.chance(0.1 if scenario.cluster.autorecovery is None else 0.4):
        return scenario
    if lots.chance(0.3):
        return scenario.with_fault(*_session_lost_at_a_start(lots))
    return _hanging_metadata(scenario, lots)


def _hanging_metadata(scenario: Scenario, lots: Lots) -> Scenario:
    """Mostly without a lost-bookie delay, which hides lists that are read too early.  With an
    auditor, half of the time without other faults: it restarts when a request fails.
    """
    cluster = scenario.cluster
    if cluster.autorecovery is not None and lots.chance(0.7):
        hasty = replace(cluster.autorecovery, lost_bookie_recovery_delay_s=0)
        cluster = replace(cluster, autorecovery=hasty)
    for_ms = lots.between(0.7, 3) * cluster.session_timeout_ms
    shares = lots.one_of(0.3, 0.5, 0.7), lots.one_of(0.2, 0.5)
    hangs = HangingMetadata(for_ms, *shares, At(lots.between(0, lots.horizon_ms / 3)))
    scenario = replace(scenario, cluster=cluster)
    if cluster.autorecovery is not None and lots.chance(0.5):
        write = Write(entries=40, every_ms=lots.horizon_ms / 40)
        scenario = replace(scenario, workload=(write,), faults=())
    return scenario.with_fault(hangs)


def _session_lost_at_a_start(lots: Lots) -> list[Fault]:
    bookie, when = lots.bookie(), lots.moment()
    return [
        SlowStart(bookie, lots.between(5, 50)),
        Crash(bookie, lots.fate(), lots.ms(lots.horizon_ms / 4), when),
        SessionLoss(bookie, On("bookie.registered", node=bookie)),
    ]


def _takeover(lots: Lots, _: Cluster) -> Parts:
    """The ledger is recovered while its writer lives; the recovering client fails, and another one
    takes over.  One bookie is far from both.
    """
    far = lots.bookie()

    def turn() -> Moment:
        return lots.turn(*_OF_RECOVERY, "ensemble.changing")

    second = lots.turn(*_OF_RECOVERY, "ensemble.changing", "node.killed")
    steps: list[Step] = [
        Recover(client="s", when=lots.turn(*_OF_AN_ADD)),
        Recover(client="t", when=second),
    ]
    troubles: tuple[tuple[float, tuple[Callable[[], Fault], ...]], ...] = (
        (
            0.7,
            (
                lambda: Crash("s", "lost", lots.ms(), turn()),
                lambda: Pause("s", lots.ms(), turn()),
                lambda: Loss("s", far, 0.5),
                lambda: Reordering("s", far, 0.5),
            ),
        ),
        (
            0.7,
            (
                lambda: Pause("w", lots.ms(), turn()),
                lambda: Partition(("w",), ("zk",), "both", lots.ms(), turn()),
                lambda: Delay("w", far, lots.ms(30)),
                lambda: Delay("w", far, lots.ms(30)),
            ),
        ),
        (0.4, (lambda: Crash(lots.bookie(), lots.fate(), lots.ms(), turn()),)),
    )
    return steps, [lots.one_of(*faults)() for share, faults in troubles if lots.chance(share)]


def _restart(lots: Lots, cluster: Cluster) -> Parts:
    """Most bookies restart, at once or one by one, often when the ledger changes hands."""
    fate, down_ms = lots.fate(), lots.ms(lots.horizon_ms / 5)
    names = [name for name in cluster.names if lots.chance(0.8)]
    steps: list[Step] = [Recover(client="u", when=lots.turn(*_OF_AN_ADD))]
    if lots.chance(0.7):
        is_soon = lots.chance(0.7)
        when = lots.turn(*_OF_RECOVERY, "ledger.closed") if is_soon else lots.moment()
        return steps, [Crash(name, fate, down_ms, when) for name in names]
    first, gap_ms = lots.time(), lots.ms(lots.horizon_ms / 4)
    return steps, [
        Crash(name, fate, down_ms, At(first.ms + place * gap_ms))
        for place, name in enumerate(names)
    ]


def _rotten_disk(lots: Lots, cluster: Cluster) -> Parts:
    """Data that a bookie has flushed is damaged, and then a client needs it."""
    rotten = At(lots.between(1, 4) * cluster.flush_interval_ms)
    needed = At(rotten.ms + lots.ms())
    faults: list[Fault] = [
        BitRot(lots.bookie(), "entry log", lots.late_part(), rotten, lots.one_of(1, 512))
        for _ in range(lots.one_of(1, 1, 2))
    ]
    if lots.chance(0.5):
        faults.append(Crash("w", "lost", when=At(lots.between(0, rotten.ms))))
    return [_needs_it(lots, "m", needed)], faults


def _absence(lots: Lots, cluster: Cluster) -> Parts:
    """A bookie is away, about as long as its session lasts, and a client needs it."""
    away, when = lots.bookie(), lots.moment()
    for_ms = lots.between(0, 4) * cluster.session_timeout_ms
    faults: tuple[Fault, ...] = (
        Crash(away, lots.fate(), for_ms, when),
        Partition((away,), (), lots.one_of("both", "in", "out"), for_ms, when),
    )
    return [_needs_it(lots, "n", lots.one_of(when, lots.moment()))], [lots.one_of(*faults)]


def with_a_deletion(scenario: Scenario, lots: Lots) -> Scenario:
    """The scenario; one in eight has a further ledger.

    That is deleted while its writer pauses, often after a recovery, and the writer comes back about
    when bookies have collected the ledger.  Drawn separately: the other situations and the storm
    decide which bookies restart in the meantime.
    """
    if not lots.chance(1 / 8):
        return scenario
    deleted, gc_wait_ms = At(lots.between(20, 200)), scenario.cluster.gc_wait_time_ms
    size, quorum = lots.one_of((1, 1), (2, 2), (3, 2), (3, 3))
    size = min(size, scenario.cluster.bookies)
    writer = Write(
        _DELETED,
        lots.one_of(1, 2, 2, 5),
        size,
        size,
        min(quorum, size),
        pause_ms=deleted.ms + lots.between(gc_wait_ms / 2, gc_wait_ms * 2.5),
        client="c",
    )
    steps: list[Step] = [writer, Delete(_DELETED, "d", deleted)]
    if lots.chance(0.6):
        steps.append(Recover(_DELETED, "e", At(lots.between(0, deleted.ms))))
    return replace(scenario, workload=(*scenario.workload, *steps))


def _needs_it(lots: Lots, client: str, when: Moment) -> Step:
    steps: tuple[Step, ...] = (
        Recover(client=client, when=when),
        Read(polls=lots.number(1, 8), poll_ms=lots.ms(), client=client, when=when),
    )
    return lots.one_of(*steps)


_SITUATIONS = (_takeover, _restart, _rotten_disk, _absence)
