"""Runs of lesson 09, in which copies are lost and repaired, and functions that summarize them."""

from collections.abc import Iterator

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.trace.events import Event
from labkit.system.trace.sentence import describe
from labkit.worlds.sim.nodes.faulty_world import EPILOGUE
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash, Delay, Fault, Partition
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Read, Step, Write


def with_autorecovery(
    bookies: int,
    steps: tuple[Step, ...],
    faults: tuple[Fault, ...],
    last_s: int,
    *,
    limit_s: float = 90,
    **config: int,
) -> Scenario:
    """Return a scenario with autorecovery, and with a reader that keeps the run from ending before
    `last_s`.
    """
    reader = Read(polls=last_s, poll_ms=1000, when=At(100))
    cluster = Cluster(bookies, autorecovery=AutoRecoveryConfig(**config))  # type: ignore[arg-type]
    return Scenario(cluster, (*steps, reader), faults, limit_s=limit_s)


def bookie_lost(lost: str, delay_s: int, entry_count: int) -> Scenario:
    """Return a run with five bookies and three ledgers, one of which is open; after a second, one
    bookie dies for good.
    """
    steps = (
        Write(0, entries=entry_count, ensemble=3, write_quorum=2),
        Write(1, entries=6, ensemble=2, write_quorum=2, client="w1"),
        Write(2, entries=6, ensemble=3, close=False, client="w2"),
    )
    dies = Crash(lost, when=At(1000))
    return with_autorecovery(5, steps, (dies,), 75, lost_bookie_recovery_delay_s=delay_s)


def worker_dies(delay_s: int, verified_percent: int = 0) -> Scenario:
    """Return a run in which a worker dies after its last copy, and restarts while a bookie that it
    needs is slow.
    """
    faults = (
        Crash("b1", when=At(1000)),
        Delay("b2", "*", 50, when=At(2000)),
        Crash("b0", down_ms=500, when=On("entry.copied", entry=9)),
    )
    return with_autorecovery(
        5,
        (Write(entries=10, write_quorum=2),),
        faults,
        35 + delay_s,
        lost_bookie_recovery_delay_s=delay_s,
        auditor_ledger_verification_percentage=verified_percent,
    )


def auditor_cut_off(cut_ms: float, delay_s: int) -> Scenario:
    """Return a run in which the auditor, b0, cannot reach ZooKeeper for some time, but can reach
    all other nodes.
    """
    cut = Partition(("b0",), ("zk",), for_ms=cut_ms, when=At(2000))
    return with_autorecovery(
        3, (Write(entries=3),), (cut,), 20, lost_bookie_recovery_delay_s=delay_s
    )


def add_missed(check_interval_s: int, delay_s: int) -> Scenario:
    """Return a run in which a bookie misses the last entry of a ledger 25 seconds into the run, but
    stays up.
    """
    return with_autorecovery(
        4,
        (Write(entries=6, window=3, when=At(25_000)),),
        (Partition(("w",), ("b2",), when=On("add.pushed", nth=6)),),
        55,
        lost_bookie_recovery_delay_s=delay_s,
        auditor_periodic_check_interval_s=check_interval_s,
    )


def two_bookies_lost(dies_at: tuple[int, int]) -> Scenario:
    """Return a run in which b1 and b3 die, each after the given number of confirmed entries of a
    ledger.
    """
    write = Write(entries=9, write_quorum=2, window=1, every_ms=10)
    first, second = (
        Crash(name, when=On("lac.advanced", confirmed))
        for name, confirmed in zip(("b1", "b3"), dies_at, strict=True)
    )
    return with_autorecovery(6, (write,), (first, second), 20, lost_bookie_recovery_delay_s=5)


def marked_ledgers(trace: Trace) -> list[int]:
    """Return the ledger of each under-replication mark."""
    return sorted(event.ledger for event in _marks(trace))


def second_of_mark(trace: Trace) -> int:
    """Return the time of the first under-replication mark in whole seconds, or -1 if no ledger was
    marked.
    """
    return next((event.time_us // 1_000_000 for event in _marks(trace)), -1)


def _marks(trace: Trace) -> Iterator[Event]:
    return (event for event in trace.events if event.kind == "ledger.underreplicated")


def copied_entries(trace: Trace, ledger_id: int) -> list[int]:
    """Return the ledger's entries that were copied to another bookie."""
    copied = (event for event in trace.events if event.kind == "entry.copied")
    return [event.entry for event in copied if event.ledger == ledger_id]


def entries_with_one_copy(trace: Trace) -> list[int]:
    """Return the entries that one of their bookies lacked at the end, after all faults had been
    repaired.
    """
    return [e.entry for e in trace.events if e.node == EPILOGUE and e.kind == "read.failed"]


def read_count(trace: Trace) -> int:
    """Return the number of reads that clients and workers sent to bookies."""
    return sum(event.kind == "read.sent" and event.node != EPILOGUE for event in trace.events)


def reads_before_first_copy(trace: Trace, ledger_id: int) -> list[str]:
    """Return the reads that the worker sent before it made its first copy, such as "entry 3 from
    b2".
    """
    events = [event for event in trace.events if event.ledger == ledger_id]
    start = next(event for event in events if event.kind == "replication.started")
    copy = next(event for event in events if event.kind == "entry.copied")
    return [
        f"entry {event.entry:>2} from {event.peer}"
        for event in events
        if event.kind == "read.sent"
        and event.node == copy.node
        and start.seq < event.seq < copy.seq
    ]


def repair_of(trace: Trace, ledger_id: int, *kinds: str) -> str:
    """Describe each event of these kinds since the first under-replication mark in a sentence that
    includes the time of the event.
    """
    start = next(_marks(trace)).seq
    return "\n".join(
        f"{event.time_us / 1e6:7.3f} s  {describe(event)}"
        for event in trace.events[start:]
        if event.kind in kinds and event.ledger == ledger_id
    )


def outcome_of(scenario: Scenario) -> str:
    """Run the scenario, and return how many ledgers were marked and how many entries were
    copied.
    """
    kinds = [event.kind for event in run(scenario).events]
    marks, copies = kinds.count("ledger.underreplicated"), kinds.count("entry.copied")
    return f"{marks} ledgers marked, {copies} entries copied"
