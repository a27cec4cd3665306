"""The real client works with simulated nodes that run the real bookie on simulated disks."""

from typing import Any

import pytest

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.machine.loop import SimulationError
from labkit.worlds.sim.run import run, run_all
from labkit.worlds.sim.scenario.faults import (
    Crash,
    CrashAtOperation,
    Partition,
    Pause,
    PowerCut,
)
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.workload.steps import Delete, Read, Recover, Write
from tests.repeat import repeated
from tests.worlds.sim.runs import confirmed, copies, ends, of

WRITE = Write(entries=12)


def test_what_was_written_is_on_every_bookie_of_its_write_set() -> None:
    trace = run(Scenario(workload=(WRITE,)))
    assert ends(trace) == ["done"]
    assert confirmed(trace) == {(0, entry) for entry in range(12)}
    assert copies(trace) == dict.fromkeys(confirmed(trace), 3)
    assert trace.decisions == {}, "a calm world draws no decisions"
    assert of(trace, "add.failed") == of(trace, "read.failed") == of(trace, "node.failed") == []


def test_a_tailing_reader_reads_what_was_confirmed_and_nothing_else() -> None:
    read = Read(polls=20, poll_ms=2, when=On("lac.advanced", 3))
    trace = run(Scenario(workload=(Write(entries=30, every_ms=1), read)))
    done = of(trace, "read.done", node="r")
    assert ends(trace) == ["done", "done"]
    assert len({event.entry for event in done}) > 10
    for event in done:
        advanced = of(trace, "lac.advanced", entry=event.entry)
        assert event.entry == -1 or advanced[0].seq < event.seq


@pytest.mark.parametrize("disk", ["kept", "lost", "torn", "lot"])
def test_a_bookie_that_crashes_and_starts_again_has_what_it_acknowledged(disk: str) -> None:
    crash = Crash("b1", disk, down_ms=20, when=On("add.acked", 8, "w"))
    trace = run(Scenario(workload=(WRITE,), faults=(crash,), seed=1))
    before = of(trace, "node.killed", node="b1")[0].seq
    acked = {e.entry for e in of(trace, "add.acked", peer="b1") if e.seq < before}
    found = {e.entry for e in of(trace, "read.done", node="epilogue", peer="b1")}
    assert acked
    assert acked <= found


def test_a_crashed_bookies_connections_close_at_once_if_only_its_process_died() -> None:
    for disk, soonest_s, latest_s in (("kept", 0, 1), ("lost", 4, 10)):
        crash = Crash("b1", disk, when=On("journal.appended", 4, "b1"))
        trace = run(Scenario(Cluster(3), (Write(entries=12, every_ms=1000),), (crash,)))
        killed = of(trace, "node.killed", node="b1")[0].time_us
        failed = of(trace, "add.failed", peer="b1")[0].time_us
        assert soonest_s <= (failed - killed) / 1e6 <= latest_s


def test_a_process_does_nothing_after_the_event_that_crashes_it() -> None:
    crash = Crash("b1", when=On("journal.appended", 1, "b1"))
    trace = run(Scenario(workload=(WRITE,), faults=(crash,), limit_s=20))
    own = [event for event in trace.events if event.node == "b1"]
    killed = next(event for event in own if event.kind == "node.killed")
    again = next(event for event in own if event.seq > killed.seq)
    assert again.seq > of(trace, "epilogue.started")[0].seq


@pytest.mark.parametrize("nth", range(1, 12))
def test_a_crash_before_any_disk_operation_loses_nothing_acknowledged(nth: int) -> None:
    crash = CrashAtOperation("b1", nth, "lot", down_ms=5, when=On("journal.appended", 2, "b1"))
    trace = run(Scenario(workload=(Write(entries=20, window=3),), faults=(crash,), seed=nth))
    assert of(trace, "node.killed", node="b1")
    found = copies(trace)
    assert all(found[key] >= 2 for key in confirmed(trace))


def test_a_power_cut_everywhere_loses_nothing_confirmed() -> None:
    cut = PowerCut("lost", down_ms=50, when=On("lac.advanced", 5))
    trace = run(Scenario(workload=(WRITE,), faults=(cut,)))
    assert len(of(trace, "node.killed")) == 6
    assert confirmed(trace) <= copies(trace).keys()


def test_a_paused_bookie_acknowledges_late_and_the_quorum_goes_on_without_it() -> None:
    pause = Pause("b2", for_ms=500, when=At(0))
    trace = run(Scenario(workload=(WRITE,), faults=(pause,)))
    resumed = of(trace, "node.resumed", node="b2")[0]
    assert all(event.seq < resumed.seq for event in of(trace, "lac.advanced"))
    during = [e for e in trace.events if e.node == "b2" and e.seq < resumed.seq]
    paused = of(trace, "node.paused", node="b2")[0].seq
    assert [e.kind for e in during if e.seq > paused] == []
    assert ends(trace) == ["done"]


