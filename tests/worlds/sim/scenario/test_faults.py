"""Each fault has the effect that its docstring describes and ends when it should."""

from dataclasses import replace

import pytest

from labkit.system.check import broken, check_all
from labkit.system.trace.events import Event
from labkit.worlds.sim.explore.scenarios.random_scenarios import random_scenario
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import (
    BitRot,
    ClockSkew,
    Crash,
    CrashAtOperation,
    Delay,
    Duplication,
    FailingRead,
    FailingSync,
    Fault,
    FullAtSync,
    FullDisk,
    HangingMetadata,
    Loss,
    Partition,
    Pause,
    PowerCut,
    Reordering,
    ReplacedDisks,
    Reset,
    Restart,
    SessionLoss,
    SlowDisk,
    SlowMetadata,
)
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Read, Recover, Write
from tests.worlds.sim.runs import before_epilogue, confirmed, copies, ends, of, run_safely

WRITE = Write(entries=20, every_ms=5)


def run_with(*faults: Fault, seed: int | None = None, write: Write = WRITE) -> Trace:
    trace = run(Scenario(Cluster(3), (write,), faults, seed=seed, late_share=0.0, slow_share=0.0))
    assert of(trace, "node.failed") == []
    return trace


def took_us(trace: Trace, entry: int, bookie: str) -> int:
    """Return the time from sending the entry to the bookie until its acknowledgement."""
    (sent,) = of(trace, "add.sent", entry=entry, peer=bookie)[:1]
    (acked,) = of(trace, "add.acked", entry=entry, peer=bookie)[:1]
    return acked.time_us - sent.time_us


def of_b1(trace: Trace, *kinds: str) -> list[Event]:
    """Return the events of bookie b1 of these kinds before the epilogue."""
    return [each for each in before_epilogue(trace) if each.node == "b1" and each.kind in kinds]


def test_a_slow_disk_acknowledges_late_while_the_fault_lasts() -> None:
    calm = run_with()
    trace = run_with(SlowDisk("b1", extra_ms=20, for_ms=60))
    assert took_us(trace, 1, "b1") >= took_us(calm, 1, "b1") + 20_000
    assert took_us(trace, 1, "b0") == took_us(calm, 1, "b0")
    assert took_us(trace, 19, "b1") == took_us(calm, 19, "b1")


def test_a_bookie_whose_sync_fails_stops_and_acknowledges_nothing_more() -> None:
    trace = run_with(FailingSync("b1", when=On("journal.appended", 6, "b1")))
    [killed] = of_b1(trace, "node.killed")
    assert killed.error == "SimDiskError"
    assert all(event.seq < killed.seq for event in of_b1(trace, "journal.synced"))
    assert confirmed(trace) <= copies(trace).keys()


def test_a_full_disk_makes_a_bookie_read_only_until_there_is_room() -> None:
    trace = run_with(FullDisk("b1", for_ms=400, when=At(150)), write=Write(20, 20, every_ms=40))
    kinds = [e.kind for e in trace.events if e.node == "b1" and e.kind.startswith("bookie.")]
    assert "bookie.read_only" in kinds or of(trace, "node.killed", node="b1")[0].error
    assert confirmed(trace) <= copies(trace).keys()


def test_bit_rot_is_found_out_by_the_digest_and_another_copy_is_read() -> None:
    rot = BitRot("b0", "entry log", 0.9, when=On("ledger.closed"))
    reads = Read(when=At(2000))
    write = Write(entries=20, every_ms=20)
    trace = run(Scenario(Cluster(3), (write, reads), (rot,)))
    assert of(trace, "disk.rotted")[0].file.endswith(".log")
    assert of(trace, "read.failed", peer="b0")
    assert ends(trace) == ["done", "done"]
    assert len({event.entry for event in of(trace, "read.done", node="r")} - {-1}) == 20


def test_bit_rot_damages_one_file_even_if_the_bookie_has_several_disks() -> None:
    rot = BitRot("b0", "entry log", 0.9, At(2000))
    cluster = Cluster(3, ledger_directories=3, flush_interval_ms=100)
    trace = run(Scenario(cluster, (Write(entries=20), Read(when=At(2500))), (rot,)))
    (rotted,) = of(trace, "disk.rotted")
    assert rotted.file.endswith(".log")


