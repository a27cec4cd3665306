"""Tests the exercises of lesson 12: correct answers pass, wrong ones are rejected with a reason."""

import re
from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as fn

from labkit.course.exercises.streams import HOLES, ORDER, TWICE
from labkit.course.lessons import check
from labkit.course.runs.topics.stream_trial import WrongRows
from tests.repeat import repeated_cases

pytestmark = pytest.mark.usefixtures("spark")

Job = Callable[[DataFrame], DataFrame]
ORDER_NAME, HOLES_NAME, TWICE_NAME = "streams.order", "streams.holes", "streams.stored_twice"
PLACE = ("ledger", "entry", "batch_index")
STREAM = ("topic", "partition")


def steps_back(
    parts: tuple[str, ...] = PLACE,
    stream: tuple[str, ...] = STREAM,
    along: tuple[str, ...] = ("seq",),
    text: bool = False,
    or_equal: bool = False,
) -> Job:
    """Return a job that compares each row with the previous one; the parameters vary the
    comparison.
    """

    def job(messages: DataFrame) -> DataFrame:
        place = fn.concat_ws(":", *parts) if text else fn.struct(*parts)
        before = fn.lag("place").over(Window.partitionBy(*stream).orderBy(*along))
        compared = messages.withColumn("place", place).withColumn("before", before)
        return compared.where("place <= before" if or_equal else "place < before")

    return job


def holes(begin: str = "own", count: str = "entries", stream: tuple[str, ...] = STREAM) -> Job:
    """Return a job that counts entries to find holes; the parameters vary how it counts."""

    def job(messages: DataFrame) -> DataFrame:
        arrived = messages.groupBy(*STREAM, "ledger").agg(
            fn.min("entry").alias("first"),
            fn.max("entry").alias("last"),
            fn.count_distinct("entry").alias("entries"),
            fn.count("*").alias("messages"),
        )
        is_first = fn.row_number().over(Window.partitionBy(*stream).orderBy("ledger")) == 1
        begins = {
            "own": fn.when(is_first, fn.col("first")).otherwise(0),
            "zero": fn.lit(0),
            "first": fn.col("first"),
        }
        missing = fn.col("last") + 1 - begins[begin] - fn.col(count)
        return arrived.withColumn("missing", missing).where("missing > 0")

    return job


def jumps(along: str) -> Job:
    """Return a job that adds up the entry ids skipped between consecutive rows."""

    def job(messages: DataFrame) -> DataFrame:
        ledger = Window.partitionBy(*STREAM, "ledger").orderBy(*along.split())
        step = fn.col("entry") - fn.lag("entry").over(ledger) - 1
        stepped = messages.withColumn("step", fn.greatest(step, fn.lit(0)))
        missing = fn.sum("step").alias("missing")
        return stepped.groupBy(*STREAM, "ledger").agg(missing).where("missing > 0")

    return job


def ledgers_too(messages: DataFrame) -> DataFrame:
    chain = Window.partitionBy(*STREAM).orderBy("ledger")
    jumped = fn.col("ledger") - fn.lag("ledger", 1).over(chain) - 1
    known = messages.select(*STREAM, "ledger").distinct().withColumn("jumped", jumped)
    told = holes()(messages).select(*STREAM, "ledger", "missing")
    return told.unionByName(
        known.where("jumped > 0").select(*STREAM, "ledger", fn.col("jumped").alias("missing"))
    )


def sent_again(by: tuple[str, ...], copies: str = "ids") -> Job:
    """Return a job that groups by these columns and counts; `copies` selects what it counts."""

    def job(messages: DataFrame) -> DataFrame:
        counts = {
            "ids": fn.count_distinct(*PLACE),
            "arrivals": fn.count("*"),
            "entries": fn.count_distinct("ledger", "entry"),
        }
        rest = [name for name in (*STREAM, "producer", "sequence_id") if name not in by]
        found = messages.groupBy(*by).agg(
            counts[copies].alias("copies"), *(fn.min(name).alias(name) for name in rest)
        )
        return found.where("copies > 1")

    return job


SENT = (*STREAM, "producer", "sequence_id")


RIGHT = {ORDER_NAME: steps_back(), HOLES_NAME: holes(), TWICE_NAME: sent_again(SENT)}


def wrong_rows(name: str, answer: Job, rule: str) -> WrongRows:
    """Return the rows with which the answer is refused because of this rule."""
    card = check(name, answer)
    assert not card.passed
    assert card.message == rule
    assert isinstance(card.counterexample, WrongRows)
    return card.counterexample


def test_right_answers_pass() -> None:
    for name, answer in RIGHT.items():
        card = check(name, answer)
        assert card.passed, card
        assert "recorded messages with planted faults" in card.message


