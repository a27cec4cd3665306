import sys
from time import sleep
from typing import Any

import pytest
from pyspark.sql import SparkSession

from labkit.spark import progress as module
from labkit.spark.progress import progress, tasks_done


class Screen:
    """Takes what a notebook would show."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.shown: list[dict[str, str]] = []
        monkeypatch.setattr(module, "get_ipython", lambda: self)
        monkeypatch.setattr(module, "display", self.display)

    def display(self, bundle: dict[str, str], **_: Any) -> "Screen":
        self.shown.append(bundle)
        return self

    update = display


def slow(rows: Any) -> Any:
    sleep(0.5)
    return rows


def test_a_notebook_sees_a_bar_and_keeps_one_line(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen(monkeypatch)
    with progress(spark, "counting <all>"):
        spark.sparkContext.parallelize(range(8), 8).mapPartitions(slow).count()
    bars = [bundle for bundle in screen.shown if "<progress" in bundle["text/html"]]
    assert bars
    assert bars[0]["text/plain"].endswith("of 8 tasks")
    assert screen.shown[-1] == {
        "text/plain": "counting <all>: done",
        "text/html": "counting &lt;all&gt;: done",
    }


def test_without_a_screen_nothing_is_written(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "get_ipython", lambda: None)
    with progress(spark, "counting"):
        assert spark.range(3).count() == 3
    assert capsys.readouterr().err == ""


def test_a_terminal_has_one_line(
    spark: SparkSession, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "get_ipython", lambda: None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    with progress(spark, "counting"):
        pass
    assert capsys.readouterr().err.strip() == "counting: done"


def test_the_bar_goes_when_the_job_fails(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    screen = Screen(monkeypatch)
    with pytest.raises(OSError, match="broken"), progress(spark, "counting"):
        raise OSError("broken")
    assert screen.shown[-1]["text/plain"] == "counting: done"


def test_an_idle_spark_has_no_tasks(spark: SparkSession) -> None:
    assert tasks_done(spark.sparkContext.statusTracker()) == (0, 0)