def test_a_partitioned_bookie_is_replaced_and_both_sides_agree_after_it() -> None:
    partition = Partition(("b0",), when=On("lac.advanced", 4), for_ms=15_000)
    trace = run(Scenario(Cluster(4), (Write(entries=40, every_ms=300),), (partition,)))
    assert ends(trace) == ["done"]
    assert of(trace, "ensemble.changing")
    assert len(confirmed(trace)) == 40
    found = copies(trace)
    assert all(found[key] >= 2 for key in confirmed(trace))


def test_a_step_dies_with_its_client() -> None:
    crash = Crash("w", when=On("lac.advanced", 3))
    trace = run(Scenario(workload=(Write(entries=50), Recover(when=At(30))), faults=(crash,)))
    assert ends(trace) == ["its node died", "done"]


def test_what_waits_for_a_ledger_that_is_never_made_ends() -> None:
    crash = Crash("w", when=On("step.started", node="w"))
    trace = run(Scenario(workload=(WRITE, Read()), faults=(crash,)))
    assert ends(trace)[0] == "its node died"
    assert "was not made" in ends(trace)[1]
    assert trace.ended_at_s < 5


def test_a_step_whose_event_does_not_come_is_not_waited_for() -> None:
    trace = run(Scenario(workload=(WRITE, Recover(when=On("node.paused")))))
    assert ends(trace) == ["done"]
    assert trace.ended_at_s < 5


def test_a_deleted_ledgers_entries_go_when_garbage_is_collected() -> None:
    delete = Delete(when=On("ledger.closed"))
    later = Write(ledger=1, entries=3, client="v", when=At(4000))
    trace = run(Scenario(workload=(WRITE, delete, later)))
    assert any(event.size for event in of(trace, "garbage.collected"))
    assert {event.ledger for event in of(trace, "read.done")} == {1}


def test_a_run_can_be_looked_at_at_any_moment() -> None:
    trace = run(Scenario(workload=(WRITE,), faults=(Crash("b1", when=On("lac.advanced", 4)),)))
    killed = of(trace, "node.killed")[0]
    assert trace.at(killed.seq - 1).bookies["b1"].state == "up"
    assert trace.at(killed.seq).bookies["b1"].state == "down"
    assert trace.at(time_ms=0).ledgers == {}
    advanced = of(trace, "lac.advanced", entry=2)[0]
    assert [event.kind for event in trace.lineage(advanced.seq)][:2] == ["add.pushed", "add.sent"]


@pytest.mark.parametrize("seq", [-2, 361, 10**9, 1.5, "a"])
def test_an_event_that_a_run_does_not_have_is_refused(seq: Any) -> None:
    trace = run(Scenario())
    assert len(trace.events) == 361
    for ask in (trace.at, trace.lineage, lambda seq: trace.fork(seq, "kill", "b0")):
        with pytest.raises(BKIncorrectParameterException, match="from 0 to 360"):
            ask(seq)


def test_a_moment_is_an_event_or_a_time() -> None:
    trace = run(Scenario())
    assert trace.at(-1).event_count == 0
    with pytest.raises(BKIncorrectParameterException, match="not both"):
        trace.at(3, time_ms=3)
    with pytest.raises(BKIncorrectParameterException, match="must be a number, got nan"):
        trace.at(time_ms=float("nan"))


def test_a_fork_goes_the_same_way_until_the_new_fault_strikes() -> None:
    scenario = Scenario(workload=(Write(entries=40),), seed=5)
    trace = run(scenario)
    moment = of(trace, "lac.advanced")[10]
    fork = run(scenario.with_fault(Crash("b0", when=On("lac.advanced", 11))))
    assert fork.events[: moment.seq] == trace.events[: moment.seq]
    assert of(fork, "node.killed", node="b0")[0].time_us == moment.time_us


def test_every_order_of_messages_can_be_asked_for() -> None:
    small = Scenario(workload=(Write(entries=1, window=1),), in_turn=True, ends_in_power_cut=False)
    first = run(small)
    assert max(first.choices) >= 3
    at = first.choices.index(max(first.choices))
    orders = [
        run(small.with_decision(f"next {at}", choice)).events for choice in range(first.choices[at])
    ]
    assert orders[0] == first.events
    assert len(set(orders)) == len(orders)


@pytest.mark.slow
@pytest.mark.parametrize("first", repeated(range(0, 200, 25)))
def test_no_storm_makes_the_real_code_raise_or_lose_a_confirmed_entry(
    first: int,
) -> None:
    busy = Scenario(Cluster(5), (Write(entries=40), Recover(when=On("lac.advanced", 25))))
    for trace in run_all(storm(busy, seed, 4, 60) for seed in range(first, first + 25)):
        assert of(trace, "node.failed") == [], trace.scenario
        assert confirmed(trace) <= copies(trace).keys(), trace.scenario


def test_a_cluster_that_does_not_come_up_ends_the_run_with_an_error() -> None:
    with pytest.raises(SimulationError, match="b0 did not start"):
        run(Scenario(decisions={"disk b0 0": 1e12}))
