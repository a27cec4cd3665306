"""Measures how fast `format("bookkeeper")` reads rows, and the latency of a stream's triggers.

    python -m benchmarks.spark_source [--quick]

Three bookies serve closed ledgers with E=3, Qw=3, Qa=2 and messages of 1 KiB that do not compress.
Spark runs in one JVM with two threads. A query reads all columns of all rows into the no-op sink.

- Parquet: the same rows and columns, written by Spark.
- Plain Python: one process that reads the same entries with the same client and the same checks and
  creates one object per message. *Per core* compares rows per second of processor time, not
  counting the bookies.
- Trigger: `triggerExecution` of a stream with `maxRowsPerTrigger` 1,000, without the first trigger,
  which starts the workers.
"""

import asyncio
import random
import statistics
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from time import process_time

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from benchmarks.family import benchmark_parser, measuring
from benchmarks.measure import (
    Figure,
    Times,
    cpu_s_of,
    jvm_of,
    per_second,
    ratios,
    timed,
    with_descendants,
)
from labkit.system.topic.messages import decode_messages
from labkit.system.topic.producing.producer import Batching
from labkit.system.topic.topic import Topic
from labkit.views.spark.bookkeeper.cluster import connected
from labkit.views.spark.bookkeeper.directory import LedgerDirectory
from labkit.views.spark.bookkeeper.entries import read_span
from labkit.views.spark.bookkeeper.opening import open_reader
from labkit.views.spark.bookkeeper.options import MIB, read_options
from labkit.views.spark.bookkeeper.source import LedgersReader
from labkit.views.spark.bookkeeper.spans import EARLIEST, LATEST, span_between
from labkit.views.spark.session import DRIVER_SETTINGS, spark_session
from labkit.worlds.live.processes.cluster import LocalCluster

_PAYLOAD_SIZE = 1024
_PARTITIONS = 2
_TRIGGER_ROWS = 1000


@dataclass(frozen=True, slots=True)
class Shape:
    topic: str
    batching: Batching | None
    rows: int
    words: str


