"""Tests that a running stream finds missing entries, despite restarts and repeated data."""

import os
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.stateful_processor import TimerValues
from pyspark.sql.streaming.tws_tester import TwsTester

from labkit.views.spark import flights, gaps
from labkit.views.spark.faults import plant_faults
from tests.views.spark import streams_by_hand as by_hand

LOST, PORTIONS = 6, 5
TOPIC = "flights-single"


@pytest.fixture
def state_store(spark: SparkSession) -> Iterator[None]:
    name, value = gaps.STATE_STORE
    spark.conf.set(name, value)
    yield
    spark.conf.unset(name)


@pytest.fixture(scope="module")
def messages() -> pa.Table:
    """Return the recorded topic with lost entries, in order of arrival."""
    recorded = pq.read_table(flights.SAMPLE, filters=[("topic", "==", TOPIC)])
    return plant_faults(recorded, swaps=0, redeliveries=0, lost_entries=LOST, seed=4)


def put(portion: pa.Table, folder: Path, number: int) -> None:
    """Write a file; its modification time determines when Spark reads it."""
    file = folder / f"{number}.parquet"
    pq.write_table(portion, file)
    os.utime(file, (number, number))


def run(spark: SparkSession, source: Path, checkpoint: Path, sink: Path) -> None:
    """Read the new files in the folder, one per batch."""
    reader = spark.readStream.schema("partition int, ledger long, entry long, seq int")
    stream = reader.option("maxFilesPerTrigger", 1).parquet(str(source))
    found = stream.groupBy("partition").transformWithStateInPandas(
        gaps.GapDetector(), gaps.GAPS, outputMode="Append", timeMode="None"
    )
    writer = found.writeStream.format("parquet").option("path", str(sink))
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    assert query.exception() is None


def test_gaps_are_counted_over_batches_a_restart_and_a_replay(
    spark: SparkSession, state_store: None, messages: pa.Table, tmp_path: Path
) -> None:
    source, checkpoint, sink = (tmp_path / name for name in ("source", "checkpoint", "sink"))
    source.mkdir()
    columns = messages.select(["partition", "ledger", "entry", "seq"])
    size = -(-columns.num_rows // PORTIONS)
    portions = [columns[i * size : (i + 1) * size] for i in range(PORTIONS)]
    for number, portion in enumerate([*portions[:3], portions[1]]):
        put(portion, source, number)
    run(spark, source, checkpoint, sink)
    for number, portion in enumerate(portions[3:], 4):
        put(portion, source, number)
    run(spark, source, checkpoint, sink)

    found = spark.read.parquet(str(sink))
    sums = fn.sum("missing").alias("missing"), fn.sum("entries").alias("entries")
    counted = found.groupBy("partition").agg(*sums).collect()
    expected: dict[int, int] = dict.fromkeys(messages["partition"].to_pylist(), 0)
    for _, partition, _, _ in by_hand.missing_entry_ids(messages.to_pandas()):
        expected[partition] += 1
    assert {row.partition: row.missing for row in counted} == expected
    assert sum(expected.values()) == LOST
    # Entries are counted once, even if portions split an entry or a portion is repeated.
    entries = messages.to_pandas()[["partition", "ledger", "entry"]].drop_duplicates()
    assert {row.partition: row.entries for row in counted} == dict(entries.partition.value_counts())

    state = spark.read.format("statestore").option("stateVarName", gaps.STATE)
    places = state.load(str(checkpoint)).select("key.partition", "value.ledger", "value.entry")
    last = (
        messages.to_pandas()
        .groupby("partition")[["ledger", "entry"]]
        .apply(lambda rows: max(rows.itertuples(index=False, name=None)))
    )
    assert {row.partition: (row.ledger, row.entry) for row in places.collect()} == last.to_dict()


Chunks = list[list[gaps.Position]]


def detected(chunks: Iterator[pd.DataFrame]) -> list[object]:
    """Process one micro-batch of partition 0; return the new state, and the numbers of new and
    missing entries.
    """
    tester = TwsTester(gaps.GapDetector())
    tester.handle.setGroupingKey(0)
    [counts] = tester.processor.handleInputRows((0,), chunks, TimerValues())
    state = tester.peekValueState(gaps.STATE, 0)
    return [state, *counts[["entries", "missing"]].to_numpy().ravel().tolist()]


@given(
    st.lists(
        st.lists(st.tuples(st.integers(0, 3), st.integers(0, 12)), min_size=1, max_size=9),
        min_size=1,
        max_size=9,
    )
)
def test_every_entry_is_counted_once_in_whatever_chunks_the_rows_arrive(chunks: Chunks) -> None:
    entries = sorted({entry for chunk in chunks for entry in chunk})
    last, missing = entries[0], 0
    for entry in entries[1:]:
        last, skipped = gaps.step(last, entry)
        missing += skipped
    frames = (pd.DataFrame(chunk, columns=["ledger", "entry"]) for chunk in chunks)
    assert detected(frames) == [last, len(entries), missing]


def test_memory_does_not_grow_with_the_number_of_rows_in_a_micro_batch() -> None:
    def peak_bytes(chunk_count: int) -> int:
        firsts = range(0, 500 * chunk_count, 500)
        chunks = (
            pd.DataFrame({"ledger": 1, "entry": range(first, first + 500)}) for first in firsts
        )
        tracemalloc.start()
        try:
            assert detected(chunks) == [(1, 500 * chunk_count - 1), 500 * chunk_count, 0]
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    peak_bytes(1)  # The first call also imports modules.
    assert peak_bytes(100) < 3 * peak_bytes(10)