@pytest.mark.parametrize(
    ("answer", "rule"),
    repeated_cases(
        [
            (steps_back(along=PLACE), 0),
            (steps_back(parts=("ledger", "entry")), 1),
            (steps_back(parts=("entry", "batch_index")), 2),
            (steps_back(stream=("topic",)), 3),
            (steps_back(stream=("partition",)), 4),
            (steps_back(text=True), 5),
            (steps_back(or_equal=True), 6),
        ],
        once=3,
    ),
    ids=["sorted before", "no batch index", "no ledger", "no partition", "no topic", "text", "<="],
)
def test_a_wrong_order_is_refused_with_the_rows_that_show_it(answer: Job, rule: int) -> None:
    assert 1 <= len(wrong_rows(ORDER_NAME, answer, ORDER[rule].rule).rows) <= 3


def with_31_bits(column: str, job: Job) -> Job:
    return lambda messages: job(messages.withColumn(column, fn.col(column) % 2**31))


@pytest.mark.parametrize(
    ("name", "answer"),
    repeated_cases(
        [
            (ORDER_NAME, steps_back(stream=(*STREAM, "ledger"))),
            (ORDER_NAME, with_31_bits("ledger", steps_back())),
            (HOLES_NAME, with_31_bits("ledger", holes())),
            (TWICE_NAME, lambda messages: sent_again(SENT)(messages.where("sequence_id < 10"))),
        ],
        once=1,
    ),
    ids=["within ledgers", "31 bits", "31 bits of holes", "one digit"],
)
def test_drawn_streams_refuse_what_the_stories_do_not(name: str, answer: Job) -> None:
    card = check(name, answer)
    assert not card.passed
    assert isinstance(card.counterexample, WrongRows)
    assert re.search(r"\bt\d{3}\b", str(card.counterexample))


@pytest.mark.parametrize(
    ("answer", "rule"),
    repeated_cases(
        [
            (lambda messages: holes()(messages).where("missing > 9"), 0),
            (holes(count="messages"), 1),
            (jumps("seq"), 3),
            (ledgers_too, 4),
            (holes(begin="first"), 5),
            (jumps("entry"), 5),
            (holes(begin="zero"), 6),
            (holes(stream=("topic",)), 7),
        ],
        once=3,
    ),
    ids=[
        *("none", "messages counted", "jumps in arrival", "ledger ids", "from the first"),
        *("jumps in id order", "from zero", "one first ledger per topic"),
    ],
)
def test_wrong_holes_are_refused_with_the_rows_that_show_it(answer: Job, rule: int) -> None:
    shown = str(wrong_rows(HOLES_NAME, answer, HOLES[rule].rule))
    assert "entries are missing, your job counted" in shown


@pytest.mark.parametrize(
    ("answer", "rule"),
    repeated_cases(
        [
            (lambda messages: sent_again(SENT)(messages).where("copies > 2"), 0),
            (sent_again((*SENT, "ledger")), 0),
            (sent_again(SENT, "arrivals"), 1),
            (sent_again((*STREAM, "sequence_id")), 2),
            (sent_again(("topic", "producer", "sequence_id")), 3),
            (sent_again(("partition", "producer", "sequence_id")), 4),
            (sent_again(SENT, "entries"), 5),
        ],
        once=3,
    ),
    ids=["none", "one ledger", "arrivals", "no producer", "no partition", "no topic", "entries"],
)
def test_wrong_copies_are_refused_with_the_rows_that_show_it(answer: Job, rule: int) -> None:
    assert not wrong_rows(TWICE_NAME, answer, TWICE[rule].rule).rows.empty


def test_each_row_belongs_into_an_answer_once() -> None:
    for name, answer in RIGHT.items():
        card = check(name, lambda messages, found=answer: found(messages).union(found(messages)))
        assert not card.passed
        assert "only once" in card.message


def test_a_job_that_spark_cannot_run_is_reported_in_one_line() -> None:
    card = check(ORDER_NAME, lambda messages: messages.where("sequence < 3"))
    assert "Spark cannot run your job" in card.message
    assert "sequence" in card.message
    assert "\n" not in card.message


def test_a_job_without_the_columns_learns_which() -> None:
    card = check(ORDER_NAME, lambda messages: messages.select("entry"))
    assert "must return the columns seq; it returned entry" in card.message


def test_a_value_that_is_not_a_table_is_refused() -> None:
    assert "must return DataFrame" in check(ORDER_NAME, lambda messages: messages.count()).message


def test_rows_of_a_counterexample_are_a_table() -> None:
    card = check(ORDER_NAME, steps_back(stream=("topic",)))
    assert "<table" in card._repr_html_()
    assert "This is not out of order" in repr(card)
