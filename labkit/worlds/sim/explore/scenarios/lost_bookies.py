"""Bookies that stay away until they count as lost: ledgers are marked, copied and recovered.

All of that takes longer than a drawn workload: the bookie's session must end, the lost-bookie delay
must pass, a repair must copy, and a ledger that is open gets a grace period before a worker fences
its writer.  After a silence of the metadata store, and when another node becomes the auditor, ten
seconds of patience come on top.  So a scenario of this kind has a client that goes on working until
then, and the run does not end before the repair.
"""

from collections.abc import Callable
from dataclasses import replace

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.worlds.sim.explore.scenarios.scenario_random import Lots
from labkit.worlds.sim.scenario.faults import Crash, Fault, Pause, SlowDisk
from labkit.worlds.sim.scenario.metadata_faults import SessionLoss
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import At, Moment, On
from labkit.worlds.sim.workload.steps import Delete, Read, Step, Write

_SHARE = 2 / 3
_KEPT = 3
"""A ledger beside those of the workload and of the other situations."""
_REPAIR_MS = 2500.0
"""More than a repair takes."""
_TIDY_MS = 4000.0
"""More than two intervals in which a bookie looks for what it need not keep."""
_SLOW_COPIES_MS = 6000.0
_PATIENCE_MS = 10_500.0
_OF_A_REPAIR = (
    *("replication.started", "replication.deferred", "fragment.replicated"),
    *("ledger.underreplicated", "bookie.lost", "recovery.started"),
)


def with_a_lost_bookie(scenario: Scenario, lots: Lots) -> Scenario:
    """The scenario, or, for two in three that have autorecovery, one that lasts until a bookie is
    taken for lost and its copies are made again.

    Sometimes a second bookie goes while the copies of the first are made, and often the writer of
    the ledger is gone, too, so that a worker has to recover it.
    """
    config = scenario.cluster.autorecovery
    if config is None or not lots.chance(_SHARE):
        return scenario
    others = scenario.faults if lots.chance(0.5) else ()
    scenario = replace(scenario, faults=others)
    gone = At(lots.between(0, 1000))
    if lots.chance(0.2):
        return _with_slow_copies(lots, scenario, config, gone)
    bookies = scenario.cluster.bookies + lots.one_of(0, 1)
    lost_ms = _lost_at_ms(scenario, gone, config.lost_bookie_recovery_delay_s)
    until_ms = lost_ms + _REPAIR_MS + config.open_ledger_rereplication_grace_period_ms
    if lots.chance(0.5):
        until_ms += _PATIENCE_MS
    back_ms = lots.one_of(0.0, 0.0, 3000.0 + 1000 * config.lost_bookie_recovery_delay_s)
    faults = [*_absences(lots, gone, back_ms), *_troubles(lots)]
    if lots.chance(0.6):
        faults.append(Crash("w", "lost", when=At(lots.between(0, gone.ms + 500))))
    cluster = replace(scenario.cluster, bookies=bookies)
    if back_ms:
        # It need not keep what was copied to others meanwhile, and has time to find that out.
        cluster = replace(cluster, gc_overreplicated_ledger_wait_time_ms=cluster.gc_wait_time_ms)
        until_ms += back_ms + _TIDY_MS
    workload = (*scenario.workload, *_work_until(lots, scenario, until_ms))
    return replace(scenario, cluster=cluster, workload=workload).with_fault(*faults)


def _lost_at_ms(scenario: Scenario, gone: At, delay_s: int) -> float:
    return gone.ms + scenario.cluster.session_timeout_ms + 1000 * delay_s


def _with_slow_copies(
    lots: Lots, scenario: Scenario, config: AutoRecoveryConfig, gone: At
) -> Scenario:
    """A repair that copies little a second is still under way when another bookie is taken for
    lost, and comes back: the ledger is marked again, and at the end nothing is missing.
    """
    slow = replace(
        config,
        lost_bookie_recovery_delay_s=0,
        replication_rate_by_bytes=500,
        rereplication_entry_batch_size=1,
    )
    cluster = replace(scenario.cluster, bookies=scenario.cluster.bookies + 1, autorecovery=slow)
    lost_ms = _lost_at_ms(scenario, gone, 0)
    first, second = lots.some_of(cluster.names[:3], 2)
    away_ms = lots.between(1, 2) * cluster.session_timeout_ms
    again = At(lots.between(gone.ms, lost_ms + 1000))
    write = Write(_KEPT, lots.number(10, 20), client="k")
    read = Read(polls=2, poll_ms=(lost_ms + _SLOW_COPIES_MS) / 2, client="l")
    return replace(
        scenario, cluster=cluster, workload=(*scenario.workload, write, read)
    ).with_fault(Crash(first, "lost", when=gone), Crash(second, "kept", away_ms, again))


def _absences(lots: Lots, gone: At, back_ms: float) -> list[Fault]:
    """One bookie goes for good, or until it has been taken for lost; sometimes a second one goes a
    moment later.
    """
    faults: list[Fault] = [Crash(lots.first_bookie(), lots.fate(), back_ms, gone)]
    if lots.chance(0.3):
        when = At(gone.ms + lots.ms(2000)) if lots.chance(0.6) else _in_a_repair(lots)
        faults.append(Crash(lots.bookie(), lots.fate(), back_ms, when))
    return faults


def _troubles(lots: Lots) -> list[Fault]:
    """What may happen to those that make the copies, and to those that they copy from."""
    kinds: tuple[tuple[float, Callable[[Moment], Fault]], ...] = (
        (0.15, lambda when: Crash(lots.bookie(), lots.fate(), lots.ms(2000), when)),
        (0.25, lambda when: SessionLoss(lots.first_bookie(), when)),
        (0.1, lambda when: Pause(lots.bookie(), lots.ms(2000), when)),
        (0.2, lambda when: SlowDisk(lots.bookie(), lots.ms(200), lots.ms(4000), when)),
    )
    return [kind(_in_a_repair(lots)) for share, kind in kinds if lots.chance(share)]


def _in_a_repair(lots: Lots) -> Moment:
    return On(lots.one_of(*_OF_A_REPAIR), lots.one_of(1, 1, 1, 2, 3))


def _work_until(lots: Lots, scenario: Scenario, until_ms: float) -> list[Step]:
    """A client that works until then, on the ledger of the workload or on one beside it."""
    entries = lots.number(2, 12)
    size = min(scenario.cluster.bookies - 1, lots.one_of(2, 3, 3))
    steps: tuple[Step, ...] = (
        Read(polls=entries, poll_ms=_tenths(until_ms / entries), client="k"),
        Write(
            _KEPT,
            entries,
            *(size, size, lots.number(1, size)),
            every_ms=_tenths(until_ms / entries),
            close=lots.chance(0.5),
            client="k",
        ),
    )
    work = [lots.one_of(*steps)]
    if lots.chance(0.15):
        work.append(Delete(client="l", when=_in_a_repair(lots)))
    return work


def _tenths(value: float) -> float:
    return round(value, 1)
