"""A scenario that breaks a promise becomes a small one that breaks the same."""

import pytest

from labkit.check import broken, check_all
from labkit.sim.explore.drawn import drawn
from labkit.sim.explore.shrink import Shrunk, ddmin, shorter, shrink, simpler_values
from labkit.sim.explore.storm import storm
from labkit.sim.faults import Crash, Delay, Pause
from labkit.sim.moments import At, On
from labkit.sim.run import run
from labkit.sim.scenario import Cluster, Scenario, from_json
from labkit.sim.workload import Read, Recover, Write

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


def test_it_replays_from_its_text_and_from_json(shrunk: Shrunk) -> None:
    names = {"Scenario": Scenario, "Cluster": Cluster, "Write": Write}
    assert eval(repr(shrunk.scenario), names) == shrunk.scenario
    again = from_json(shrunk.scenario.to_json())
    assert run(again).digest == run(shrunk.scenario).digest


def test_shrinking_again_changes_nothing(shrunk: Shrunk) -> None:
    assert shrink(shrunk.scenario, PROMISE).scenario == shrunk.scenario


def test_without_time_it_stops_at_the_named_decisions() -> None:
    hasty = shrink(BIG, PROMISE, patience_s=0.0).scenario
    assert (hasty.seed, hasty.faults) == (None, BIG.faults)


def test_a_scenario_that_keeps_its_promises_cannot_be_shrunk() -> None:
    with pytest.raises(LookupError, match="no promise"):
        shrink(Scenario(workload=(Write(entries=1),)))
    with pytest.raises(LookupError, match="LacAdvancesInOrder"):
        shrink(BIG, "LacAdvancesInOrder")


# Its parts


@pytest.mark.parametrize("needed", [[], [0], [7], [3, 4], [0, 19], [2, 9, 11]])
def test_ddmin_leaves_what_is_needed_and_nothing_else(needed: list[int]) -> None:
    assert ddmin(list(range(20)), lambda some: set(needed) <= set(some)) == needed


@pytest.mark.parametrize("seed", range(30))
def test_every_simpler_value_is_a_scenario_and_simplifying_ends(seed: int) -> None:
    scenario = drawn(seed)
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
    shortest = next(shorter(scenario))
    write, recover = shortest.workload
    assert (write, recover.when) == (Write(entries=1, write_quorum=2), On("lac.advanced"))
    assert shortest.faults == (Crash("b1", when=On("add.sent")), Pause("b2", when=At(3)), Delay())
    assert shortest.decisions == {"delay w>b0 0": 5.0, "delay w>b1 0": 2.0}
