"""Provides the recorded run of lesson 12, and functions that analyse the run's messages and trace.

Each function returns the output of a cell or the true value for a prediction. The Spark jobs that a
learner should read are in `labkit.views.spark`.
"""

import time
from collections.abc import Callable
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as fn

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.producing.producer import Batching
from labkit.system.topic.topic import Topic
from labkit.views.spark import flights, ledgers, publishing, streams, trace_charts, traces
from labkit.views.spark.faults import plant_faults
from labkit.worlds.live.processes.cluster import LocalCluster

FAULTS = ["order_violations", "duplicates", "missing_entries"]
_LIMITS = {
    "flights-paced": (None, 4_000),
    "flights-single": (1_000, None),
    "flights-batched": (50, None),
    "flights": (50, None),
}
"""For each topic, the maximum number of entries and the maximum age, in ms, of a ledger."""


async def load_run(source: str, message_count: int) -> tuple[pa.Table, pa.Table, pa.Table]:
    """Return the messages of a run, its chains of ledgers, and the segments of these ledgers.

    "sample" is the recorded run, and "live" records a new one.
    """
    if source == "sample":
        messages = pq.read_table(flights.SAMPLE)[:message_count]
        return messages, *map(pq.read_table, (flights.SAMPLE_LEDGERS, flights.SAMPLE_SEGMENTS))
    async with LocalCluster(bookies=5, traced=False) as cluster:
        client = await cluster.connect()
        single = await _record(client, "flights-single", message_count, None, 1_000)
        batched = await _record(client, "flights", message_count, Batching(max_messages=20), 50)
    messages, chains, segments = map(pa.concat_tables, zip(single, batched, strict=True))
    return messages.set_column(0, "seq", [range(messages.num_rows)]), chains, segments


async def _record(
    client: BookKeeper, name: str, count: int, batching: Batching | None, entries_per_ledger: int
) -> tuple[pa.Table, pa.Table, pa.Table]:
    config = ManagedLedgerConfig(max_entries_per_ledger=entries_per_ledger)
    topic = await Topic.create(client, name, partitions=3, config=config)
    producer = topic.producer("timetable", batching=batching)
    await flights.publish(producer, flights.flight_events(count))
    await producer.close()
    messages = await flights.collect(topic.consumer(), name)
    await topic.close()
    chains = await flights.ledger_chains(topic, name, range(3))
    return messages, chains, await flights.segments(client, chains)


def without_exception(rule: str, exceptions: DataFrame) -> str:
    """Return the rule. Raises `AssertionError`, which shows the first exception to the rule, if
    there are any exceptions.
    """
    rows = exceptions.limit(1).toPandas()
    assert rows.empty, f"{rule} Not true of:\n{rows}"
    return rule


def recorded_trace() -> pa.Table:
    """Return the trace of the run in which a bookie is lost."""
    return pq.read_table(flights.SAMPLE_TRACE)


def with_faults(messages: pa.Table, swaps: int, redeliveries: int, lost_entries: int) -> pa.Table:
    """Add this many faults of each kind to the messages; every call adds the same faults."""
    counts = {"swaps": swaps, "redeliveries": redeliveries, "lost_entries": lost_entries}
    return plant_faults(messages, **counts, seed=12)


def topics_in(stream: DataFrame) -> pd.DataFrame:
    """Count the messages, entries, ledgers and partitions of each topic."""
    counts = stream.groupBy("topic").agg(
        fn.count("*").alias("messages"),
        fn.count_distinct("ledger", "entry").alias("entries"),
        fn.count_distinct("ledger").alias("ledgers"),
        fn.count_distinct("partition").alias("partitions"),
    )
    return counts.orderBy("topic").toPandas()


def ids_parsed_wrong(parsed: DataFrame, stream: DataFrame) -> DataFrame:
    """Return the ids whose four numbers, as parsed, differ from the numbers that the client
    received.
    """
    columns = ["seq", *streams.ID_PARTS]
    return parsed.join(stream.select(*columns), columns, "left_anti").orderBy("seq")


def smallest_batch_indexes(stream: DataFrame) -> dict[str, int]:
    """Return the smallest batch index of the messages sent without batching and of those sent with
    batching, under the keys "no batches" and "batches".
    """
    kind = fn.when(fn.col("topic") == "flights-single", "no batches").otherwise("batches")
    smallest = stream.groupBy(kind.alias("kind")).agg(fn.min("batch_index").alias("least"))
    return {row.kind: row.least for row in sorted(smallest.collect(), reverse=True)}


def entries_of_one_message(stream: DataFrame) -> pd.DataFrame:
    """Count the entries that contain exactly one message, by topic and batch index."""
    entries = stream.groupBy("topic", "ledger", "entry").agg(
        fn.count("*").alias("messages"), fn.min("batch_index").alias("first_index")
    )
    single = entries.where("messages = 1").groupBy("topic", "first_index").count()
    return single.orderBy("topic").toPandas()


def entries_of_both_kinds(stream: DataFrame) -> DataFrame:
    """Return the entries that contain both a message with batch index -1 and messages with other
    indexes.
    """
    indexes = fn.collect_set("batch_index").alias("indexes")
    mixed = stream.groupBy("ledger", "entry").agg(indexes)
    return mixed.where("array_contains(indexes, -1) and size(indexes) > 1")


def faults_in(report: pd.DataFrame) -> dict[str, int]:
    """Return the number of faults of each kind in a report about streams."""
    return {fault: int(report[fault].sum()) for fault in FAULTS}


