"""Makes bookies fail while their disks are busy: during a flush, at the end of a journal, after a
compaction.

Some storage bugs show up only if a crash occurs between two particular disk operations out of
thousands. A scenario of this kind therefore contains little more than one or two ledgers, a reader
that keeps the run going until the disk work is done, and crashes during this work. Sometimes each
bookie has several ledger directories.
"""

from collections.abc import Callable
from dataclasses import replace

from labkit.worlds.sim.explore.scenarios.scenario_random import ScenarioRandom
from labkit.worlds.sim.scenario.faults import Crash, CrashAtOperation, Fault, PowerCut
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.workload.steps import Delete, Read, Step, Write

_OPERATIONS = 40
"""The approximate number of operations in a flush."""

_Busy = tuple[Cluster, tuple[Step, ...], list[Fault]]


def with_busy_disks(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    work = draw.one_of(*_WORK)
    cluster, steps, faults = work(draw, scenario.cluster)
    return replace(scenario, cluster=cluster, workload=steps, faults=tuple(faults))


def _during_a_flush(draw: ScenarioRandom, cluster: Cluster) -> _Busy:
    """Crash during a flush, often after a restart, so that LastLogMark points into an earlier
    journal.
    """
    flush_ms = draw.one_of(10, 30, 100)
    cluster = replace(
        cluster, flush_interval_ms=flush_ms, ledger_directories=draw.one_of(1, 2, 2, 3)
    )
    bookie, started = draw.bookie(), At(draw.between(0, flush_ms))
    steps = (
        _write(draw, cluster, 0, "w"),
        replace(_write(draw, cluster, 1, "v"), when=started),
        Read(polls=5, poll_ms=flush_ms / 2),
    )
    faults: list[Fault] = [_at_an_operation(draw, bookie, flush_ms)]
    if draw.chance(0.5):
        restart = At(draw.between(0, started.ms))
        faults.append(Crash(bookie, draw.unsynced(), draw.ms(flush_ms), restart))
    return cluster, steps, faults


def _at_the_end_of_a_journal(draw: ScenarioRandom, cluster: Cluster) -> _Busy:
    """Crash while large entries fill one journal after another."""
    flush_ms = draw.one_of(10, 30, 1000)
    cluster = replace(cluster, flush_interval_ms=flush_ms)
    large = replace(
        _write(draw, cluster, 0, "w"),
        entries=draw.number(2, 5),
        payload_size=draw.one_of(300_000, 500_000),
        window=draw.one_of(1, 2),
    )
    steps = (large, Read(polls=4, poll_ms=min(30, flush_ms) / 2))
    faults: tuple[Callable[[], Fault], ...] = (
        lambda: PowerCut("lost", draw.ms(), draw.event("journal.synced", "add.acked")),
        lambda: Crash(draw.bookie(), draw.unsynced(), draw.ms(), draw.event("journal.synced")),
        lambda: _at_an_operation(draw, draw.bookie(), flush_ms),
    )
    return cluster, steps, [draw.one_of(*faults)()]


def _after_a_compaction(draw: ScenarioRandom, cluster: Cluster) -> _Busy:
    """Crash after the compaction of a log with two ledgers: one has been deleted, and the entries
    of the other have been copied.
    """
    gc_wait_ms = draw.one_of(20, 50)
    cluster = replace(
        cluster,
        flush_interval_ms=draw.one_of(3, 10, 30),
        gc_wait_time_ms=gc_wait_ms,
        major_compaction_interval_s=gc_wait_ms / 1000,
        ledger_directories=draw.one_of(1, 1, 2),
    )
    deleted = replace(
        _write(draw, cluster, 1, "v"), entries=draw.number(3, 8), payload_size=draw.number(300, 900)
    )
    steps = (
        replace(_write(draw, cluster, 0, "w"), payload_size=draw.one_of(32, 200)),
        deleted,
        Delete(1, "d", At(draw.between(20, 60))),
        Read(polls=6, poll_ms=gc_wait_ms),
    )
    faults: list[Fault] = []
    if draw.chance(0.6):
        when = At(draw.between(40, 60 + 4 * gc_wait_ms))
        faults.append(Crash(draw.bookie(), draw.unsynced(), draw.ms(gc_wait_ms), when))
    return cluster, steps, faults


def _write(draw: ScenarioRandom, cluster: Cluster, ledger: int, client: str) -> Write:
    """Return a step that usually writes to all bookies, so that each bookie has copies to lose."""
    size = cluster.bookies if draw.chance(0.7) else 1
    return Write(
        ledger,
        draw.number(1, 6),
        *(size, size, size),
        window=draw.one_of(1, 4),
        every_ms=draw.one_of(0.0, 0.0, 1.0, 3.0),
        close=draw.chance(0.5),
        client=client,
    )


def _at_an_operation(draw: ScenarioRandom, bookie: str, flush_ms: float) -> Fault:
    """Crash before one of the next disk operations, which belong to a flush or to the work after
    it.
    """
    flushed = On("memtable.flushed", draw.one_of(1, 1, 2, 3), bookie)
    return CrashAtOperation(
        bookie,
        round(draw.ms(_OPERATIONS)),
        draw.unsynced(),
        draw.ms(flush_ms),
        At(draw.between(0, 2 * flush_ms)) if draw.chance(0.5) else flushed,
    )


_WORK = (_during_a_flush, _at_the_end_of_a_journal, _after_a_compaction)
