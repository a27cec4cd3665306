"""Scenarios drawn whole from a seed: cluster, workload, faults, and random decisions.

No scenario is aimed at one mistake, but at conditions in which mistakes show: small ledgers, whose
last entries matter; clusters without a spare bookie; ledgers that other clients take over; faults
at the same time.  So a search that finds the known mistakes might find an unknown one.
"""

from collections.abc import Callable
from dataclasses import replace

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.worlds.sim.explore.scenarios.bad_machines import with_bad_machines
from labkit.worlds.sim.explore.scenarios.busy_disks import with_busy_disks
from labkit.worlds.sim.explore.scenarios.fault_recipes import (
    in_a_situation,
    with_a_deletion,
    with_metadata_trouble,
)
from labkit.worlds.sim.explore.scenarios.formatted_bookies import with_formatted_bookies
from labkit.worlds.sim.explore.scenarios.lost_bookies import with_a_lost_bookie
from labkit.worlds.sim.explore.scenarios.more_steps import with_more_steps
from labkit.worlds.sim.explore.scenarios.other_clients import with_other_clients
from labkit.worlds.sim.explore.scenarios.other_settings import with_other_settings
from labkit.worlds.sim.explore.scenarios.scenario_random import Lots
from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.scenario.faults import Duplication, Fault, Loss, Reordering
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, Moment
from labkit.worlds.sim.workload.steps import Delete, Read, Recover, Step, Write

_QUORUMS = (
    *((3, 3, 2),) * 4,
    *((1, 1, 1), (2, 1, 1), (2, 2, 1), (2, 2, 2), (2, 2, 2), (3, 3, 3), (3, 2, 1), (3, 2, 2)),
    *((4, 3, 2), (4, 2, 2), (5, 3, 2)),
)
"""E, Qw and Qa; the usual one comes more often."""

_NETWORKS: tuple[tuple[Fault, ...], ...] = (
    (),
    (),
    (Loss(share=0.05),),
    (Reordering(share=0.2),),
    (Reordering(share=0.2),),
    (Duplication(share=0.1),),
)
"""Faults of all links from the beginning to the epilogue."""

_CLIENTS = ("w", "x")
_SLOW = 50.0
"""The factor by which everything takes longer in a slow scenario."""


def drawn(seed: int) -> Scenario:
    """The scenario of the seed.

    One in four is slow: it lasts seconds instead of milliseconds, and has autorecovery.
    """
    lots = Lots(f"drawn {seed}", Cluster(), _CLIENTS, 60.0)
    pace = _SLOW if lots.chance(0.25) else 1.0
    quorums = lots.one_of(*_QUORUMS)
    bookies = quorums[0] + lots.one_of(0, 0, 1, 2)
    cluster = _cluster(lots, bookies) if pace == 1 else _slow_cluster(lots, max(3, bookies))
    horizon_ms = lots.one_of(20.0, 100.0) * pace
    calm = Scenario(
        cluster,
        _workload(lots, quorums, pace),
        lots.one_of(*_NETWORKS),
        late_share=lots.one_of(0.03, 0.1, 0.4),
        slow_share=lots.one_of(0.0, 0.02, 0.2),
        limit_s=7.0 if pace == 1 else 30.0,
    )
    scenario = in_a_situation(calm, Lots(f"situation {seed}", cluster, _CLIENTS, horizon_ms))
    scenario = with_a_deletion(scenario, Lots(f"deletion {seed}", cluster, _CLIENTS, horizon_ms))
    troubles = Lots(f"zookeeper {seed}", cluster, _CLIENTS, horizon_ms)
    scenario = with_metadata_trouble(scenario, troubles)
    scenario = with_busy_disks(scenario, Lots(f"disks {seed}", cluster, _CLIENTS, horizon_ms))
    scenario = with_a_lost_bookie(scenario, Lots(f"lost {seed}", cluster, _CLIENTS, horizon_ms))
    scenario = _with_other_upkeep(scenario, Lots(f"upkeep {seed}", cluster, (), horizon_ms))
    scenario = with_other_clients(scenario, Lots(f"clients {seed}", cluster, (), horizon_ms))
    scenario = with_bad_machines(scenario, seed, horizon_ms)
    scenario = with_other_settings(scenario, Lots(f"settings {seed}", cluster, (), horizon_ms))
    scenario = with_more_steps(scenario, Lots(f"steps {seed}", cluster, (), horizon_ms))
    formatted = Lots(f"reformatted {seed}", cluster, (), horizon_ms)
    scenario = with_formatted_bookies(scenario, formatted)
    return storm(scenario, seed, lots.one_of(0, 0, 1, 2, 3, 5), horizon_ms)


