"""A topic in the simulated world survives changes of its owner and all kinds of faults."""

import pytest

from labkit.system.check import broken, check_all
from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.workload.produce import Produce
from tests.repeat import repeated

PRODUCE = Produce(messages=30)
TAKE_OVER = Produce(client="q", when=On("batch.stored", nth=6))
CLUSTER = Cluster(bookies=5)


def stored(scenario: Scenario) -> list[tuple[str, int, int]]:
    """Run the scenario and return the client and position of each stored batch."""
    trace = run(scenario)
    assert broken(check_all(trace)) == []
    return [(e.node, e.ledger, e.entry) for e in trace.events if e.kind == "batch.stored"]


def test_the_next_owner_of_a_topic_goes_on_after_its_last_ledger() -> None:
    batches = stored(Scenario(CLUSTER, (PRODUCE, TAKE_OVER)))
    first_of_q = min(ledger for node, ledger, _ in batches if node == "q")
    last_of_p = max(ledger for node, ledger, _ in batches if node == "p")
    assert last_of_p < first_of_q
    assert len([node for node, *_ in batches if node == "q"]) == TAKE_OVER.messages / 2


@pytest.mark.slow
@pytest.mark.parametrize("first_seed", repeated(range(0, 100, 25)))
def test_nothing_that_was_stored_is_lost_or_moves_back(first_seed: int) -> None:
    calm = Scenario(CLUSTER, (PRODUCE, TAKE_OVER))
    for seed in range(first_seed, first_seed + 25):
        trace = run(storm(calm, seed, 5, 300))
        assert broken(check_all(trace)) == [], trace.scenario
