"""Searches find planted mistakes, always the same ones, and nothing in the real thing."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from labkit.check import CHECKS
from labkit.check.writing import AckQuorumIsReached
from labkit.cli import main
from labkit.model.errors import BKIncorrectParameterException
from labkit.sim.cluster import Cluster
from labkit.sim.explore.drawn import drawn
from labkit.sim.explore.long_search import LongSearch, resume
from labkit.sim.explore.search import NEVER_ENDS, Findings, search
from labkit.sim.explore.storm import storm
from labkit.sim.loop import BudgetError
from labkit.sim.scenario import Scenario, from_json
from labkit.sim.variants import VARIANTS
from labkit.sim.workload import Recover, Write
from tests.repeat import repeated

pytestmark = pytest.mark.slow

VARIANT = "ack after one bookie"
CALM = Scenario(Cluster(2), (Write(entries=2, ensemble=2, write_quorum=2),))


@pytest.mark.parametrize("count", repeated([25, 300]))
def test_drawn_scenarios_keep_every_promise_of_the_real_protocol(count: int) -> None:
    findings = search(range(count), stop_at=0)
    assert findings.found == ()
    assert findings.tried == count


COMMON = (
    VARIANT,
    "recovery without fencing",
    "auditor without delay",
    "recovery trusts one bookie",
    "LAC out of order",
    "ensemble change from the wrong entry",
    "could not read taken for no such entry",
)
"""The mistakes that are found soon; the soonest first."""


@pytest.mark.parametrize("variant", repeated(COMMON, once=3))
def test_a_common_mistake_breaks_its_promise_within_100_scenarios(variant: str) -> None:
    promise = [check for check in CHECKS if check.__name__ == VARIANTS[variant].breaks]
    assert search(range(100), variant=variant, checks=promise, jobs=1).first is not None


@pytest.mark.parametrize(
    ("variant", "seed"),
    [
        ("fence not persisted", 161),
        ("no fencing on recovery reads", 1533),
        ("silence taken for absence", 554),
        ("lost sessions noticed late", 160),
    ],
)
def test_a_rare_mistake_breaks_its_promise_in_one_of_5000(variant: str, seed: int) -> None:
    promise = [check for check in CHECKS if check.__name__ == VARIANTS[variant].breaks]
    assert search([seed], variant=variant, checks=promise, jobs=1).first is not None
    assert search([seed], jobs=1).found == ()


def test_a_seed_stands_for_one_scenario() -> None:
    assert drawn(17) == drawn(17)
    assert len({repr(drawn(seed)) for seed in range(200)}) == 200
    assert drawn(17).seed == 17
    assert from_json(drawn(17).to_json()) == drawn(17)


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
    monkeypatch.setattr("labkit.sim.explore.search.sys.platform", "emscripten")
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

    monkeypatch.setattr("labkit.sim.explore.search.run", going_round)
    first = search([CALM], jobs=1).first
    assert first is not None
    assert (first.promise, first.reason) == (NEVER_ENDS, "somebody goes round")


def test_a_mistake_of_a_check_names_the_scenario(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("labkit.sim.explore.search.check_all", wrong)
    with pytest.raises(ZeroDivisionError) as raised:
        search([CALM], jobs=1)
    assert repr(CALM) in raised.value.__notes__[0]


def test_nothing_tried_is_nothing_found() -> None:
    assert search([]) == Findings((), 0, pytest.approx(0, abs=60))


# The long search


@pytest.mark.slow
def test_a_long_search_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    resume(path, VARIANT).go_on(path, seeds=4, jobs=1)
    resume(path, VARIANT).go_on(path, seeds=2, jobs=1)
    whole = LongSearch(VARIANT)
    whole.go_on(tmp_path / "whole.json", seeds=6, jobs=1)
    resumed = resume(path, VARIANT)
    assert resumed.next_seed == 6
    assert resumed.broken == whole.broken
    assert resumed.broken


def test_its_summary_has_scenarios_that_replay(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    resume(path, VARIANT).go_on(path, seeds=8, jobs=1)
    data = json.loads(path.read_text())
    found = data["broken"]["AckQuorumIsReached"]
    scenario = from_json(json.dumps(found["scenario"]))
    assert search([scenario], checks=CHECKS, jobs=1).first is not None
    text = path.with_suffix(".txt").read_text()
    assert repr(scenario) in text
    assert "Seeds 0 to 7" in text
    assert found["times"] == len(found["seeds"])


def test_the_state_of_another_variant_is_not_gone_on_with(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    LongSearch(VARIANT).save(path)
    with pytest.raises(BKIncorrectParameterException, match=VARIANT):
        resume(path, "")


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"variant": "", "broken": 5}', "\xff"])
def test_a_file_that_is_no_state_of_a_search_is_refused_and_kept(tmp_path: Path, text: str) -> None:
    path = tmp_path / "state.json"
    path.write_text(text, encoding="latin-1")
    with pytest.raises(BKIncorrectParameterException, match="is not the state of a search"):
        resume(path, "")
    assert path.read_text(encoding="latin-1") == text


def test_a_state_is_never_kept_where_its_text_goes(tmp_path: Path) -> None:
    with pytest.raises(BKIncorrectParameterException, match="name another file"):
        resume(tmp_path / "state.txt", "")


def test_a_state_that_cannot_be_written_is_reported_before_the_search(tmp_path: Path) -> None:
    long_search = LongSearch(VARIANT)
    with pytest.raises(FileNotFoundError):
        long_search.go_on(tmp_path / "no folder" / "state.json", seeds=1, jobs=1)
    assert long_search.next_seed == 0


def test_a_stop_while_it_is_saved_leaves_the_old_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "state.json"
    LongSearch(next_seed=5).save(path)

    def stopped(_: int) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", stopped)
    with pytest.raises(KeyboardInterrupt):
        LongSearch(next_seed=9).save(path)
    assert resume(path, "").next_seed == 5


def test_the_command_says_what_it_found_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    state = ["--state", str(tmp_path / "s.json"), "--seeds", "4", "--jobs", "1"]
    assert main(["search", "--variant", VARIANT, *state]) == 1
    assert "AckQuorumIsReached" in capsys.readouterr().out
    assert main(["search", *state]) == 1
    assert "another" in capsys.readouterr().err
    assert main(["search", "--variant", "no such thing", *state]) == 1
    assert "LAC out of order" in capsys.readouterr().err


@pytest.mark.long
def test_the_command_writes_counterexamples_again(tmp_path: Path) -> None:
    where = ["--counterexamples", str(tmp_path), "--seeds", "40", "--jobs", "1"]
    assert main(["search", "--variant", "recovery without fencing", *where]) == 0
    (path,) = tmp_path.iterdir()
    assert path.name == "recovery-without-fencing.json"
    assert search([from_json(path.read_text())], jobs=1).first is not None


@pytest.mark.slow
def test_the_command_ends_well_when_nothing_is_found(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "labkit", "search", "--seeds", "3", "--jobs", "2"]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "Promises that broke: none" in done.stdout
    assert (tmp_path / "search.json").exists()
    assert (tmp_path / "search.txt").exists()