def test_a_rotten_sector_spoils_every_entry_in_it() -> None:
    rot = BitRot("b0", "entry log", 1.0, At(2000), size=512)
    trace = run_safely(Scenario(Cluster(3), (Write(entries=20), Read(when=At(2500))), (rot,)))
    (rotted,) = of(trace, "disk.rotted")
    assert (rotted.offset % 512, rotted.size) == (0, 512)
    assert len({event.entry for event in of(trace, "read.failed", peer="b0")}) > 3


@pytest.mark.sampled
@pytest.mark.parametrize("place", range(0, 700, 7))
def test_a_rotten_journal_ends_a_start_with_a_clear_error_or_costs_one_copy(place: int) -> None:
    faults = (
        BitRot("b0", "journal", place / 700, At(50)),
        Crash("b0", "kept", down_ms=1, when=At(60)),
    )
    write = Write(entries=5, close=False)
    trace = run(Scenario(Cluster(3, flush_interval_ms=100_000), (write,), faults))
    assert of(trace, "node.failed") == []
    refused = {event.error for event in of(trace, "node.killed", node="b0")[1:-1]}
    assert refused <= {"StorageDamagedException", "OSError"}
    promises = {verdict.name for verdict in broken(check_all(trace))}
    assert promises <= {"EveryCopyIsDurable"}


def test_a_delay_slows_one_direction_and_keeps_the_order() -> None:
    delay = Delay("b1", "w", extra_ms=30, for_ms=30, when=On("lac.advanced", 3))
    calm, trace = run_with(), run_with(delay)
    assert took_us(trace, 4, "b1") == took_us(calm, 4, "b1") + 30_000
    assert took_us(trace, 19, "b1") == took_us(calm, 19, "b1")
    order = [event.entry for event in of(trace, "add.acked", peer="b1")]
    assert order == sorted(order)


def test_lost_messages_are_never_answered() -> None:
    trace = run_with(Loss("w", "b1", share=0.5), seed=4)
    lost = of(trace, "message.lost", node="w", peer="b1")
    assert lost
    assert all(trace.decisions[f"lose {event.message}"] == 1 for event in lost)
    assert len(of(trace, "memtable.put", node="b1")) < 20 * 2
    assert ends(trace) == ["done"]


def test_duplicated_messages_are_stored_again_and_change_nothing() -> None:
    trace = run_with(Duplication("w", "b1", share=0.6), seed=4)
    assert of(trace, "message.copied")
    assert len(of(trace, "memtable.put", node="b1")) > 20
    assert copies(trace) == {(0, entry): 3 for entry in range(20)}


def test_overtaken_messages_are_still_confirmed_in_order() -> None:
    trace = run_with(Reordering("w", share=0.6), seed=4, write=Write(20, 40, window=10))
    assert of(trace, "message.swapped")
    assert [event.entry for event in of(trace, "lac.advanced")] == list(
        range(len(confirmed(trace)))
    )
    assert ends(trace) == ["done"]


@pytest.mark.parametrize(("direction", "reached"), [("out", True), ("in", False), ("both", False)])
def test_a_partition_holds_messages_in_its_direction(direction: str, reached: bool) -> None:
    """`b1` receives adds unless incoming messages are held; none of its responses get through."""
    trace = run_with(Partition(("b1",), ("w",), direction, 60, On("lac.advanced", 3)))
    since, until = of(trace, "link.cut")[-1].seq, of(trace, "link.healed")[0].seq
    heard = [e for e in of(trace, "memtable.put", node="b1") if since < e.seq < until]
    acked = [e for e in of(trace, "add.acked", peer="b1", entry=8) if e.seq < until]
    assert bool(heard) is reached
    assert acked == []
    assert len(of(trace, "add.acked", peer="b1")) == 20


def test_a_partition_from_all_nodes_ends_the_metadata_session_too() -> None:
    trace = run_with(Partition(("b2",), for_ms=6000), write=Write(entries=5, every_ms=2000))
    assert of(trace, "session.lost", node="b2")
    assert len(of(trace, "bookie.registered", node="b2")) > 2


