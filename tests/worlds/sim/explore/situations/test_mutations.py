"""Tests mutations of a scenario: the cluster and workload stay the same, and the faults change."""

import random

import pytest

from labkit.worlds.sim.explore.scenarios.random_scenarios import random_scenario
from labkit.worlds.sim.explore.scenarios.random_topic_scenarios import random_topic_scenario
from labkit.worlds.sim.explore.situations.covered_situations import SITUATIONS
from labkit.worlds.sim.explore.situations.mutations import can_be_provoked, provoke, variation_of
from labkit.worlds.sim.explore.situations.situations_reached import Situation, SituationFinder
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.workload.steps import Recover, Write

BY_NAME = {each.name: each for each in SITUATIONS}
LOST, SECOND = BY_NAME["the recoverer loses its session during recovery"], BY_NAME["two recoverers"]


@pytest.mark.parametrize(
    ("name", "without_brokers", "with_brokers"),
    [
        (LOST.name, True, True),
        pytest.param(SECOND.name, True, False, id="no client meddles with brokers' ledgers"),
        ("a reader reads the LAC during recovery", False, False),
        ("a power failure during a flush", False, False),
        ("an ensemble change", False, False),
    ],
)
def test_only_an_event_with_a_known_cause_is_provoked(
    name: str, without_brokers: bool, with_brokers: bool
) -> None:
    assert can_be_provoked(BY_NAME[name], random_scenario(3)) is without_brokers
    assert can_be_provoked(BY_NAME[name], random_topic_scenario(3)) is with_brokers


@pytest.mark.parametrize("situation", [LOST, SECOND], ids=lambda situation: situation.name)
def test_what_is_provoked_comes_about_in_some_attempts(situation: Situation) -> None:
    lots = random.Random(1)
    calm = Scenario(workload=(Write(entries=3, close=False), Recover(client="x")))
    scenarios = [provoke(calm, situation, lots) for _ in range(12)]
    assert SituationFinder([situation]).reached(run(calm)) == []
    assert any(SituationFinder([situation]).reached(run(scenario)) for scenario in scenarios)


def test_a_stranger_comes_once() -> None:
    lots = random.Random(1)
    twice = provoke(provoke(random_scenario(3), SECOND, lots), SECOND, lots)
    assert len(twice.workload) == len(random_scenario(3).workload) + 1


def test_a_relative_has_another_seed_and_at_most_one_fault_more_or_less() -> None:
    lots, scenario = random.Random(1), random_scenario(4)
    for _ in range(50):
        one = variation_of(scenario, LOST, lots)
        assert one.seed != scenario.seed
        assert abs(len(one.faults) - len(scenario.faults)) <= 1
        assert (one.cluster, one.workload) == (scenario.cluster, scenario.workload)
