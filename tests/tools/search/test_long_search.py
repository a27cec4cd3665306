"""Tests that a long search can be resumed, and counts each version of the code separately."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from labkit.system.check import CHECKS
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.live.host.exit_codes import EXIT_INTERRUPTED
from labkit.worlds.sim.explore.scenarios.random_scenarios import random_scenario
from labkit.worlds.sim.explore.search import Finding, Findings, search
from labkit.worlds.sim.scenario.scenario import Scenario, from_json
from tools.search import long_search, new_counterexamples
from tools.search.__main__ import main
from tools.search.code_version import CodeVersion
from tools.search.long_search import (
    COUNTEREXAMPLES,
    PROGRESS,
    REPORT,
    LongSearch,
    resume,
)
from tools.search.search_run import Trial, TrialResult
from tools.search.search_state import BrokenPromise, Count, SearchState

ROOT = Path(__file__).parents[3]
VARIANT = "ack after one bookie"
OTHER_CODE = CodeVersion("abc", "commit abc of 2026-01-01")


def new_search(folder: Path) -> LongSearch:
    return LongSearch(SearchState(), folder, OTHER_CODE)


def result(seed: int | None, *situations: str) -> TrialResult:
    """Return the result of a trial without running it."""
    return TrialResult(Trial(random_scenario(seed or 0), seed), [], list(situations), 0.5)


def seeds_of(trials: Iterator[Trial], count: int) -> list[int | None]:
    return [next(trials).seed for _ in range(count)]


@pytest.mark.slow
def test_a_long_search_goes_on_where_it_was_stopped(tmp_path: Path) -> None:
    resume(tmp_path / "parts", VARIANT).run(seeds=4, jobs=1)
    resume(tmp_path / "parts", VARIANT).run(seeds=2, jobs=1)
    whole = resume(tmp_path / "whole", VARIANT)
    whole.run(seeds=6, jobs=1)
    resumed = resume(tmp_path / "parts", VARIANT)
    assert (resumed.state.next_seed, resumed.count.seeds) == (6, 6)
    assert resumed.count.broken == whole.count.broken
    assert resumed.count.broken
    assert resumed.state.aim.reached == whole.state.aim.reached
    assert resumed.state.watched == whole.state.watched > 0


def test_an_interrupt_keeps_what_was_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def results(*_: object) -> Iterator[TrialResult]:
        yield result(0)
        yield result(1, "two recoverers")
        raise KeyboardInterrupt

    monkeypatch.setattr(long_search, "in_processes", results)
    resume(tmp_path).run(jobs=1)
    resumed = resume(tmp_path)
    assert (resumed.state.next_seed, resumed.count.seeds) == (2, 2)
    assert resumed.count.processor_s == 1.0
    assert resumed.state.aim.reached["two recoverers"].first_seed == 1
    assert "2 seeds" in (tmp_path / REPORT).read_text(encoding="utf-8")


def test_a_check_that_raises_does_not_lose_the_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def results(*_: object) -> Iterator[TrialResult]:
        yield result(0)
        raise ZeroDivisionError

    monkeypatch.setattr(long_search, "in_processes", results)
    with pytest.raises(ZeroDivisionError):
        resume(tmp_path).run(jobs=1)
    assert resume(tmp_path).state.next_seed == 1


def test_an_interrupt_while_a_counterexample_shrinks_keeps_it_as_it_was_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(long_search, "shrink", stopped)
    found = Finding(random_scenario(7), "AcknowledgedIsDurable", "entry 3 is gone")
    resumed = resume(tmp_path)
    with pytest.raises(KeyboardInterrupt):
        resumed.take(TrialResult(Trial(random_scenario(7), 7), [found], [], 0.5))
    broken = resume(tmp_path).count.broken["AcknowledgedIsDurable"]
    assert broken == BrokenPromise(1, [7], "entry 3 is gone", random_scenario(7))
    kept = tmp_path / COUNTEREXAMPLES / "AcknowledgedIsDurable.json"
    assert from_json(kept.read_text(encoding="utf-8")) == random_scenario(7)


def test_other_code_begins_a_new_count_and_goes_on_with_new_seeds(tmp_path: Path) -> None:
    before = new_search(tmp_path)
    for seed in range(5):
        before.take(result(seed, "two recoverers"))
    before.save()
    after = resume(tmp_path)
    assert [each.seeds for each in after.state.counts] == [5, 0]
    assert after.count.code != OTHER_CODE
    assert after.state.aim.reached["two recoverers"].by_seeds == 0
    assert next(after.trials()).seed == 5


def test_with_other_checks_a_new_count_begins_and_what_was_reached_stays(tmp_path: Path) -> None:
    code = CodeVersion("before", "commit a", "protocol")
    before = LongSearch(SearchState(), tmp_path, code)
    for seed in range(5):
        before.take(result(seed, "two recoverers"))
    after = LongSearch(before.state, tmp_path, replace(code, digest="after"))
    assert [each.seeds for each in after.state.counts] == [5, 0]
    assert after.state.aim.reached["two recoverers"].by_seeds == 5
    assert len(after.state.same_protocol) == 2


def test_what_broke_in_earlier_code_is_tried_first(tmp_path: Path) -> None:
    broken = {"OneWriter": BrokenPromise(3, [1, 2, 3], "two wrote", random_scenario(1))}
    state = SearchState(next_seed=4, counts=[Count(CodeVersion("old", "old"), 4, broken=broken)])
    first, second, *_ = LongSearch(state, tmp_path, OTHER_CODE).trials(2)
    assert first == Trial(random_scenario(1))
    assert second.seed == 4


def test_a_promise_broken_by_earlier_code_and_kept_now_is_not_a_failure(tmp_path: Path) -> None:
    broken = {"OneWriter": BrokenPromise(1, [1], "two wrote", random_scenario(1))}
    state = SearchState(next_seed=4, counts=[Count(CodeVersion("old", "old"), 4, broken=broken)])
    assert LongSearch(state, tmp_path, OTHER_CODE).count.broken == {}
    assert LongSearch(state, tmp_path, CodeVersion("old", "old")).count.broken == {}
    again = SearchState(counts=[Count(OTHER_CODE, 4, broken=broken)])
    assert LongSearch(again, tmp_path, OTHER_CODE).count.broken == broken


def test_between_seeds_comes_what_is_aimed(tmp_path: Path) -> None:
    one = new_search(tmp_path)
    assert seeds_of(one.trials(), 4) == [0, 1, 2, 3]
    for seed in range(200):
        one.take(result(seed, *(["two recoverers"] if seed == 17 else [])))
    assert seeds_of(one.trials(), 8) == [200, 201, None, 202, 203, 204, None, 205]
    assert seeds_of(one.trials(4), 5) == [200, 201, None, 202, 203]


def test_after_the_early_seeds_fewer_are_aimed(tmp_path: Path) -> None:
    one = new_search(tmp_path)
    one.take(result(200, "two recoverers"))
    one.state.aim.seeds = 10_000
    assert seeds_of(one.trials(), 12) == [*range(201, 211), None, 211]


def test_an_aimed_scenario_keeps_the_planted_mistake(tmp_path: Path) -> None:
    one = LongSearch(SearchState(VARIANT), tmp_path, OTHER_CODE)
    for seed in range(200):
        scenario = one.scenario(seed)
        one.take(
            TrialResult(Trial(scenario, seed), [], ["two recoverers"] if seed == 17 else [], 0.5)
        )
    assert {next(one.trials()).scenario.variant for _ in range(5)} == {VARIANT}


@pytest.mark.slow
def test_its_report_has_scenarios_that_replay(tmp_path: Path) -> None:
    resume(tmp_path, VARIANT).run(seeds=4, jobs=1)
    found = resume(tmp_path, VARIANT).count.broken["AckQuorumIsReached"]
    assert search([found.scenario], checks=CHECKS, jobs=1).first is not None
    text = (tmp_path / REPORT).read_text(encoding="utf-8")
    assert repr(found.scenario) in text
    assert "4 seeds" in text
    assert found.times == len(found.seeds)
    kept = tmp_path / COUNTEREXAMPLES / "AckQuorumIsReached.json"
    assert from_json(kept.read_text(encoding="utf-8")) == found.scenario


def test_the_state_of_another_variant_is_not_gone_on_with(tmp_path: Path) -> None:
    LongSearch(SearchState(VARIANT), tmp_path, OTHER_CODE).save()
    with pytest.raises(BKIncorrectParameterException, match=VARIANT):
        resume(tmp_path)


def test_of_two_searches_in_a_folder_the_one_that_saved_before_ends(tmp_path: Path) -> None:
    first, second = resume(tmp_path), resume(tmp_path)
    first.save()
    with pytest.raises(BKIncorrectParameterException, match="only one search per folder"):
        second.save()
    first.take(result(0))
    first.save()
    assert resume(tmp_path).count.seeds == 1


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"variant": "", "counts": 5}', "\xff"])
def test_a_file_that_is_not_the_state_of_a_search_is_refused_and_kept(
    tmp_path: Path, text: str
) -> None:
    path = tmp_path / PROGRESS
    path.write_text(text, encoding="latin-1")
    with pytest.raises(BKIncorrectParameterException, match="is not the state of a search"):
        resume(tmp_path)
    assert path.read_text(encoding="latin-1") == text


def test_a_folder_that_cannot_be_written_is_reported_before_the_search(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    one = new_search(tmp_path / "file")
    with pytest.raises(FileExistsError):
        one.run(seeds=1, jobs=1)
    assert one.state.next_seed == 0


def test_a_stop_while_it_is_saved_leaves_the_old_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(_: int) -> None:
        raise KeyboardInterrupt

    one = resume(tmp_path)
    one.take(result(0))
    one.save()
    one.take(result(1))
    monkeypatch.setattr(os, "fsync", stopped)
    with pytest.raises(KeyboardInterrupt):
        one.save()
    assert resume(tmp_path).state.next_seed == 1


@pytest.mark.slow
def test_the_command_says_what_it_found_and_fails(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--folder", str(tmp_path), "--seeds", "4", "--jobs", "1"]
    assert main(["--variant", VARIANT, *options]) == 1
    assert "AckQuorumIsReached" in capsys.readouterr().out
    assert main([*options]) == 1
    assert "another" in capsys.readouterr().err
    assert main(["--variant", "no such thing", *options]) == 1
    assert "LAC out of order" in capsys.readouterr().err


@pytest.mark.long
def test_the_command_writes_counterexamples_again(tmp_path: Path) -> None:
    where = ["--counterexamples", str(tmp_path), "--seeds", "40", "--jobs", "1"]
    assert main(["--variant", "recovery without fencing", *where]) == 0
    (path,) = tmp_path.iterdir()
    assert path.name == "recovery-without-fencing.json"
    assert search([from_json(path.read_text())], jobs=1).first is not None


def test_the_command_makes_the_folder_of_counterexamples_before_it_searches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "new" / "kept"

    def interrupted(*_arguments: object, **_options: object) -> Findings:
        assert folder.is_dir()
        return Findings((), 0, 0.0, was_interrupted=True)

    monkeypatch.setattr(new_counterexamples, "search", interrupted)
    assert main(["--counterexamples", str(folder)]) == EXIT_INTERRUPTED
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--minutes", "nan"], "--minutes must be a number, got nan"),
        (["--seeds", "-1"], "must not be negative"),
        (["--jobs", "-1"], "must not be negative"),
        (["--minutes", "-1"], "must not be negative"),
        (["--counterexamples", "kept", "--minutes", "1"], "not with --minutes or --folder"),
        (["--counterexamples", "kept", "--folder", "search"], "not with --minutes or --folder"),
    ],
)
def test_the_command_refuses_a_limit_that_it_cannot_obey(
    options: list[str],
    complaint: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([*options]) == 1
    assert complaint in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_the_command_ends_well_when_nothing_is_found(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tools.search", "--seeds", "3", "--jobs", "2"]
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Promises that broke: none" in done.stdout
    assert "Situations of the protocol reached" in done.stdout
    assert "Branches of the code taken" in done.stdout
    state = json.loads((tmp_path / "search" / PROGRESS).read_text(encoding="utf-8"))
    assert state["next_seed"] == 3


def test_a_scenario_that_replays_is_what_the_seed_stands_for(tmp_path: Path) -> None:
    one = new_search(tmp_path)
    assert one.scenario(1) == random_scenario(1)
    assert one.scenario(5).cluster.brokers
    assert isinstance(one.scenario(5), Scenario)
