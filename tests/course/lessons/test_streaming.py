"""Tests the exercises of lesson 13: correct answers pass, wrong ones are rejected with a reason."""

from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from labkit.course.exercises.streaming import RUNS, STREAMS, Calls
from labkit.course.lessons import check
from labkit.course.runs.topics.stream_trial import WrongRows
from labkit.views.spark.gaps import Position, step
from tests.course.lessons.refused import Wrong, refused
from tests.repeat import repeated_cases

Store = Callable[[DataFrame, int, str], None]
SINK, GAPS = "streaming.sink", "streaming.gaps"


def store(rows: DataFrame, batch_id: int, folder: str) -> None:
    rows.write.mode("overwrite").parquet(f"{folder}/batch={batch_id}")


def append(rows: DataFrame, batch_id: int, folder: str) -> None:
    rows.write.mode("append").parquet(folder)


def overwrite_all(rows: DataFrame, batch_id: int, folder: str) -> None:
    rows.write.mode("overwrite").parquet(folder)


def unless_there(rows: DataFrame, batch_id: int, folder: str) -> None:
    if not Path(folder, str(batch_id)).exists():
        rows.write.parquet(f"{folder}/{batch_id}")


def not_the_first(rows: DataFrame, batch_id: int, folder: str) -> None:
    name = f"{folder}/batch={batch_id}"
    rows.write.mode("overwrite" if batch_id else "append").parquet(name)


def nothing(rows: DataFrame, batch_id: int, folder: str) -> None:
    rows.count()


def one_digit(rows: DataFrame, batch_id: int, folder: str) -> None:
    rows.write.mode("overwrite").parquet(f"{folder}/batch={batch_id % 10}")


def unless_the_entries_are_there(rows: DataFrame, batch_id: int, folder: str) -> None:
    name = f"{folder}/batch={batch_id}"
    if any(Path(folder).rglob("*.parquet")):
        there = rows.sparkSession.read.option("recursiveFileLookup", "true").parquet(folder)
        rows = rows.join(there.select("entry").distinct(), "entry", "left_anti").localCheckpoint()
    rows.write.mode("append").parquet(name)


def by_its_first_entry(rows: DataFrame, batch_id: int, folder: str) -> None:
    rows.write.mode("overwrite").parquet(f"{folder}/from={rows.first()['entry']}")  # type: ignore[index]


def only_new_batches(rows: DataFrame, batch_id: int, folder: str) -> None:
    if not Path(folder, f"batch={batch_id}", "_SUCCESS").exists():
        rows.write.mode("append").parquet(f"{folder}/batch={batch_id}")


def test_right_sink_passes(spark: SparkSession) -> None:
    assert check(SINK, store).passed


@pytest.mark.parametrize(
    ("answer", "rule"),
    repeated_cases(
        [
            (nothing, 0),
            (overwrite_all, 0),
            (append, 1),
            (unless_there, 2),
            (only_new_batches, 2),
            (not_the_first, 3),
            (one_digit, 4),
            (by_its_first_entry, 4),
            (unless_the_entries_are_there, 4),
        ],
        once=3,
    ),
)
def test_a_wrong_sink_is_refused_with_the_rows_that_show_it(
    spark: SparkSession, answer: Store, rule: int
) -> None:
    card = check(SINK, answer)
    assert not card.passed
    assert card.message == RUNS[rule].rule
    assert isinstance(card.counterexample, WrongRows)
    assert "Your function was called with the batches" in str(card.counterexample)


def test_a_sink_that_spark_refuses_is_reported_in_one_line(spark: SparkSession) -> None:
    card = check(SINK, lambda rows, batch_id, folder: rows.write.parquet(f"{folder}/b{batch_id}"))
    assert "Spark cannot store batch 1: [PATH_ALREADY_EXISTS]" in card.message
    assert "\n" not in card.message


def entries_alone(last: Position | None, entry: Position) -> tuple[Position, int]:
    """Compare only entry ids, and so mistake an old entry of an earlier ledger for a new one."""
    if last is not None and entry[0] == last[0] and entry <= last:
        return last, 0
    return step(None if last is None else (last[0], last[1]) if entry > last else None, entry)


@pytest.mark.parametrize(
    ("wrong", "rule"),
    [
        ("nothing", 1),
        ("from zero", 2),
        ("no rollover", 4),
        ("beginnings", 4),
        ("turned back", 5),
        (entries_alone, 6),
    ],
)
def test_a_wrong_state_is_refused_with_the_calls_that_show_it(wrong: Wrong, rule: int) -> None:
    card = refused(GAPS, wrong, STREAMS[rule].rule)
    assert card.message == STREAMS[rule].rule
    assert isinstance(card.counterexample, Calls)
    assert "entries are missing; yours counted" in str(card.counterexample)


def test_an_answer_other_than_a_pair_is_refused() -> None:
    assert "must return tuple" in check(GAPS, lambda last, entry: entry[1]).message
    assert "must return two values" in check(GAPS, lambda last, entry: (entry, 0, 0)).message
    assert "must return two values" in check(GAPS, lambda last, entry: entry).message