def test_a_reset_is_survived_by_connecting_again() -> None:
    trace = run_with(Reset("w", "b1", when=On("lac.advanced", 5)))
    assert ends(trace) == ["done"]
    assert confirmed(trace) == {(0, entry) for entry in range(20)}


def test_a_fast_clock_gives_up_early() -> None:
    pause = Pause("b1", for_ms=4000, when=On("lac.advanced", 3))
    slow = Write(entries=20, every_ms=400)
    assert of(run_with(pause, write=slow), "add.failed") == []
    trace = run_with(pause, ClockSkew("w", rate=2.0), write=slow)
    assert of(trace, "add.failed")[0].error == "BKTimeoutException"


def test_a_bookie_that_loses_its_session_registers_again() -> None:
    trace = run_with(SessionLoss("b1", when=At(20)))
    lost = of(trace, "session.lost", node="b1")[0]
    again = [event for event in of(trace, "bookie.registered", node="b1") if event.seq > lost.seq]
    assert again[0].time_us - lost.time_us < 1_000_000


def test_slow_metadata_delays_the_creation_of_a_ledger_and_no_add() -> None:
    calm, trace = run_with(), run_with(SlowMetadata(extra_ms=40))
    created = [of(each, "ledger.created")[0].time_us for each in (calm, trace)]
    assert created[1] - created[0] >= 3 * 40_000
    assert took_us(trace, 19, "b1") == took_us(calm, 19, "b1")


def test_the_epilogue_ends_all_faults() -> None:
    faults = (Partition(("b0",)), SlowDisk("b1"), Pause("b2"), Loss(share=1.0), ClockSkew("w"))
    trace = run(Scenario(Cluster(3), (WRITE,), faults, seed=1, limit_s=2))
    over = of(trace, "epilogue.started")[0]
    late = [event.kind for event in trace.events if event.seq > over.seq]
    assert not {"message.lost", "link.cut", "node.paused"} & set(late)
    assert late.count("node.started") == 3


def test_the_end_of_a_delay_does_not_heal_a_partition() -> None:
    partition = Partition(("b1",), ("w",), for_ms=80)
    trace = run_with(partition, Delay("b1", "w", for_ms=20))
    cut, healed = of(trace, "link.cut")[0], of(trace, "link.healed")[0]
    assert healed.time_us - cut.time_us == 80_000


def test_the_end_of_a_clock_skew_leaves_the_disks_as_slow_as_they_were() -> None:
    skew = ClockSkew("b1", for_ms=20)
    calm, trace = run_with(skew), run_with(skew, SlowDisk("b1", extra_ms=20))
    assert took_us(trace, 12, "b1") >= took_us(calm, 12, "b1") + 20_000


def test_a_restart_on_a_crash_starts_the_node_again() -> None:
    trace = run_with(Crash("b0", when=At(20)), Restart("b0", On("node.killed", node="b0")))
    kinds = [each.kind for each in before_epilogue(trace) if each.node == "b0"]
    assert "node.started" in kinds[kinds.index("node.killed") :]


def test_a_node_that_has_just_been_killed_cannot_be_killed_again() -> None:
    trace = run_with(Crash("b0", when=At(20)), Crash("b0", "torn", when=On("node.killed")))
    killed = [each.detail for each in before_epilogue(trace) if each.kind == "node.killed"]
    assert killed == ["kept"]


def replayed(trace: Trace, bookie: str) -> int:
    """Return how many journal records the bookie read at its last start."""
    return of(trace, "journal.replayed", node=bookie)[-1].size


def test_a_killed_bookie_loses_its_unsynced_records_when_the_power_is_cut() -> None:
    unsynced = SlowDisk("b1", extra_ms=1000), Crash("b1", when=At(50))
    decisions = {f"reach b1 {number}": 1.0 for number in range(20)}
    scenario = Scenario(Cluster(3), (WRITE,), unsynced, decisions=decisions)
    kept = run(replace(scenario, ends_in_power_cut=False))
    assert replayed(kept, "b1") > replayed(run(scenario), "b1")
    cut = replace(scenario.with_fault(PowerCut(when=At(60))), ends_in_power_cut=False)
    assert replayed(run(cut), "b1") == replayed(run(scenario), "b1")