def _cluster(lots: Lots, bookies: int) -> Cluster:
    return Cluster(
        bookies,
        flush_interval_ms=lots.one_of(3, 10, 30, 100),
        gc_wait_time_ms=lots.one_of(50, 1000),
        session_timeout_ms=lots.one_of(200, 4000),
    )


def _slow_cluster(lots: Lots, bookies: int) -> Cluster:
    return Cluster(
        bookies,
        flush_interval_ms=500,
        session_timeout_ms=500,
        autorecovery=AutoRecoveryConfig(
            auditor_periodic_check_interval_s=lots.one_of(0, 2),
            lost_bookie_recovery_delay_s=lots.one_of(0, 1, 3),
            open_ledger_rereplication_grace_period_ms=lots.one_of(200, 2000),
            rw_rereplicate_backoff_ms=200,
            lock_release_of_failed_ledger_grace_period_ms=2000,
        ),
    )


def _with_other_upkeep(scenario: Scenario, lots: Lots) -> Scenario:
    """The scenario; sometimes bookies look for copies that they need not keep, as often as for
    deleted ledgers or less, and sometimes each has two journals.
    """
    cluster = scenario.cluster
    if lots.chance(0.3):
        wait_ms = cluster.gc_wait_time_ms * lots.one_of(1, 4)
        cluster = replace(cluster, gc_overreplicated_ledger_wait_time_ms=wait_ms)
    if lots.chance(0.15):
        cluster = replace(cluster, journal_directories=2)
    return replace(scenario, cluster=cluster)


def _workload(lots: Lots, quorums: tuple[int, int, int], pace: float) -> tuple[Step, ...]:
    steps: list[Step] = [_write(lots, quorums, pace, 0, "w")]
    if lots.chance(0.2):
        steps.append(_write(lots, quorums, pace, 1, "v"))
    others: tuple[tuple[float, Callable[[], Step]], ...] = (
        (0.5, lambda: Read(polls=lots.number(1, 7), poll_ms=3 * pace, when=_when(lots, pace))),
        (0.5, lambda: Recover(client="x", when=_when(lots, pace))),
        (0.1, lambda: Recover(client="y", when=_when(lots, pace))),
        (0.1, lambda: Delete(when=_when(lots, pace))),
    )
    steps += [step() for share, step in others if lots.chance(share)]
    return tuple(steps)


def _write(
    lots: Lots, quorums: tuple[int, int, int], pace: float, ledger: int, client: str
) -> Write:
    most, every_ms = lots.one_of(
        (3, 0.0), (6, 0.0), (40, 0.0), (12, 1.0), (6, 3.0), (5, 200.0), (3, 200.0)
    )
    if pace != 1:
        every_ms = pace * lots.one_of(1.0, 3.0, 4.0)
    return Write(
        ledger,
        lots.number(1, most),
        *quorums,
        window=lots.one_of(1, 4, 10),
        every_ms=every_ms,
        close=lots.chance(0.5),
        client=client,
    )


def _when(lots: Lots, pace: float) -> Moment:
    if lots.chance(0.3):
        return At(lots.between(0, 60 * pace))
    return lots.turn("add.sent", "add.acked", "lac.advanced")
