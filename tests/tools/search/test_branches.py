"""Tests that watching a run records the branches that it takes, and has no other effect."""

import gc

import pytest
from coverage import Coverage

from labkit.system.client.quorum import judge
from labkit.system.model.entry import Entry
from labkit.system.model.errors import BKNoSuchEntryException
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.workload.steps import Write
from tools.search.branches import PACKAGES, measure, modules, shares

QUORUM = "client/quorum.py"


def test_what_is_watched_says_which_way_it_went() -> None:
    denied = [BKNoSuchEntryException(), BKNoSuchEntryException()]
    verdict, one_way = measure(lambda: judge(denied, 2, 1))
    assert verdict is judge(denied, 2, 1)
    _, other_way = measure(lambda: judge([Entry(0, 0, -1, 0, b"")], 2, 1))
    assert one_way[QUORUM] - other_way[QUORUM]
    assert other_way[QUORUM] - one_way[QUORUM]


def test_no_code_beside_the_protocol_is_watched() -> None:
    scenario = Scenario(workload=(Write(entries=1),))
    trace, taken = measure(lambda: run(scenario))
    assert trace.digest == run(scenario).digest
    assert set(taken) <= set(modules())
    assert {name.partition("/")[0] for name in taken} <= set(PACKAGES)


@pytest.mark.slow
def test_shares_count_all_branches_and_those_taken() -> None:
    nothing = {each.package: each for each in shares({})}
    assert set(nothing) == set(PACKAGES)
    assert all(each.taken == 0 < each.total for each in nothing.values())
    _, taken = measure(lambda: judge([BKNoSuchEntryException()], 2, 1))
    some = {each.package: each for each in shares(taken)}
    assert some["client"].taken > 0
    assert some["client"].total == nothing["client"].total
    assert some["storage"] == nothing["storage"]


@pytest.mark.slow
def test_memory_does_not_grow_with_each_watched_run() -> None:
    measure(lambda: run(Scenario(workload=(Write(entries=1),))))
    before = _coverages()
    for _ in range(3):
        measure(lambda: run(Scenario(workload=(Write(entries=1),))))
    assert _coverages() == before


def _coverages() -> int:
    gc.collect()
    return sum(isinstance(each, Coverage) for each in gc.get_objects())
