"""Tests that the situations have unique names, and that random scenarios reach some of them."""

from pathlib import Path

import pytest

from labkit.system.trace.kinds import KINDS
from labkit.worlds.sim.explore.scenarios.random_scenarios import random_scenario
from labkit.worlds.sim.explore.situations.covered_situations import SITUATIONS
from labkit.worlds.sim.explore.situations.situations_reached import SituationFinder
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.workload.steps import Recover, Write
from tests.worlds.sim.explore.situations.test_situations_reached import Run


def test_a_name_stands_for_one_situation() -> None:
    assert len({each.name for each in SITUATIONS}) == len(SITUATIONS)


def test_situations_are_about_events_that_the_trace_knows() -> None:
    kinds = {each.kind for each in SITUATIONS}
    for each in SITUATIONS:
        if each.during is not None:
            kinds |= {*each.during.begins, *each.during.ends}
            assert bool(each.during.begins) != bool(each.during.call), each.name
    assert kinds <= set(KINDS)


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("seed", "names"),
    [
        (12, {"an ensemble change", "a fence during a flush", "a power failure during a flush"}),
        (6, {"two recoverers", "a recovery finds entries beyond the LAC"}),
        (77, {"an ensemble change during recovery"}),
        (91, {"a power failure while deleted ledgers are collected"}),
        (13, {"the writer finds itself fenced", "a fence on a closed ledger"}),
    ],
)
def test_drawn_scenarios_get_into_situations(seed: int, names: set[str]) -> None:
    assert names <= set(SituationFinder(SITUATIONS).reached(run(random_scenario(seed))))


def test_a_calm_run_gets_into_no_trouble() -> None:
    calm = Scenario(Cluster(3), (Write(entries=2, window=1),), late_share=0.0, slow_share=0.0)
    assert SituationFinder(SITUATIONS).reached(run(calm)) == []


def test_the_page_says_how_many_there_are() -> None:
    page = Path(__file__).parents[5] / "tools" / "search" / "results.md"
    assert f"lists {len(SITUATIONS)} of them" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("last", "is_reached"), [("recovery.covered", True), ("ledger.closed", False)]
)
def test_a_recoverer_that_dies_after_it_has_closed_the_ledger_does_not_die_before(
    last: str, is_reached: bool
) -> None:
    recovery = ("recovery.started", "recovery.covered", "ledger.closed")
    steps = [("x", kind, 1) for kind in recovery[: recovery.index(last) + 1]]
    run = Run((*steps, ("x", "node.killed", -1)))
    reached = SituationFinder(SITUATIONS).reached(run)
    assert ("the recoverer dies before it closes the ledger" in reached) is is_reached


def test_a_recoverer_closes_the_ledger_before_it_reports_the_end_of_the_recovery() -> None:
    """`covered_situations` relies on this order."""
    scenario = Scenario(
        Cluster(3), (Write(entries=2, close=False), Recover(client="x", when=On("lac.advanced")))
    )
    kinds = [event.kind for event in run(scenario).events if event.node == "x"]
    assert kinds.index("ledger.closed") < kinds.index("recovery.ended")
