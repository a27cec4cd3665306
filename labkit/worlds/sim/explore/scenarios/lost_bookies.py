"""Keeps bookies down until they count as lost, or makes an operator reformat them.

The ledgers of a lost bookie are marked as under-replicated, copied and recovered. This takes longer
than a usual workload: the bookie's session must expire, the lost-bookie delay must pass, and a
repair must copy the entries. If a ledger is open, a worker also waits for a grace period before it
fences the ledger. All of this takes ten seconds longer if the metadata store was silent or if
another node becomes the auditor. Such a scenario therefore contains a client that keeps working
until the repair is done, so that the run does not end too early.
"""

from collections.abc import Callable
from dataclasses import replace

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.worlds.sim.explore.scenarios.scenario_random import ScenarioRandom
from labkit.worlds.sim.scenario.faults import (
    Crash,
    Fault,
    Pause,
    Reformatted,
    SessionLoss,
    SlowDisk,
)
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import At, Moment, On
from labkit.worlds.sim.workload.steps import Delete, Read, Recover, Step, Write

_OTHER_LEDGER = 3
"""A ledger number that neither the workload nor the other recipes use."""
_REPAIR_MS = 2500.0
"""More time than a repair takes."""
_CLEANUP_MS = 4000.0
"""Longer than it takes a bookie to look twice for copies that it does not have to keep."""
_SLOW_COPIES_MS = 6000.0
_PATIENCE_MS = 10_500.0
_RESTART_MS = 100.0
"""Usually more time than a formatted bookie needs to start."""
_REPAIR_EVENTS = (
    *("replication.started", "replication.deferred", "fragment.replicated"),
    *("ledger.underreplicated", "bookie.lost", "recovery.started"),
)


