"""Tests that aimed scenarios are based on rare situations, reproducible and valid."""

import pytest

from labkit.worlds.sim.explore.scenarios.random_scenarios import random_scenario
from labkit.worlds.sim.explore.scenarios.random_topic_scenarios import random_topic_scenario
from labkit.worlds.sim.explore.situations.targeting import LATEST, Aim, Reached
from labkit.worlds.sim.scenario.faults import HangingMetadata, Pause, SessionLoss
from labkit.worlds.sim.scenario.scenario import Scenario, from_json
from labkit.worlds.sim.settings.triggers import On

RARE, COMMON = "two recoverers", "an ensemble change"


def aim_after(seeds: int, *reached: tuple[int, str]) -> Aim:
    aim = Aim()
    aim.add(seeds, {})
    for seed, name in reached:
        aim.add(0, {name: Reached(1, 0, seed, (random_scenario(seed),))})
    return aim


def reached_by_aimed(scenario: Scenario) -> dict[str, Reached]:
    return {RARE: Reached(0, 1, None, (scenario,))}


def test_there_is_nothing_to_aim_at_before_something_was_reached() -> None:
    assert Aim().next(0) is None
    assert aim_after(100).next(0) is None


def test_what_few_seeds_reach_is_rare_and_the_only_aim() -> None:
    aim = aim_after(100, (3, RARE), (4, COMMON), (5, COMMON))
    assert aim.is_rare(RARE)
    assert not aim.is_rare(COMMON)
    assert aim.reached[RARE].first_seed == 3
    assert COMMON not in aim.never_reached()
    assert "a power failure during compaction" in aim.never_reached()
    clusters = {aimed.cluster for at in range(20) if (aimed := aim.next(at)) is not None}
    rare, *common = (random_scenario(seed).cluster for seed in (3, 4, 5))
    assert clusters == {rare}
    assert rare not in common


def test_an_aimed_run_makes_nothing_less_rare() -> None:
    aim = aim_after(100, (3, RARE))
    for _ in range(50):
        aim.add(0, reached_by_aimed(random_scenario(3)))
    assert aim.is_rare(RARE)
    assert (aim.seeds, aim.reached[RARE].by_aimed) == (100, 50)


def test_what_aimed_runs_alone_reach_is_an_aim_too() -> None:
    aim = aim_after(10)
    aim.add(0, reached_by_aimed(random_scenario(3)))
    assert aim.reached[RARE].first_seed is None
    assert RARE not in aim.never_reached()
    assert aim.next(1) is not None


def test_a_situation_that_nothing_reached_is_brought_about_where_its_activity_is() -> None:
    """No run has reached the situations, but runs have reached their activity, a recovery."""
    aim = aim_after(100, *((seed, RARE) for seed in range(50)))
    scenarios = [scenario for at in range(60) if (scenario := aim.next(at)) is not None]
    started = [
        fault
        for scenario in scenarios
        for fault in scenario.faults
        if fault.when in [On("recovery.started", nth) for nth in (1, 2, 3)]
    ]
    assert {type(fault) for fault in started} >= {SessionLoss, Pause, HangingMetadata}


@pytest.mark.sampled
@pytest.mark.parametrize("make", [random_scenario, random_topic_scenario])
def test_an_aimed_scenario_is_a_near_relative_and_the_same_again(make: type) -> None:
    scenario: Scenario = make(5)
    aim = aim_after(100)
    aim.add(1, {RARE: Reached(1, 0, 5, (scenario,))})
    for number in range(50):
        aimed = aim.next(number)
        assert aimed is not None
        assert aimed == aim.next(number)
        assert aimed.workload[: len(scenario.workload)] == scenario.workload
        assert len(aimed.workload) <= len(scenario.workload) + 1
        assert aimed.cluster == scenario.cluster
        assert abs(len(aimed.faults) - len(scenario.faults)) <= 1
        assert from_json(aimed.to_json()) == aimed
    assert len({repr(aim.next(number)) for number in range(50)}) == 50


def test_only_the_latest_scenarios_and_the_first_seed_are_kept() -> None:
    aim = aim_after(100, *((seed, RARE) for seed in (7, 6, 5, 4, 3)))
    latest = tuple(map(random_scenario, (7, 6, 5, 4, 3)))[-LATEST:]
    assert aim.reached[RARE] == Reached(5, 0, 3, latest)


def test_a_situation_that_is_no_longer_counted_is_ignored() -> None:
    aim = aim_after(100)
    aim.add(1, {"a situation of earlier code": Reached(1)})
    assert "a situation of earlier code" not in aim.reached
