"""Bookies that stay away until they count as lost, and bookies that an operator empties.

Ledgers of lost bookies are marked, copied and recovered.  That takes longer than a usual workload:
the bookie's session must end, the lost-bookie delay must pass, a repair must copy, and a ledger
that is open gets a grace period before a worker fences its writer.  After a silence of the metadata
store, and when another node becomes the auditor, ten seconds of patience come on top.  So such a
scenario has a client that works until then, and the run does not end before the repair.
"""

from collections.abc import Callable
from dataclasses import replace

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.worlds.sim.explore.scenarios.scenario_random import ScenarioRandom
from labkit.worlds.sim.scenario.faults import Crash, Fault, Pause, SlowDisk
from labkit.worlds.sim.scenario.machine_faults import Reformatted
from labkit.worlds.sim.scenario.metadata_faults import SessionLoss
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import At, Moment, On
from labkit.worlds.sim.workload.steps import Delete, Read, Recover, Step, Write

_KEPT = 3
"""A ledger beside those of the workload and of the other situations."""
_REPAIR_MS = 2500.0
"""More than a repair takes."""
_TIDY_MS = 4000.0
"""More than two intervals in which a bookie looks for what it need not keep."""
_SLOW_COPIES_MS = 6000.0
_PATIENCE_MS = 10_500.0
_RETURN_MS = 100.0
"""More than a formatted bookie needs to start, mostly."""
_OF_A_REPAIR = (
    *("replication.started", "replication.deferred", "fragment.replicated"),
    *("ledger.underreplicated", "bookie.lost", "recovery.started"),
)


def with_a_lost_bookie(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """The run lasts until a bookie is taken for lost and its copies are made again.

    Sometimes a second bookie goes while the copies of the first are made, and often the writer of
    the ledger is gone, too, so that a worker has to recover it.
    """
    config = scenario.cluster.autorecovery
    assert config is not None
    others = scenario.faults if draw.chance(0.5) else ()
    scenario = replace(scenario, faults=others)
    gone = At(draw.between(0, 1000))
    if draw.chance(0.2):
        return _with_slow_copies(draw, scenario, config, gone)
    bookies = scenario.cluster.bookies + draw.one_of(0, 1)
    lost_ms = _lost_at_ms(scenario, gone, config.lost_bookie_recovery_delay_s)
    until_ms = lost_ms + _REPAIR_MS + config.open_ledger_rereplication_grace_period_ms
    if draw.chance(0.5):
        until_ms += _PATIENCE_MS
    back_ms = draw.one_of(0.0, 0.0, 3000.0 + 1000 * config.lost_bookie_recovery_delay_s)
    faults = [*_absences(draw, gone, back_ms), *_troubles(draw)]
    if draw.chance(0.6):
        faults.append(Crash("w", "lost", when=At(draw.between(0, gone.ms + 500))))
    cluster = replace(scenario.cluster, bookies=bookies)
    if back_ms:
        # It need not keep what was copied to others meanwhile, and has time to find that out.
        cluster = replace(cluster, gc_overreplicated_ledger_wait_time_ms=cluster.gc_wait_time_ms)
        until_ms += back_ms + _TIDY_MS
    workload = (*scenario.workload, *_work_until(draw, scenario, until_ms))
    return replace(scenario, cluster=cluster, workload=workload).with_fault(*faults)


def _lost_at_ms(scenario: Scenario, gone: At, delay_s: int) -> float:
    return gone.ms + scenario.cluster.session_timeout_ms + 1000 * delay_s


def _with_slow_copies(
    draw: ScenarioRandom, scenario: Scenario, config: AutoRecoveryConfig, gone: At
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
    first, second = draw.some_of(cluster.names[:3], 2)
    away_ms = draw.between(1, 2) * cluster.session_timeout_ms
    again = At(draw.between(gone.ms, lost_ms + 1000))
    write = Write(_KEPT, draw.number(10, 20), client="k")
    read = Read(polls=2, poll_ms=(lost_ms + _SLOW_COPIES_MS) / 2, client="l")
    return replace(
        scenario, cluster=cluster, workload=(*scenario.workload, write, read)
    ).with_fault(Crash(first, "lost", when=gone), Crash(second, "kept", away_ms, again))


def _absences(draw: ScenarioRandom, gone: At, back_ms: float) -> list[Fault]:
    """One bookie goes for good, or until it has been taken for lost; sometimes a second one goes a
    moment later.
    """
    faults: list[Fault] = [Crash(draw.first_bookie(), draw.unsynced(), back_ms, gone)]
    if draw.chance(0.3):
        when = At(gone.ms + draw.ms(2000)) if draw.chance(0.6) else _in_a_repair(draw)
        faults.append(Crash(draw.bookie(), draw.unsynced(), back_ms, when))
    return faults


def _troubles(draw: ScenarioRandom) -> list[Fault]:
    """What may happen to those that make the copies, and to those that they copy from."""
    kinds: tuple[tuple[float, Callable[[Moment], Fault]], ...] = (
        (0.15, lambda when: Crash(draw.bookie(), draw.unsynced(), draw.ms(2000), when)),
        (0.25, lambda when: SessionLoss(draw.first_bookie(), when)),
        (0.1, lambda when: Pause(draw.bookie(), draw.ms(2000), when)),
        (0.2, lambda when: SlowDisk(draw.bookie(), draw.ms(200), draw.ms(4000), when)),
    )
    return [kind(_in_a_repair(draw)) for share, kind in kinds if draw.chance(share)]


def _in_a_repair(draw: ScenarioRandom) -> Moment:
    return On(draw.one_of(*_OF_A_REPAIR), draw.one_of(1, 1, 1, 2, 3))


def _work_until(draw: ScenarioRandom, scenario: Scenario, until_ms: float) -> list[Step]:
    """A client that works until then, on the ledger of the workload or on one beside it."""
    entries = draw.number(2, 12)
    size = min(scenario.cluster.bookies - 1, draw.one_of(2, 3, 3))
    steps: tuple[Step, ...] = (
        Read(polls=entries, poll_ms=_tenths(until_ms / entries), client="k"),
        Write(
            _KEPT,
            entries,
            *(size, size, draw.number(1, size)),
            every_ms=_tenths(until_ms / entries),
            close=draw.chance(0.5),
            client="k",
        ),
    )
    work = [draw.one_of(*steps)]
    if draw.chance(0.15):
        work.append(Delete(client="l", when=_in_a_repair(draw)))
    return work


def _tenths(value: float) -> float:
    return round(value, 1)


def with_formatted_bookies(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """Another workload in the same cluster: a ledger is recovered while its writer pauses, and most
    or all of its bookies are formatted before its last add.

    There is no other ledger, since everything that these bookies had is lost.
    """
    size = min(3, scenario.cluster.bookies)
    quorum = draw.number(1, size)
    recovered = At(draw.between(0, draw.horizon_ms))
    pause_ms = _RETURN_MS + draw.between(1, 3) * draw.horizon_ms
    write = Write(
        0, draw.one_of(1, 1, 2, 4), size, size, quorum, pause_ms=pause_ms, close=draw.chance(0.5)
    )
    when = draw.one_of(On("ledger.closed"), On("ledger.closed"), draw.event("recovery.ended"))
    formatted: list[Fault] = [
        Reformatted(name, draw.ms(), when)
        for name in scenario.cluster.names[:size]
        if draw.chance(0.9)
    ]
    steps = write, Recover(client="g", when=recovered)
    return replace(scenario, workload=steps, faults=tuple(formatted))