def main() -> None:
    quick = benchmark_parser(__doc__, quick="a quarter of the rows").parse_args().quick
    rows, repeat_count = (50_000, 3) if quick else (200_000, 5)
    shapes = [
        Shape("batched", Batching(), rows, "batches of 128 KiB"),
        Shape("single", None, rows // 2, "not batched"),
    ]
    with measuring("spark-source", only_print=quick) as found:
        found.figures += asyncio.run(_measure(found.folder, shapes, repeat_count))


async def _measure(folder: Path, shapes: list[Shape], repeat_count: int) -> list[Figure]:
    async with LocalCluster(3, folder=folder / "cluster", traced=False) as cluster:
        for shape in shapes:
            await _publish(cluster, shape)
        return await asyncio.to_thread(_measure_spark, folder, cluster, shapes, repeat_count)


async def _publish(cluster: LocalCluster, shape: Shape) -> None:
    client = await cluster.connect()
    topic = await Topic.create(client, shape.topic, partitions=_PARTITIONS)
    producer = topic.producer(batching=shape.batching)
    noise = random.Random(1).randbytes(4 * MIB)
    for number in range(shape.rows):
        start = number * 977 % (len(noise) - _PAYLOAD_SIZE)
        producer.send(noise[start : start + _PAYLOAD_SIZE], key=f"key-{number % 100}")
        if number % 1000 == 999:
            await producer.flush()
    await producer.flush()
    await topic.close()


def _measure_spark(
    folder: Path, cluster: LocalCluster, shapes: list[Shape], repeat_count: int
) -> list[Figure]:
    # Keep all workers alive between tasks, because the processor time of a worker is lost when it
    # exits.
    DRIVER_SETTINGS["spark.python.factory.idleWorkerMaxPoolSize"] = "2"
    spark = spark_session("benchmark")
    try:
        figures = [
            figure
            for shape in shapes
            for figure in _batch_figures(spark, folder, cluster.zookeeper, shape, repeat_count)
        ]
        return [*figures, _trigger_figure(spark, folder, cluster.zookeeper, shapes[0])]
    finally:
        spark.stop()


def _batch_figures(
    spark: SparkSession, folder: Path, zookeeper: str, shape: Shape, repeat_count: int
) -> list[Figure]:
    parquet = str(folder / f"{shape.topic}.parquet")
    source = _load(spark, zookeeper, shape)
    source.write.parquet(parquet)
    runs: dict[str, Callable[[], Times]] = {
        "source": lambda: _drain(spark, _load(spark, zookeeper, shape)),
        "parquet": lambda: _drain(spark, spark.read.parquet(parquet)),
        "plain": lambda: timed(lambda: asyncio.run(_read_plainly(zookeeper, shape)), process_time),
        "worker": lambda: timed(lambda: _do_tasks(zookeeper, shape, source.schema), process_time),
    }
    # Discard the first round, which warms up the workers, the JIT compiler and the page cache.
    times = [{name: run() for name, run in runs.items()} for _ in range(repeat_count + 1)][1:]
    wall = {name: [each[name][0] for each in times] for name in runs}
    cpu = {name: [each[name][1] for each in times] for name in runs}
    rate = {name: per_second(shape.rows, wall[name]) for name in runs}
    cost = {name: statistics.median(cpu[name]) / shape.rows * 1e6 for name in runs}
    title = f"rows of 1 KiB, {shape.words}"
    return [
        Figure(
            f"{title}: the source, of Parquet",
            ratios(wall["parquet"], wall["source"]),
            at_least=0.2,
            note=f"{rate['source']}; Parquet: {rate['parquet']}",
        ),
        Figure(
            f"{title}: the source per core, of plain Python",
            ratios(cpu["plain"], cpu["source"]),
            at_least=1.0,
            note=f"{cost['source']:.1f} µs a row; plain: {cost['plain']:.1f} µs, {rate['plain']}",
        ),
        Figure(
            f"{title}: in the worker, of plain Python",
            ratios(cpu["plain"], cpu["worker"]),
            note=f"{cost['worker']:.1f} µs a row",
        ),
    ]


def _drain(spark: SparkSession, rows: DataFrame) -> Times:
    # The Python workers of the JVM outlive a query.
    return timed(
        rows.write.format("noop").mode("overwrite").save,
        lambda: cpu_s_of(*with_descendants(jvm_of(spark))),
    )


def _do_tasks(zookeeper: str, shape: Shape, schema: StructType) -> None:
    """Do the work of the Spark workers in this process, one task after another."""
    options = read_options({"zookeeper": zookeeper, "topic": shape.topic})
    reader = LedgersReader(options, schema)
    count = sum(batch.num_rows for task in reader.partitions() for batch in reader.read(task))
    _check(count, shape)


def _check(count: int, shape: Shape) -> None:
    if count != shape.rows:
        raise RuntimeError(f"expected {shape.rows} messages, read {count}")


def _load(spark: SparkSession, zookeeper: str, shape: Shape, **options: str) -> DataFrame:
    reader = spark.read.format("bookkeeper")
    return reader.options(zookeeper=zookeeper, topic=shape.topic, **options).load()


async def _read_plainly(zookeeper: str, shape: Shape) -> None:
    """Read the topic in this process with the source's request sizes, one object per message."""
    count = 0
    options = read_options({"zookeeper": zookeeper, "topic": shape.topic})
    async with connected(options) as client:
        directory = LedgerDirectory(client, options)
        for lane, chain in (await directory.chains()).items():
            for info in chain:
                ledger = await directory.lookup(info)
                assert ledger is not None, f"ledger {info.ledger_id} does not exist"
                span = span_between(ledger, lane, EARLIEST, LATEST)
                if span is None:
                    continue
                reader = await open_reader(client, ledger, options)
                async with aclosing(read_span(reader, span, options.retry_s)) as chunks:
                    async for entries in chunks:
                        for entry in entries:
                            ids = entry.ledger_id, entry.entry_id, lane.partition
                            count += len(decode_messages(entry.payload, *ids))
    _check(count, shape)


def _trigger_figure(spark: SparkSession, folder: Path, zookeeper: str, shape: Shape) -> Figure:
    reader = spark.readStream.format("bookkeeper").option("maxRowsPerTrigger", str(_TRIGGER_ROWS))
    rows = reader.options(zookeeper=zookeeper, topic=shape.topic).load()
    writer = rows.writeStream.format("noop").trigger(processingTime="0 seconds")
    query = writer.option("checkpointLocation", str(folder / "checkpoint")).start()
    try:
        while len(query.recentProgress) < 25 and query.isActive:
            query.awaitTermination(1)
    finally:
        query.stop()
    full = [p for p in query.recentProgress if p["numInputRows"] == _TRIGGER_ROWS]
    seconds = [each["durationMs"]["triggerExecution"] / 1000 for each in full[1:]]
    parts = full[-1]["durationMs"]
    return Figure(
        f"a stream's trigger with {_TRIGGER_ROWS} rows, after the first",
        seconds,
        unit=" s",
        at_most=0.6,
        note=", ".join(f"{name} {ms} ms" for name, ms in sorted(parts.items())),
    )


if __name__ == "__main__":
    main()
