"""Random scenarios contain steps that use the protocol's less common features."""

from dataclasses import replace

from labkit.worlds.sim.explore.scenarios.random_scenarios import random_scenario
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import NameRacks, Read, Write
from tests.worlds.sim.runs import ends, of, run_safely

FOUR = Write(entries=4, window=1, close=False)


def ran(*steps: Write | Read | NameRacks, bookies: int = 3) -> Trace:
    trace = run_safely(Scenario(Cluster(bookies), steps))
    assert set(ends(trace)) == {"done"}
    return trace


def read_entries(trace: Trace) -> list[int]:
    return [event.entry for event in of(trace, "read.done", node="r") if event.entry >= 0]


def test_an_entry_with_deferred_sync_is_confirmed_when_its_batch_is_forced() -> None:
    trace = ran(replace(FOUR, force_every=2))
    order = [e for e in trace.events if e.kind in ("add.pushed", "lac.advanced") and e.node == "w"]
    pushed = [event.kind for event in order]
    assert pushed == [*["add.pushed"] * 2, *["lac.advanced"] * 2] * 2


def test_a_reader_learns_the_last_entry_of_an_idle_writer_from_its_explicit_lac() -> None:
    reader = Read(polls=5, long_poll_ms=50, when=At(200))
    assert max(read_entries(ran(FOUR, reader))) == 2
    assert max(read_entries(ran(replace(FOUR, explicit_lac_ms=20), reader))) == 3


def test_a_long_poll_reads_one_entry_as_soon_as_it_is_confirmed() -> None:
    trace = ran(replace(FOUR, every_ms=50), Read(polls=3, long_poll_ms=1000))
    assert read_entries(trace) == [0, 1, 2]


def test_a_writer_that_looks_at_racks_spreads_its_copies() -> None:
    two = replace(FOUR, ensemble=2, write_quorum=2, when=At(50))
    # b0 and b2 are in one rack, b1 and b3 in the other.
    trace = ran(NameRacks(), replace(two, racks=2), replace(two, ledger=1, client="v"), bookies=4)
    ensembles = {event.node: event.ensemble for event in of(trace, "ensemble.set")}
    racks = {int(name[1:]) % 2 for name in ensembles["w"]}
    assert racks == {0, 1}


def test_drawn_steps_go_each_of_these_ways() -> None:
    steps = [step for seed in range(200) for step in random_scenario(seed).workload]
    writes = [step for step in steps if isinstance(step, Write)]
    assert any(step.force_every for step in writes)
    assert any(step.explicit_lac_ms for step in writes)
    assert any(step.racks for step in writes)
    assert any(step.long_poll_ms for step in steps if isinstance(step, Read))
