"""A scenario that breaks a promise is shrunk to a small one that breaks the same promise."""

import time
from dataclasses import replace
from functools import partial
from itertools import count
from types import SimpleNamespace

import pytest

from labkit.system.check import Outcome, broken, check_all
from labkit.system.check.promises.writing import AckQuorumIsReached
from labkit.worlds.sim.explore.replay_until_broken import replay_until_broken
from labkit.worlds.sim.explore.scenarios.random_scenarios import random_scenario
from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.explore.search import NEVER_ENDS
from labkit.worlds.sim.explore.shrink import (
    Shrunk,
    ddmin,
    shrink,
    simpler_values,
    with_fewer_entries,
)
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash, Delay, Pause
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.workload.steps import Read, Recover, Write
from tests.worlds.sim.runs import checks_of

PROMISE = "AckQuorumIsReached"
VARIANT = "ack after one bookie"
BIG = storm(
    Scenario(
        Cluster(bookies=5),
        (
            Write(entries=30, window=7, payload_size=77),
            Read(polls=2),
            Recover(client="x", when=On("lac.advanced", 20)),
        ),
        variant=VARIANT,
        limit_s=2.0,
    ),
    seed=4,
    fault_count=5,
)


@pytest.fixture(scope="module")
def shrunk() -> Shrunk:
    return shrink(BIG, PROMISE)


def breaks(scenario: Scenario) -> bool:
    return PROMISE in [verdict.name for verdict in broken(check_all(run(scenario)))]


def test_what_is_left_breaks_the_same_promise(shrunk: Shrunk) -> None:
    assert breaks(BIG)
    assert breaks(shrunk.scenario)
    assert shrunk.verdict.name == PROMISE
    assert shrunk.verdict.lineage


def test_nothing_is_left_that_the_broken_promise_does_not_need(shrunk: Shrunk) -> None:
    (write,) = shrunk.scenario.workload
    assert isinstance(write, Write)
    assert (write.entries, write.payload_size) == (1, Write().payload_size)
    assert (shrunk.scenario.faults, dict(shrunk.scenario.decisions)) == ((), {})
    assert shrunk.scenario.cluster.bookies <= 3
    assert shrunk.scenario.seed is None


def test_shrinking_again_changes_nothing(shrunk: Shrunk) -> None:
    assert shrink(shrunk.scenario, PROMISE).scenario == shrunk.scenario


def test_without_time_it_stops_at_the_named_decisions() -> None:
    hasty = shrink(BIG, PROMISE, patience_s=0.0).scenario
    assert (hasty.seed, hasty.faults) == (None, BIG.faults)


def test_a_busy_machine_shrinks_as_far_as_an_idle_one(
    shrunk: Shrunk, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = count(step=3600)
    clocks = SimpleNamespace(monotonic=lambda: next(hours), process_time=time.process_time)
    monkeypatch.setattr("labkit.worlds.sim.explore.shrink.time", clocks)
    assert shrink(BIG, PROMISE).scenario == shrunk.scenario


def test_a_scenario_that_keeps_its_promises_cannot_be_shrunk() -> None:
    with pytest.raises(LookupError, match="every promise holds"):
        shrink(Scenario(workload=(Write(entries=1),)))
    with pytest.raises(LookupError, match="LacAdvancesInOrder holds"):
        shrink(BIG, "LacAdvancesInOrder")


def test_a_run_that_never_ends_cannot_be_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("labkit.worlds.sim.explore.shrink.run", partial(run, step_budget=100))
    with pytest.raises(LookupError, match="does not end"):
        shrink(Scenario(), NEVER_ENDS)


def test_a_trial_ends_where_the_promise_breaks_and_keeps_the_decisions_up_to_there() -> None:
    whole = run(BIG)
    found = replay_until_broken(BIG, AckQuorumIsReached)
    assert found is not None
    assert found.step_count < whole.step_count / 2
    assert found.scenario.seed is None
    assert found.scenario.decisions.items() < whole.decisions.items()
    assert replay_until_broken(found.scenario, AckQuorumIsReached) == found


def test_a_trial_of_a_kept_promise_or_of_too_many_steps_finds_nothing() -> None:
    assert replay_until_broken(replace(BIG, variant=""), AckQuorumIsReached) is None
    assert replay_until_broken(BIG, AckQuorumIsReached, step_budget=10) is None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["AckQuorumIsReached", "AcknowledgedIsDurable", "NoDirtyReads"])
def test_a_trial_finds_what_a_check_of_the_whole_trace_finds(name: str) -> None:
    (check,) = checks_of(name)
    for seed in range(12):
        scenario = replace(random_scenario(seed), variant=VARIANT)
        (verdict,) = check_all(run(scenario), [check])
        found = replay_until_broken(scenario, check)
        assert (found is not None) == (verdict.outcome is Outcome.INVALID), scenario


@pytest.mark.parametrize("needed", [[], [0], [7], [3, 4], [0, 19], [2, 9, 11]])
def test_ddmin_leaves_what_is_needed_and_nothing_else(needed: list[int]) -> None:
    tried: list[tuple[int, ...]] = []

    def still_breaks(some: tuple[int, ...]) -> bool:
        tried.append(some)
        return set(needed) <= set(some)

    parts = tuple(range(20))
    assert ddmin(parts, still_breaks) == tuple(needed)
    assert tried[0] == ()
    tried.clear()
    assert ddmin(parts, still_breaks, at_once=1) == tuple(needed)
    assert {len(some) for some in tried} <= set(range(len(needed) - 1, 20))


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(30))
def test_every_simpler_value_is_a_scenario_and_simplifying_ends(seed: int) -> None:
    scenario = random_scenario(seed)
    for _ in range(2000):
        simpler = list(simpler_values(scenario))
        if not simpler:
            break
        assert all(isinstance(each, Scenario) and each != scenario for each in simpler)
        scenario = simpler[seed % len(simpler)]
    assert list(simpler_values(scenario)) == []


def test_fewer_entries_take_their_moments_and_decisions_along() -> None:
    scenario = Scenario(
        workload=(Write(entries=9, write_quorum=2), Recover(when=On("lac.advanced", 8))),
        faults=(Crash("b1", when=On("add.sent", 17)), Pause("b2", when=At(3)), Delay()),
        decisions={"delay w>b0 8": 5.0, "delay w>b1 1": 2.0},
    )
    shortest = next(with_fewer_entries(scenario))
    write, recover = shortest.workload
    assert (write, recover.when) == (Write(entries=1, write_quorum=2), On("lac.advanced"))
    assert shortest.faults == (Crash("b1", when=On("add.sent")), Pause("b2", when=At(3)), Delay())
    assert shortest.decisions == {"delay w>b0 0": 5.0, "delay w>b1 0": 2.0}
