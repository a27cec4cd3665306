"""Tests that marks, repairs and life cycles match those found by one pass over the events.

The recorded run is used unchanged and with planted faults: a repair that never ends, a ledger that
is marked again, and one that is deleted while it is marked.
"""

from collections.abc import Iterator, Sequence

import pytest
from pyspark.sql import DataFrame, SparkSession

from labkit.system.trace.events import Event
from labkit.system.trace.parquet import to_table
from labkit.views.spark import flights, traces
from tests.parquet_events import read_parquet
from tests.views.spark import traces_by_hand as by_hand
from tests.views.spark.tables import rows

MARKED, DONE = "ledger.underreplicated", "replication.done"


def with_faults(events: Sequence[Event]) -> list[Event]:
    first, second, third, fourth = sorted({e.ledger for e in events if e.kind == DONE})[:4]
    end_us = events[-1].time_us
    kept = [e for e in events if not (e.kind == DONE and e.ledger in (first, fourth))]
    added = [
        Event(0, end_us + 1, "auditor", MARKED, ledger=first),  # while it is still marked
        Event(0, end_us + 2, "auditor", MARKED, ledger=second),  # after the mark was removed
        Event(0, end_us + 3, "worker", "replication.started", ledger=second),
        Event(0, end_us + 4, "worker", "entry.copied", ledger=second, entry=0),
        Event(0, end_us + 5, "worker", "replication.deferred", ledger=second),
        Event(0, end_us + 6, "other", "replication.started", ledger=second),
        Event(0, end_us + 7, "other", DONE, ledger=second),
        Event(0, end_us + 8, "client", "ledger.deleted", ledger=fourth),  # while it is marked
        Event(0, end_us + 9, "auditor", MARKED, ledger=third),
        Event(0, end_us + 10, "client", "ledger.created", ledger=10_000),
        Event(0, end_us + 11, "client", "recovery.started", ledger=10_000),
    ]
    return [event._replace(seq=seq) for seq, event in enumerate([*kept, *added])]


@pytest.fixture(scope="module", params=["as recorded", "with faults"])
def trace(request: pytest.FixtureRequest) -> list[Event]:
    events = read_parquet(flights.SAMPLE_TRACE)
    return with_faults(events) if request.param == "with faults" else events


@pytest.fixture(scope="module")
def events(spark: SparkSession, trace: list[Event]) -> Iterator[DataFrame]:
    cached = spark.createDataFrame(to_table(trace)).cache()
    yield cached
    cached.unpersist()


def test_number_of_marked_ledgers_is_reported_whenever_it_changes(
    events: DataFrame, trace: list[Event]
) -> None:
    told = [tuple(row) for row in traces.underreplicated_ledgers(events).orderBy("seq").collect()]
    assert told == by_hand.underreplicated_ledgers(trace)
    assert len(told) >= 10


def test_repair_goes_from_a_mark_to_its_end(events: DataFrame, trace: list[Event]) -> None:
    assert rows(traces.repairs(events)) == by_hand.repairs(trace)


@pytest.mark.parametrize("bucket_ms", [50, 1000])
def test_every_copy_is_in_one_bucket_of_its_worker(
    events: DataFrame, trace: list[Event], bucket_ms: int
) -> None:
    assert rows(traces.copies_made(events, bucket_ms)) == by_hand.copies_made(trace, bucket_ms)


def test_life_cycle_has_the_first_time_of_everything(events: DataFrame, trace: list[Event]) -> None:
    expected = by_hand.life_cycles(trace)
    told = {row.ledger: row.asDict() for row in traces.ledger_life_cycles(events).collect()}
    assert told.keys() == expected.keys()
    for ledger, life in expected.items():
        changes = told[ledger].pop("ensemble_changes")
        assert {**told[ledger], "changes": changes} == {"ledger": ledger, **life}


def test_recorded_run_lost_a_bookie_and_made_every_copy_again() -> None:
    events = read_parquet(flights.SAMPLE_TRACE)
    assert [e.node for e in events if e.kind == "node.killed"][:1] == ["b1"]
    assert all(done is not None for _, _, _, _, done, *_ in by_hand.repairs(events))
    states = {life["state"] for life in by_hand.life_cycles(events).values()}
    assert states == {"closed", "deleted"}
    assert flights.SAMPLE_TRACE.stat().st_size <= 1_000_000


def test_the_columns_of_a_trace_can_be_queried(spark: SparkSession) -> None:
    recorded = read_parquet(flights.SAMPLE_TRACE)
    frame = spark.createDataFrame(to_table(recorded))
    first = frame.where("kind = 'ensemble.set'").selectExpr("ensemble[0] as bookie").collect()
    assert [row.bookie for row in first] == [
        event.ensemble[0] for event in recorded if event.kind == "ensemble.set"
    ]
    found = (
        frame.where("kind = 'recovery.started'")
        .selectExpr("segments[0].ensemble as ensemble")
        .collect()
    )
    assert [row.ensemble for row in found] == [
        list(event.segments[0][1]) for event in recorded if event.kind == "recovery.started"
    ]
    details = {row.detail for row in frame.where("kind = 'ledger.rolled'").collect()}
    assert details <= {"opened", "entries", "failure"}
