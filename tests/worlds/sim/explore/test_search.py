"""Searches find planted bugs deterministically, and find nothing in the real implementation."""

from collections.abc import Iterator

import pytest

from labkit.system.check.promises.writing import AckQuorumIsReached
from labkit.worlds.sim.explore.scenarios.random_scenarios import random_scenario
from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.explore.search import NEVER_ENDS, Findings, search
from labkit.worlds.sim.machine.loop import BudgetError
from labkit.worlds.sim.scenario.scenario import Scenario, from_json
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.workload.steps import Recover, Write
from tests.repeat import repeated

pytestmark = pytest.mark.slow

VARIANT = "ack after one bookie"
CALM = Scenario(Cluster(2), (Write(entries=2, ensemble=2, write_quorum=2),))


@pytest.mark.promise("Random scenarios and storms break no promise")
@pytest.mark.parametrize("count", repeated([25, 300]))
def test_drawn_scenarios_keep_every_promise_of_the_real_protocol(count: int) -> None:
    findings = search(range(count), stop_at=0)
    assert findings.found == ()
    assert findings.tried == count


def test_a_seed_stands_for_one_scenario() -> None:
    assert random_scenario(17) == random_scenario(17)
    assert len({repr(random_scenario(seed)) for seed in range(200)}) == 200
    assert random_scenario(17).seed == 17
    assert from_json(random_scenario(17).to_json()) == random_scenario(17)


@pytest.mark.slow
def test_however_many_processes_work_the_first_finding_is_the_same() -> None:
    alone = search(range(20), variant=VARIANT, checks=[AckQuorumIsReached], jobs=1)
    together = search(range(20), variant=VARIANT, checks=[AckQuorumIsReached], jobs=3)
    assert alone.first is not None
    assert (together.found, together.tried) == (alone.found, alone.tried)


def test_a_search_needs_no_thread_where_a_browsers_python_has_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = search(range(10), variant=VARIANT, jobs=1, stop_at=0).found

    def no_threads(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr("threading.Thread.start", no_threads)
    monkeypatch.setattr("labkit.worlds.sim.explore.search.sys.platform", "emscripten")
    for jobs in (0, 1, 2):
        assert search(range(10), variant=VARIANT, jobs=jobs, stop_at=0).found == expected


def test_scenarios_of_ones_own_are_searched_as_they_are() -> None:
    base = Scenario(workload=(Write(entries=5), Recover()), variant=VARIANT)
    findings = search(
        (storm(base, seed, 2) for seed in range(8)),
        checks=[AckQuorumIsReached],
        stop_at=3,
        jobs=1,
    )
    assert len(findings.found) == 3
    assert {finding.promise for finding in findings.found} == {"AckQuorumIsReached"}
    assert all(finding.scenario.variant == VARIANT for finding in findings.found)
    assert repr(findings.first) in repr(findings)


@pytest.mark.slow
def test_an_interrupt_leaves_what_was_found() -> None:
    def scenarios() -> Iterator[Scenario | int]:
        yield from [CALM] * 40
        raise KeyboardInterrupt

    findings = search(scenarios(), variant=VARIANT, stop_at=0, jobs=1)
    assert findings.was_interrupted
    assert 0 < findings.tried <= 40
    assert findings.found


def test_progress_is_reported_after_each_scenario() -> None:
    told: list[tuple[int, int]] = []
    search([CALM] * 3, on_progress=lambda *now: told.append(now), stop_at=0, jobs=1)
    assert told == [(1, 0), (2, 0), (3, 0)]


def test_a_run_that_never_ends_is_a_finding(monkeypatch: pytest.MonkeyPatch) -> None:
    def going_round(_: Scenario) -> None:
        raise BudgetError("somebody goes round")

    monkeypatch.setattr("labkit.worlds.sim.explore.search.run", going_round)
    first = search([CALM], jobs=1).first
    assert first is not None
    assert (first.promise, first.reason) == (NEVER_ENDS, "somebody goes round")


def test_a_mistake_of_a_check_names_the_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("labkit.worlds.sim.explore.search.check_all", wrong)
    with pytest.raises(ZeroDivisionError) as raised:
        search([CALM], jobs=1)
    assert repr(CALM) in raised.value.__notes__[0]


def test_nothing_tried_is_nothing_found() -> None:
    found = search([])
    assert found == Findings((), 0, found.seconds)
