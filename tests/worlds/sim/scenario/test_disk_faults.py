"""Each disk fault has its documented effect, and bookies survive it without losing data."""

import pytest

from labkit.worlds.sim.explore.scenarios.random_scenarios import random_scenario
from labkit.worlds.sim.scenario.faults import (
    ClockSkew,
    Crash,
    FailingRead,
    Fault,
    FullAtSync,
    ReplacedDisks,
)
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Read, Recover, Write
from tests.worlds.sim.runs import of, run_safely

WRITE = Write(entries=20, every_ms=3, close=False)


def run_with(*faults: Fault, cluster: Cluster | None = None) -> Trace:
    steps = (WRITE, Recover(client="x", when=At(120)), Read(polls=4, poll_ms=50))
    return run_safely(Scenario(cluster or Cluster(3), steps, faults, limit_s=5.0))


@pytest.mark.parametrize("which", ["all", "journal", "ledgers"])
def test_a_bookie_whose_disks_were_replaced_does_not_start(which: str) -> None:
    replaced = (ReplacedDisks(name, which, 10, At(80)) for name in ("b0", "b1"))
    trace = run_with(Crash("w", "lost", when=At(70)), *replaced)
    ends = [event.error for event in of(trace, "node.killed", node="b0")]
    assert "InvalidCookieException" in ends


def test_a_bookie_that_cannot_read_says_so_until_it_can() -> None:
    flushing = Cluster(3, flush_interval_ms=10)
    trace = run_with(FailingRead("b0", 60, At(90)), cluster=flushing)
    failed = [each for each in of(trace, "read.failed", peer="b0") if each.entry >= 0]
    assert failed
    assert {each.error for each in failed} == {"BKReadException"}
    assert of(trace, "read.done", node="epilogue", peer="b0")


def test_a_bookie_cannot_start_while_its_reads_fail() -> None:
    trace = run_with(FailingRead("b0", 0, At(90)), Crash("b0", "kept", 10, At(100)))
    assert "read of" in of(trace, "node.killed", node="b0")[1].explanation


def test_a_bookie_that_is_full_at_the_sync_of_its_journal_stops_and_loses_nothing() -> None:
    trace = run_with(FullAtSync("b0", 20, On("add.acked", 5)), Crash("b0", "lost", 5, At(60)))
    assert "no space" in of(trace, "node.killed", node="b0")[0].explanation


def test_drawn_clocks_also_show_another_time() -> None:
    faults = [each for seed in range(100) for each in random_scenario(seed).faults]
    assert any(isinstance(each, ClockSkew) and each.offset_ms for each in faults)
    for kind in (ReplacedDisks, FailingRead, FullAtSync):
        assert any(isinstance(each, kind) for each in faults)
