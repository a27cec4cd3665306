"""Marks, repairs and life cycles are those that one walk through the events finds.

The recorded run is asked as it is, and with faults planted: a repair that never ends, a ledger that
is marked again, and one that is deleted while it is marked.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from labkit.system.trace.events import Event
from labkit.system.trace.export import to_columns
from labkit.system.trace.parquet import SCHEMA, read_parquet
from labkit.views.spark import flights, traces
from tests.views.spark import traces_by_hand as by_hand
from tests.views.spark.tables import rows

MARKED, DONE = "ledger.underreplicated", "replication.done"


def with_faults(events: Sequence[Event]) -> list[Event]:
    first, second, third, fourth = sorted({e.ledger for e in events if e.kind == DONE})[:4]
    end_us = events[-1].time_us
    kept = [e for e in events if not (e.kind == DONE and e.ledger in (first, fourth))]
    added = [
        Event(0, end_us + 1, "auditor", MARKED, ledger=first),  # marked again, mark still there
        Event(0, end_us + 2, "auditor", MARKED, ledger=second),  # and after it was gone
        Event(0, end_us + 3, "worker", "replication.started", ledger=second),
        Event(0, end_us + 4, "worker", "entry.copied", ledger=second, entry=0),
        Event(0, end_us + 5, "worker", "replication.deferred", ledger=second),
        Event(0, end_us + 6, "other", "replication.started", ledger=second),
        Event(0, end_us + 7, "other", DONE, ledger=second),
        Event(0, end_us + 8, "client", "ledger.deleted", ledger=fourth),  # deleted while marked
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
    cached = spark.createDataFrame(pa.table(to_columns(trace), schema=SCHEMA)).cache()
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
    assert [e.node for e in events if e.kind == "node.killed"][:1] == ["bookie-2"]
    assert all(done is not None for _, _, _, _, done, *_ in by_hand.repairs(events))
    states = {life["state"] for life in by_hand.life_cycles(events).values()}
    assert states == {"closed", "deleted"}
    assert flights.SAMPLE_TRACE.stat().st_size <= 1_000_000


@pytest.mark.parametrize(
    ("note", "reason", "cause"),
    [
        ("public/default/t-partition-0: opened", "opened", "opened"),
        ("public/default/t: 200 entries", "200 entries", "entries"),
        ("public/default/t: 4001 ms old", "4001 ms old", "age"),
        ("public/default/t: 2147483648 bytes", "2147483648 bytes", "size"),
        ("public/default/t: ledger 7 failed", "ledger 7 failed", "failure"),
        ("public/default/a: b: lightning", "lightning", "other"),
    ],
)
def test_reason_of_a_rollover_is_what_its_owner_reported(
    spark: SparkSession, note: str, reason: str, cause: str
) -> None:
    event = Event(0, 1, "owner", "ledger.rolled", ledger=8, note=note)
    frame = spark.createDataFrame(pa.table(to_columns([event]), schema=SCHEMA))
    (told,) = traces.rollovers_told(frame).collect()
    assert (told.ledger, told.reason, told.cause) == (8, reason, cause)
    assert told.stream == note.removesuffix(f": {reason}")


def test_recorded_rollovers_have_causes(spark: SparkSession) -> None:
    recorded = read_parquet(flights.SAMPLE_TRACE)
    frame = spark.createDataFrame(pa.table(to_columns(recorded), schema=SCHEMA))
    causes = [row.cause for row in traces.rollovers_told(frame).collect()]
    assert len(causes) == sum(event.kind == "ledger.rolled" for event in recorded)
    assert set(causes) <= {"opened", "entries", "failure"}
