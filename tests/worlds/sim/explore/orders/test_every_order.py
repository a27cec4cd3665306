"""Checks small scenarios on the real code in every possible order of events."""

import asyncio
from dataclasses import replace

import pytest

from labkit.system.check import broken, check_all
from labkit.system.check.promises.durability import AcknowledgedIsDurable, EveryCopyIsDurable
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.sim.explore.orders.every_order import Enumeration, every_order
from labkit.worlds.sim.explore.orders.transition_table import TransitionTable
from labkit.worlds.sim.machine.loop import SimulationError
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import START, On
from labkit.worlds.sim.workload.steps import Recover, Write
from tests.worlds.sim.runs import before_epilogue, run_safely

pytestmark = pytest.mark.slow

RECOVER = Recover(when=On("add.pushed"))
WRITE = Write(entries=1, window=1, close=False)
THREE = Scenario(workload=(WRITE, RECOVER))
TWO = Scenario(Cluster(2), (replace(WRITE, ensemble=2, write_quorum=2, ack_quorum=2), RECOVER))
ALONE = Scenario(
    Cluster(1),
    (replace(WRITE, ensemble=1, write_quorum=1, ack_quorum=1),),
    ends_in_power_cut=False,
)
"""A writer and one bookie, without a power cut at the end."""
STRIPED = Scenario(
    Cluster(2),
    (replace(WRITE, entries=2, ensemble=2, write_quorum=1, ack_quorum=1), RECOVER),
)


def quietly(states: int, findings: int) -> None:
    """Print no progress line."""


def all_orders(scenario: Scenario, **options: float) -> Enumeration:
    return every_order(scenario, on_progress=quietly, patience_s=300, **options)  # type: ignore[arg-type]


def variant(scenario: Scenario, name: str) -> Scenario:
    return replace(scenario, variant=name)


def test_no_order_of_a_writer_and_a_recoverer_breaks_a_promise() -> None:
    found = all_orders(TWO)
    assert found.complete
    assert (found.findings, found.broken_ends) == ((), 0)
    assert found.orders > found.ends > 1
    assert found.runs < found.states


@pytest.mark.long
def test_no_order_breaks_a_promise_with_three_bookies_either() -> None:
    found = all_orders(THREE)
    assert found.complete
    assert found.findings == ()
    assert found.orders > 100_000


@pytest.mark.parametrize("name", ["ack after one bookie", "recovery without fencing"])
def test_a_mistake_is_found_and_its_scenario_breaks_the_promise_again(name: str) -> None:
    found = all_orders(variant(TWO, name))
    assert found.complete
    assert found.broken_ends > 0
    for finding in found.findings:
        assert finding.promise in {each.name for each in broken(check_all(run(finding.scenario)))}


def test_a_mistake_that_needs_a_particular_order_is_found() -> None:
    wrong = variant(THREE, "recovery trusts one bookie")
    run_safely(replace(wrong, in_turn=True))
    found = all_orders(wrong, stop_at=1)
    assert not found.complete
    assert "AcknowledgedIsDurable" in [finding.promise for finding in found.findings]


def test_a_lost_fence_is_tried_too_and_reads_that_do_not_fence_lose_an_entry_by_it() -> None:
    wrong = variant(TWO, "no fencing on recovery reads")
    checks = [AcknowledgedIsDurable]
    assert every_order(wrong, checks=checks, on_progress=quietly).findings == ()
    found = every_order(wrong, checks=checks, losses=1, stop_at=1, on_progress=quietly)
    (finding,) = found.findings
    assert [name for name in finding.scenario.decisions if name.startswith("lose")] == [
        "lose r>b0 2"
    ]
    assert broken(check_all(run(finding.scenario), checks))
    run_safely(variant(finding.scenario, ""))


def test_what_was_answered_before_its_sync_is_lost_by_a_crash() -> None:
    wrong = variant(ALONE, "ack before sync")
    assert every_order(wrong, checks=[EveryCopyIsDurable], on_progress=quietly).findings == ()
    found = every_order(wrong, checks=[EveryCopyIsDurable], crashes=1, on_progress=quietly)
    (finding,) = found.findings
    assert found.complete
    assert finding.scenario.decisions == {"crash b0 1": 1.0}
    assert broken(check_all(run(finding.scenario), [EveryCopyIsDurable]))


def test_no_crash_and_no_loss_breaks_a_promise_of_a_writer_and_a_recoverer() -> None:
    crashed = all_orders(STRIPED, crashes=1)
    lossy = all_orders(STRIPED, losses=1)
    both = all_orders(ALONE, crashes=1, losses=1)
    for found in (crashed, lossy, both):
        assert found.complete
        assert found.findings == ()
        assert found.failure_combinations > 3
    assert (
        both.failure_combinations
        > all_orders(ALONE, crashes=1).failure_combinations
        + all_orders(ALONE, losses=1).failure_combinations
    )


def test_a_bookie_that_crashed_in_turn_is_back_with_what_it_had_synced() -> None:
    trace = run_safely(replace(STRIPED, in_turn=True, decisions={"crash b0 1": 1.0}))
    of_b0 = [event.kind for event in before_epilogue(trace) if event.node == "b0"]
    kill = of_b0.index("node.killed")
    assert of_b0[kill - 1] == "journal.synced"
    assert {"journal.replayed", "node.started"} <= set(of_b0[kill:])


def test_fewer_than_no_crashes_are_refused() -> None:
    with pytest.raises(BKIncorrectParameterException, match="must not be negative"):
        every_order(TWO, crashes=-1)


@pytest.mark.long
def test_orders_that_are_left_out_lead_to_no_other_end(monkeypatch: pytest.MonkeyPatch) -> None:
    for scenario in (TWO, variant(TWO, "recovery without fencing")):
        few = all_orders(scenario)
        with monkeypatch.context() as patch:
            patch.setattr(TransitionTable, "_others_can_send", lambda *_: True)
            every = all_orders(scenario)
        assert (every.ends, every.broken_ends) == (few.ends, few.broken_ends)
        assert every.orders > few.orders
        assert {each.promise for each in every.findings} == {each.promise for each in few.findings}


def test_a_search_without_patience_says_that_it_is_not_complete() -> None:
    found = every_order(TWO, on_progress=quietly, patience_s=0)
    assert not found.complete
    assert "not all" in repr(found)


async def test_it_is_a_plain_call_in_a_notebook_too() -> None:
    assert asyncio.get_running_loop().is_running()
    assert all_orders(replace(TWO, workload=TWO.workload[:1])).complete


def test_progress_is_reported() -> None:
    told: list[int] = []
    every_order(TWO, on_progress=lambda states, findings: told.append(states))
    assert max(told) > 10


def test_faults_and_seeds_are_refused() -> None:
    waits = TWO.with_decision("wait 3", 6000)
    for scenario in (TWO.with_fault(Crash("b0")), replace(TWO, seed=1), waits):
        with pytest.raises(BKIncorrectParameterException, match="remove them from the scenario"):
            every_order(scenario)


def test_nodes_that_hear_of_each_other_without_messages_are_refused() -> None:
    at_once = replace(TWO, workload=(TWO.workload[0], replace(RECOVER, when=START)))
    with pytest.raises(SimulationError, match="only through messages"):
        all_orders(at_once)
