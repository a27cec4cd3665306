"""A long search stores its runs, resumes, reruns earlier failures, and reports its findings."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from labkit.system.model.missing_part import MissingPart
from labkit.views.spark import search as searching
from labkit.views.spark.search import Trial, rows_of, run_trials
from labkit.worlds.live.host.exit_codes import EXIT_INTERRUPTED
from labkit.worlds.sim.explore.code_version import code_version
from labkit.worlds.sim.explore.search import Findings, scenario_of_seed, search
from labkit.worlds.sim.scenario.scenario import from_json
from tools.search import long_search, new_counterexamples, report
from tools.search.__main__ import main
from tools.search.branches import MEASURED_EVERY
from tools.search.long_search import COUNTEREXAMPLES, REPORT, RUNS, resume

VARIANT = "ack after one bookie"


def seeds_in(spark: SparkSession, folder: Path, variant: str = "") -> list[int]:
    rows = rows_of(spark, str(folder / RUNS), variant).where("seed is not null")
    return sorted(row["seed"] for row in rows.select("seed").collect())


@pytest.fixture
def other_code(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Return a function that simulates a change of labkit's code."""

    def change() -> None:
        for module in (searching, long_search, report):
            monkeypatch.setattr(module, "code_version", lambda: "other code")

    return change


@pytest.mark.slow
def test_a_long_search_resumes_after_the_last_seed(spark: SparkSession, tmp_path: Path) -> None:
    assert resume(spark, tmp_path, seeds=2)
    assert resume(spark, tmp_path, seeds=1)
    assert seeds_in(spark, tmp_path) == [0, 1, 2]
    lines = (tmp_path / REPORT).read_text(encoding="utf-8").splitlines()
    assert lines[0] == "Variant: none"
    assert lines[1].startswith(f"Code {code_version()}: 3 seeds and 1 aimed runs in ")
    assert "Promises that broke: none" in lines
    # Of these seeds, only seed 0 is measured.
    assert MEASURED_EVERY > 2
    assert "Branches of the code taken in 1 measured runs:" in lines


@pytest.mark.slow
def test_an_interrupt_keeps_the_complete_rounds(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        run_trials(spark, [Trial(0)], str(tmp_path / RUNS), "")
        raise KeyboardInterrupt

    with monkeypatch.context() as interrupted:
        interrupted.setattr(long_search, "search", interrupt)
        assert resume(spark, tmp_path)
    assert "1 seeds and 0 aimed runs" in (tmp_path / REPORT).read_text(encoding="utf-8")
    resume(spark, tmp_path, seeds=1)
    assert seeds_in(spark, tmp_path) == [0, 1]


@pytest.mark.slow
def test_what_broke_in_earlier_code_runs_first_in_the_new_code(
    spark: SparkSession, tmp_path: Path, other_code: Callable[[], None]
) -> None:
    broken = scenario_of_seed(12, VARIANT).to_json()
    run_trials(spark, [Trial(12)], str(tmp_path / RUNS), VARIANT)
    other_code()
    for seeds in ([12, 13], [12, 13, 14]):
        resume(spark, tmp_path, VARIANT, seeds=1)
        assert seeds_in(spark, tmp_path, VARIANT) == seeds
    rows = rows_of(spark, str(tmp_path / RUNS), VARIANT)
    again = rows.where((rows["scenario"] == broken) & (rows["code"] == "other code"))
    assert [row["seed"] for row in again.collect()] == [None]
    lines = (tmp_path / REPORT).read_text(encoding="utf-8").splitlines()
    assert lines[1].startswith("Code other code: 2 seeds and ")
    assert lines[2].startswith(f"Earlier code {code_version()}: 1 seeds and 0 aimed runs in ")


@pytest.mark.slow
def test_a_broken_promise_fails_the_search_and_is_shrunk_once_for_each_version_of_the_code(
    spark: SparkSession, tmp_path: Path
) -> None:
    run_trials(spark, [Trial(12)], str(tmp_path / RUNS), VARIANT)
    assert not resume(spark, tmp_path, VARIANT, seeds=1)
    text = (tmp_path / REPORT).read_text(encoding="utf-8")
    assert re.search(r"AckQuorumIsReached: [23] times, first seeds: 12, 13\n", text)
    kept = tmp_path / COUNTEREXAMPLES / code_version() / "AckQuorumIsReached.json"
    smallest = from_json(kept.read_text(encoding="utf-8"))
    assert len(smallest.to_json()) < len(scenario_of_seed(12, VARIANT).to_json())
    assert search([smallest], jobs=1, stop_at=0).first is not None
    kept.write_text("{}")
    resume(spark, tmp_path, VARIANT, seeds=1)
    assert kept.read_text() == "{}"


@pytest.mark.usefixtures("spark")
def test_a_folder_that_cannot_be_written_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["--folder", str(tmp_path / "file"), "--seeds", "1"]) == 1
    assert "File exists" in capsys.readouterr().err


def test_without_java_the_command_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def missing(_: str) -> None:
        raise MissingPart("Java", "Spark needs Java", "install it")

    monkeypatch.setattr("tools.search.__main__.spark_session", missing)
    assert main(["--folder", str(tmp_path), "--seeds", "1"]) == 1
    assert "Spark needs Java" in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_prints_the_report(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--folder", str(tmp_path), "--seeds", "1"]) == 0
    assert seeds_in(spark, tmp_path) == [0]
    output = capsys.readouterr().out
    assert "Situations of the protocol reached" in output
    assert "run this command again to resume the search" in output


def test_an_unknown_variant_is_answered_with_the_known_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--variant", "no such thing", "--folder", str(tmp_path)]) == 1
    assert "LAC out of order" in capsys.readouterr().err


@pytest.mark.long
def test_the_command_writes_counterexamples_again(tmp_path: Path) -> None:
    where = ["--counterexamples", str(tmp_path), "--seeds", "40"]
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