def test_a_bookie_that_stopped_after_a_failed_sync_loses_its_records_too() -> None:
    failing = FailingSync("b1", when=On("journal.appended", 6, "b1"))
    scenario = Scenario(Cluster(3), (WRITE,), (failing,))
    kept = run(replace(scenario, ends_in_power_cut=False))
    assert replayed(kept, "b1") > replayed(run(scenario), "b1")


def test_each_of_two_crashes_at_operations_stops_the_bookie() -> None:
    trace = run_with(
        CrashAtOperation("b1", 3, down_ms=1, when=At(20)),
        CrashAtOperation("b1", 30, down_ms=1, when=At(20)),
    )
    assert len(of_b1(trace, "node.killed")) == 2


@pytest.mark.parametrize(
    ("fault", "end", "begin"),
    [
        (Pause("b1", for_ms=20), "node.resumed", "node.paused"),
        (HangingMetadata(for_ms=20), "metadata.resumed", "metadata.hung"),
    ],
)
def test_a_fault_can_strike_again_when_it_ends(
    fault: Pause | HangingMetadata, end: str, begin: str
) -> None:
    trace = run_with(fault, replace(fault, when=On(end)))
    assert len(of(trace, begin)) == 2


def test_a_bookie_that_is_killed_and_restarted_as_it_registers_starts_only_once() -> None:
    trace = run_with(
        Crash("b1", down_ms=5, when=At(20)),
        Crash("b1", when=On("bookie.registered", node="b1")),
        Restart("b1", On("node.killed", nth=2, node="b1")),
    )
    found = of_b1(trace, "node.killed", "bookie.registered", "node.started")
    assert [each.kind for each in found[2:]] == [
        *("node.killed", "bookie.registered", "node.killed"),
        *("bookie.registered", "node.started"),
    ]


# Disks that are replaced, that cannot be read, or that are full when they are synced


def run_and_recover(*faults: Fault, cluster: Cluster | None = None) -> Trace:
    write = Write(entries=20, every_ms=3, close=False)
    steps = write, Recover(client="x", when=At(120)), Read(polls=4, poll_ms=50)
    return run_safely(Scenario(cluster or Cluster(3), steps, faults, limit_s=5.0))


@pytest.mark.parametrize("which", ["all", "journal", "ledgers"])
def test_a_bookie_whose_disks_were_replaced_does_not_start(which: str) -> None:
    replaced = (ReplacedDisks(name, which, 10, At(80)) for name in ("b0", "b1"))
    trace = run_and_recover(Crash("w", "lost", when=At(70)), *replaced)
    errors = [event.error for event in of(trace, "node.killed", node="b0")]
    assert "InvalidCookieException" in errors


def test_a_bookie_that_cannot_read_says_so_until_it_can() -> None:
    flushing = Cluster(3, flush_interval_ms=10)
    trace = run_and_recover(FailingRead("b0", 60, At(90)), cluster=flushing)
    failed = [each for each in of(trace, "read.failed", peer="b0") if each.entry >= 0]
    assert failed
    assert {each.error for each in failed} == {"BKReadException"}
    assert of(trace, "read.done", node="epilogue", peer="b0")


def test_a_bookie_cannot_start_while_its_reads_fail() -> None:
    trace = run_and_recover(FailingRead("b0", 0, At(90)), Crash("b0", "kept", 10, At(100)))
    assert "read of" in of(trace, "node.killed", node="b0")[1].explanation


def test_a_bookie_that_is_full_at_the_sync_of_its_journal_stops_and_loses_nothing() -> None:
    full = FullAtSync("b0", 20, On("add.acked", 5))
    trace = run_and_recover(full, Crash("b0", "lost", 5, At(60)))
    assert "no space" in of(trace, "node.killed", node="b0")[0].explanation


def test_drawn_clocks_also_show_another_time() -> None:
    faults = [each for seed in range(100) for each in random_scenario(seed).faults]
    assert any(isinstance(each, ClockSkew) and each.offset_ms for each in faults)
    for kind in (ReplacedDisks, FailingRead, FullAtSync):
        assert any(isinstance(each, kind) for each in faults)