def without_a_last_entry(stream: DataFrame) -> tuple[DataFrame, int]:
    """Drop the last entry of one ledger; return the remaining messages and the ledger's id."""
    first = ledgers.rollovers(stream).orderBy("ledger").select("ledger", "entries").first()
    assert first is not None
    is_last = (fn.col("ledger") == first.ledger) & (fn.col("entry") == first.entries - 1)
    assert stream.where(is_last).count() > 0, "no entry was dropped"
    return stream.where(~is_last), first.ledger


def topics_with_varying_ledgers(stream: DataFrame) -> str:
    """Return the topics whose ledgers have different numbers of entries, or "none"."""
    counts = fn.collect_set("entries").alias("entries")
    lengths = ledgers.rollovers(stream).groupBy("topic").agg(counts)
    varying = [row.topic for row in lengths.where("size(entries) > 1").collect()]
    return ", ".join(varying) or "none"


def rollovers_by_reason(stream: DataFrame, closed: DataFrame) -> pd.DataFrame:
    """Count the rollovers of each topic by reason."""
    limits = stream.sparkSession.createDataFrame(
        [(topic, entries, None, age_ms) for topic, (entries, age_ms) in _LIMITS.items()],
        "topic string, max_entries long, max_size_bytes long, max_age_ms long",
    )
    reasons = ledgers.rollover_reasons(stream, closed, limits)
    counts = reasons.groupBy("topic", "reason").agg(
        fn.count("*").alias("rollovers"),
        fn.min("entry_count").alias("fewest_entries"),
        fn.max("entry_count").alias("most_entries"),
    )
    return counts.orderBy("topic").toPandas()


def incomplete_batches(stream: DataFrame) -> DataFrame:
    """Return the batches that lack messages, according to either the ids or the batch size stated
    by the producer.
    """
    torn = publishing.batch_sizes(stream).where("arrived != batch_size")
    seen = (fn.max("batch_index") + 1).alias("seen")
    batches = stream.where("batch_index >= 0").groupBy("ledger", "entry")
    sizes = batches.agg(fn.max("batch_size").alias("stated"), seen)
    cut = sizes.where("stated != seen").select("ledger", "entry")
    return torn.select("ledger", "entry").union(cut)


def keys_in_two_partitions(stream: DataFrame) -> DataFrame:
    partitions = fn.count_distinct("partition").alias("partitions")
    return stream.groupBy("topic", "key").agg(partitions).where("partitions > 1")


def newest_and_a_thousand_back(stream: DataFrame) -> pd.DataFrame:
    """Return, for each partition, the newest id and the id of the message 999 messages earlier."""
    newest_first = Window.partitionBy("topic", "partition").orderBy(fn.desc("position"))
    back = fn.row_number().over(newest_first)
    counted = streams.with_position(stream).withColumn("back", back)
    text = fn.concat_ws(":", *streams.ID_PARTS)

    def at(number: int) -> Column:
        return fn.max(fn.when(fn.col("back") == number, text))

    found = counted.where("back in (1, 1000)").groupBy("topic", "partition")
    ids = found.agg(at(1).alias("newest"), at(1000).alias("a_thousand_back"))
    return ids.orderBy("topic", "partition").toPandas()


def killed_us(events: DataFrame) -> int:
    """Return the time at which the first node was killed."""
    killed = events.where("kind = 'node.killed'").agg(fn.min("time_us")).first()
    assert killed is not None
    return int(killed[0])


def repair_chart(events: DataFrame) -> Any:
    """Return a chart that shows the ledgers that lack copies and the copies that are made."""
    marks = traces.underreplicated_ledgers(events).toPandas()
    return trace_charts.repair(marks, traces.copies_made(events).toPandas(), killed_us(events))


def repairs_since_kill(events: DataFrame) -> pd.DataFrame:
    """Return each ledger's repair, with the times of the repair's steps in seconds since the node
    was killed.
    """
    killed = killed_us(events)
    since_kill = (
        fn.round((fn.col(f"{name}_us") - killed) / 1e6, 2).alias(f"{name}_s")
        for name in ("marked", "started", "done")
    )
    repairs = traces.repairs(events).select("ledger", *since_kill, "worker", "copies")
    return repairs.orderBy("ledger").toPandas()


def causes_of_rollovers(events: DataFrame) -> pd.DataFrame:
    """Count the new ledgers by the cause recorded in the trace."""
    causes = events.where("kind = 'ledger.rolled'").groupBy(fn.col("detail").alias("cause"))
    return causes.count().orderBy("cause").toPandas()


def full_batches(stream: DataFrame) -> pd.DataFrame:
    """Count the entries of each topic by batch size."""
    sizes = publishing.batch_size_distribution(stream).withColumnRenamed("entries", "count")
    return sizes.orderBy("topic", "batch_size").toPandas()


def violations_in_pandas(messages: pd.DataFrame) -> int:
    """Count the out-of-order messages, like `streams.order_violations`, but in pandas."""
    position = messages.ledger * 2**40 + messages.entry * 2**12 + messages.batch_index + 1
    earlier = position.groupby([messages.topic, messages.partition]).shift()
    return int((position < earlier).sum())


def timed(count_violations: Callable[[], int]) -> str:
    """Return the number of violations, and the time taken to count them."""
    start = time.perf_counter()
    count = count_violations()
    return f"{count} violations in {time.perf_counter() - start:.2f} s"
