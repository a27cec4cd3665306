"""Scenarios drawn whole from a seed: cluster, workload, faults, and how chance falls.

No mistake is aimed at: a search that finds one here might find one that nobody knows.
"""

import random
from collections.abc import Callable

from labkit.autorecovery.config import AutoRecoveryConfig
from labkit.sim.faults import Duplication, Fault, Loss, Reordering
from labkit.sim.moments import At, Moment, On
from labkit.sim.scenario import Cluster, Scenario
from labkit.sim.storm import storm
from labkit.sim.workload import Delete, Read, Recover, Step, Write

_QUORUMS = (
    *((3, 3, 2),) * 4,
    *((1, 1, 1), (2, 2, 1), (2, 2, 2), (3, 2, 2), (3, 3, 3), (4, 3, 2), (5, 3, 2)),
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
"""What is wrong with all links from the beginning to the epilogue."""


def drawn(seed: int) -> Scenario:
    """The scenario of that seed.

    One in five is slow, over seconds instead of milliseconds, and has autorecovery.
    """
    lots = random.Random(f"drawn {seed}")
    is_slow = lots.random() < 0.2
    cluster = _slow_cluster(lots) if is_slow else _cluster(lots)
    pace = 50.0 if is_slow else 1.0
    scenario = Scenario(
        cluster,
        _workload(lots, cluster.bookies, pace),
        lots.choice(_NETWORKS),
        late_share=lots.choice((0.03, 0.1, 0.4)),
        slow_share=lots.choice((0.0, 0.02, 0.2)),
        limit_s=30.0 if is_slow else 7.0,
    )
    horizon_ms = lots.choice((20.0, 100.0)) * pace
    return storm(scenario, seed, lots.randrange(7), horizon_ms)


def _cluster(lots: random.Random) -> Cluster:
    return Cluster(
        bookies=lots.randrange(3, 7),
        flush_interval_ms=lots.choice((10, 100)),
        gc_wait_time_ms=lots.choice((50, 1000)),
        session_timeout_ms=lots.choice((200, 4000)),
    )


def _slow_cluster(lots: random.Random) -> Cluster:
    return Cluster(
        bookies=lots.randrange(3, 7),
        flush_interval_ms=500,
        session_timeout_ms=500,
        autorecovery=AutoRecoveryConfig(
            auditor_periodic_check_interval_s=lots.choice((0, 2)),
            lost_bookie_recovery_delay_s=lots.choice((0, 1, 3)),
            open_ledger_rereplication_grace_period_ms=lots.choice((200, 2000)),
            rw_rereplicate_backoff_ms=200,
            lock_release_of_failed_ledger_grace_period_ms=2000,
        ),
    )


def _workload(lots: random.Random, bookies: int, pace: float) -> tuple[Step, ...]:
    write = _write(lots, bookies, pace, 0, "w")
    steps: list[Step] = [write]
    if lots.random() < 0.3:
        steps.append(_write(lots, bookies, pace, 1, "v"))
    others: tuple[tuple[float, Callable[[], Step]], ...] = (
        (
            0.5,
            lambda: Read(
                polls=lots.randrange(1, 8), poll_ms=3 * pace, when=_when(lots, write.entries, pace)
            ),
        ),
        (0.8, lambda: Recover(client="x", when=_when(lots, write.entries, pace))),
        (0.3, lambda: Recover(client="y", when=_when(lots, write.entries, pace))),
        (0.1, lambda: Delete(when=_when(lots, write.entries, pace))),
    )
    return (*steps, *(step() for share, step in others if lots.random() < share))


def _write(lots: random.Random, bookies: int, pace: float, ledger: int, client: str) -> Write:
    ensemble, write_quorum, ack_quorum = lots.choice([q for q in _QUORUMS if q[0] <= bookies])
    return Write(
        ledger,
        lots.randint(1, lots.choice((3, 6, 12, 40))),
        ensemble,
        write_quorum,
        ack_quorum,
        window=lots.choice((1, 4, 10)),
        every_ms=pace * lots.choice((0.0, 1.0, 3.0) if pace == 1 else (1.0, 3.0)),
        close=lots.random() < 0.5,
        client=client,
    )


def _when(lots: random.Random, entries: int, pace: float) -> Moment:
    if lots.random() < 0.3:
        return At(round(lots.uniform(0, 60 * pace), 1))
    return On(lots.choice(("add.sent", "add.acked", "lac.advanced")), lots.randint(1, entries))