def with_a_lost_bookie(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """Make the run last until a bookie counts as lost and its copies have been restored.

    Sometimes a second bookie fails while the first one's entries are being copied. Often the
    ledger's writer is dead as well, so that a worker has to recover the ledger.
    """
    config = scenario.cluster.autorecovery
    assert config is not None
    others = scenario.faults if draw.chance(0.5) else ()
    scenario = replace(scenario, faults=others)
    crashed_at = At(draw.between(0, 1000))
    if draw.chance(0.2):
        return _with_slow_copies(draw, scenario, config, crashed_at)
    bookies = scenario.cluster.bookies + draw.one_of(0, 1)
    lost_ms = _lost_at_ms(scenario, crashed_at, config.lost_bookie_recovery_delay_s)
    until_ms = lost_ms + _REPAIR_MS + config.open_ledger_rereplication_grace_period_ms
    if draw.chance(0.5):
        until_ms += _PATIENCE_MS
    back_ms = draw.one_of(0.0, 0.0, 3000.0 + 1000 * config.lost_bookie_recovery_delay_s)
    faults = [*_crashes(draw, crashed_at, back_ms), *_repair_faults(draw)]
    if draw.chance(0.6):
        faults.append(Crash("w", "lost", when=At(draw.between(0, crashed_at.ms + 500))))
    wait_ms = scenario.cluster.gc_overreplicated_ledger_wait_time_ms
    if back_ms:
        # When the bookie returns, its entries have been copied to other bookies, so it may delete
        # them. Give the bookie time to discover this.
        wait_ms = scenario.cluster.gc_wait_time_ms
        until_ms += back_ms + _CLEANUP_MS
    scenario = scenario.with_steps(*_work_until(draw, scenario, until_ms)).with_fault(*faults)
    return scenario.with_cluster(bookies=bookies, gc_overreplicated_ledger_wait_time_ms=wait_ms)


def _lost_at_ms(scenario: Scenario, crashed_at: At, delay_s: int) -> float:
    return crashed_at.ms + scenario.cluster.session_timeout_ms + 1000 * delay_s


def _with_slow_copies(
    draw: ScenarioRandom, scenario: Scenario, config: AutoRecoveryConfig, crashed_at: At
) -> Scenario:
    """Make a second bookie fail during a slow repair, and come back later.

    The ledger is then marked again, although no copy is missing in the end.
    """
    slow = replace(
        config,
        lost_bookie_recovery_delay_s=0,
        replication_rate_by_bytes=500,
        rereplication_entry_batch_size=1,
    )
    scenario = scenario.with_cluster(bookies=scenario.cluster.bookies + 1, autorecovery=slow)
    lost_ms = _lost_at_ms(scenario, crashed_at, 0)
    first, second = draw.some_of(scenario.cluster.names[:3], 2)
    away_ms = draw.between(1, 2) * scenario.cluster.session_timeout_ms
    second_at = At(draw.between(crashed_at.ms, lost_ms + 1000))
    write = Write(_OTHER_LEDGER, draw.number(10, 20), client="k")
    read = Read(polls=2, poll_ms=(lost_ms + _SLOW_COPIES_MS) / 2, client="l")
    return scenario.with_steps(write, read).with_fault(
        Crash(first, "lost", when=crashed_at), Crash(second, "kept", away_ms, second_at)
    )


def _crashes(draw: ScenarioRandom, crashed_at: At, back_ms: float) -> list[Fault]:
    """Crash a bookie, either for good or until the auditor considers it lost. Sometimes a second
    bookie crashes as well, either shortly afterwards or during a repair.
    """
    faults: list[Fault] = [Crash(draw.first_bookie(), draw.unsynced(), back_ms, crashed_at)]
    if draw.chance(0.3):
        when = At(crashed_at.ms + draw.ms(2000)) if draw.chance(0.6) else _during_a_repair(draw)
        faults.append(Crash(draw.bookie(), draw.unsynced(), back_ms, when))
    return faults


def _repair_faults(draw: ScenarioRandom) -> list[Fault]:
    """Return faults that affect bookies during a repair, as the source or the target of a copy."""
    kinds: tuple[tuple[float, Callable[[Moment], Fault]], ...] = (
        (0.15, lambda when: Crash(draw.bookie(), draw.unsynced(), draw.ms(2000), when)),
        (0.25, lambda when: SessionLoss(draw.first_bookie(), when)),
        (0.1, lambda when: Pause(draw.bookie(), draw.ms(2000), when)),
        (0.2, lambda when: SlowDisk(draw.bookie(), draw.ms(200), draw.ms(4000), when)),
    )
    return [kind(_during_a_repair(draw)) for share, kind in kinds if draw.chance(share)]


def _during_a_repair(draw: ScenarioRandom) -> Moment:
    return On(draw.one_of(*_REPAIR_EVENTS), draw.one_of(1, 1, 1, 2, 3))


def _work_until(draw: ScenarioRandom, scenario: Scenario, until_ms: float) -> list[Step]:
    entries = draw.number(2, 12)
    size = min(scenario.cluster.bookies - 1, draw.one_of(2, 3, 3))
    pause_ms = round(until_ms / entries, 1)
    steps: tuple[Step, ...] = (
        Read(polls=entries, poll_ms=pause_ms, client="k"),
        Write(
            _OTHER_LEDGER,
            entries,
            *(size, size, draw.number(1, size)),
            every_ms=pause_ms,
            close=draw.chance(0.5),
            client="k",
        ),
    )
    work = [draw.one_of(*steps)]
    if draw.chance(0.15):
        work.append(Delete(client="l", when=_during_a_repair(draw)))
    return work


def with_formatted_bookies(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """Replace the workload: write to a ledger, and format its bookies.

    The ledger is recovered while its writer pauses, and most or all of its bookies are formatted
    before the writer's last add. The workload has no other ledgers, because formatting destroys all
    data on the bookies.
    """
    size = min(3, scenario.cluster.bookies)
    quorum = draw.number(1, size)
    recovered = At(draw.between(0, draw.horizon_ms))
    pause_ms = _RESTART_MS + draw.between(1, 3) * draw.horizon_ms
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
