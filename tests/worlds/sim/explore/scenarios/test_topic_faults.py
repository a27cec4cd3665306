"""When a topic's bookies are lost, autorecovery repairs its ledgers, even open ones."""

from labkit.worlds.sim.explore.scenarios.random_topic_scenarios import random_topic_scenario
from labkit.worlds.sim.explore.situations.covered_situations import SITUATIONS
from labkit.worlds.sim.explore.situations.situations_reached import SituationFinder
from labkit.worlds.sim.scenario.faults import ReplacedDisks
from tests.worlds.sim.runs import of, run_safely

FENCED = 55
"""A topic seed for which a worker recovers the ledger of a running broker."""
DRAWN = [random_topic_scenario(seed) for seed in range(200)]


def test_a_broker_goes_on_in_a_new_ledger_and_stores_nothing_twice_when_a_worker_fences_it() -> (
    None
):
    trace = run_safely(random_topic_scenario(FENCED))
    [worker] = [e.node for e in of(trace, "recovery.started") if e.node.startswith("b")]
    assert [event.node for event in of(trace, "ledger.closed")][:1] == [worker]
    assert [event.ledger for event in of(trace, "ledger.rolled")] == [0, 1]
    reached = SituationFinder(SITUATIONS).reached(trace)
    assert "a broker that serves a topic finds itself fenced" in reached
    found = [(event.producer, event.sequence_id) for event in of(trace, "message.found")]
    assert len(found) == len(set(found)) == 8


def test_machines_fail_and_settings_differ_and_no_disk_is_replaced() -> None:
    faults = {type(fault).__name__ for each in DRAWN for fault in each.faults}
    assert faults >= {"FailingRead", "FullAtSync", "ClockSkew"}
    assert ReplacedDisks.__name__ not in faults
    assert len({each.cluster.storage for each in DRAWN}) > 5
