"""Tests that the report lists situations reached, situations never reached, and broken promises."""

import ast
from pathlib import Path

import pytest

import labkit.system
from labkit.worlds.sim.explore.scenarios.random_scenarios import random_scenario
from tools.search.code_version import CodeVersion
from tools.search.covered_situations import SITUATIONS
from tools.search.report import published, report
from tools.search.search_state import (
    BrokenPromise,
    Count,
    SearchState,
    state_from_json,
)
from tools.search.targeting import Aim

NEVER = "a power failure during compaction"
MODULE = "client/quorum.py"


def state() -> SearchState:
    """Return the state after 1,000 seeds, one of which also reached a rare situation."""
    aim = Aim()
    for seed in range(1000):
        rare = ["two recoverers"] if seed == 400 else []
        aim.note(random_scenario(3), ["an ensemble change", *rare], seed)
    counts = [
        Count(CodeVersion("aaa", "commit a"), 500_000, 7, 3600.0),
        Count(CodeVersion("bbb", "commit b"), 1000, 250, 180.0),
    ]
    return SearchState("", 501_000, counts, aim, {MODULE: frozenset({a_branch()})}, 0)


def a_branch() -> tuple[int, int]:
    """Return the branch from the module's first `if` to the first line inside it."""
    source = (Path(labkit.system.__file__).parent / MODULE).read_text(encoding="utf-8")
    test = next(each for each in ast.walk(ast.parse(source)) if isinstance(each, ast.If))
    return test.lineno, test.body[0].lineno


@pytest.mark.slow
def test_the_report_counts_by_version_of_the_code() -> None:
    lines = report(state()).splitlines()
    assert "Code: commit b (bbb)" in lines
    assert (
        "1,000 seeds and 250 aimed runs in 0.050 processor hours with this code; the next seed is"
        " 501,000" in lines
    )
    assert (
        "Earlier code, commit a (aaa): 500,000 seeds and 7 aimed runs in 1.000 processor hours"
        in lines
    )
    assert "Promises that broke: none" in lines


@pytest.mark.slow
def test_the_report_names_situations_never_reached_and_rare_ones() -> None:
    text = report(state())
    assert f"Situations of the protocol reached: 2 of {len(SITUATIONS)}" in text
    assert f"  {NEVER}\n" in text
    assert "  two recoverers: seeds 1 (first: 400), aimed runs 0" in text
    assert "Rare, in at most 1% of the seeds: 1:" in text
    assert "an ensemble change:" not in text


@pytest.mark.slow
def test_the_report_says_that_branches_are_a_sample() -> None:
    some = state()
    assert "not measured yet" in report(some)
    some.watched = 30
    text = report(some)
    assert "in 30 measured runs:" in text
    assert "\n  client: 1 of " in text


@pytest.mark.slow
def test_the_report_replays_what_broke() -> None:
    broken = state()
    broken.counts[-1].broken["OneWriter"] = BrokenPromise(2, [4], "two wrote", random_scenario(4))
    text = report(broken)
    assert "OneWriter: 2 times, first seeds: 4\ntwo wrote\n" in text
    assert repr(random_scenario(4)) in text


@pytest.mark.slow
def test_a_page_gets_a_row_for_each_version_of_the_code() -> None:
    text = published(state())
    assert "| commit a (aaa) | 500,000 | 7 | 1.00 | none |\n" in text
    assert "| commit b (bbb) | 1,000 | 250 | 0.05 | none |\n" in text
    assert f"reached 2 of {len(SITUATIONS)} situations" in text
    assert NEVER in text


@pytest.mark.slow
def test_a_page_counts_all_seeds_of_the_protocols_code_whatever_the_checks() -> None:
    some = state()
    codes = [CodeVersion("ccc", "commit c", "p"), CodeVersion("ddd", "commit d", "p")]
    some.counts += [Count(codes[0], 2000, 500, 360.0), Count(codes[1], 40, 10, 36.0)]
    assert "ran 2,040 seeds and 510 aimed runs in 0.110 processor hours." in published(some)
    some.counts = some.counts[:2]  # These counts have an unknown protocol version.
    assert "ran 1,000 seeds and 250 aimed runs in 0.050 processor hours." in published(some)


@pytest.mark.slow
def test_a_search_state_survives_encoding_as_json() -> None:
    before = state()
    before.counts[-1].broken["OneWriter"] = BrokenPromise(2, [4], "two wrote", random_scenario(4))
    after = state_from_json(before.to_json())
    assert after.to_json() == before.to_json()
    assert after.counts == before.counts
    assert after.aim.reached == before.aim.reached
    assert after.taken == before.taken
