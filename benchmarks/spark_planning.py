"""Measures how planning a query grows with the number of the topic's ledgers.

    python -m benchmarks.spark_planning [--quick] [--minutes 10]

A topic has ten partitions, whose chains contain 100 to 100,000 ledgers in all, in a real ZooKeeper
and with a real bookie. The newest ledger of each partition is open and contains entries. All
others are closed, and only the chains mention them, because planning reads neither their metadata
nor their entries.

- First plan: connect, find the offset of the newest entries, and divide all entries into tasks, as
  in the first micro-batch of a stream that starts at the earliest message. A batch query does the
  same.
- Later trigger: the same for one new entry in each partition, reusing the first trigger's
  connection.

Spark calls these methods in a Python process, so this program calls them without Spark.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from time import monotonic, perf_counter, process_time
from typing import TypeVar

from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import LongType, StructField, StructType

from benchmarks.family import benchmark_parser, measuring
from benchmarks.measure import Figure
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.writer import LedgerWriter
from labkit.system.topic.chain.formats import encode_chain
from labkit.system.topic.chain.ledger_chain import LedgerInfo
from labkit.system.topic.names import (
    full_name,
    managed_ledger_path,
    partition_name,
    partitions_path,
)
from labkit.system.topic.partitions import PartitionedTopic
from labkit.views.spark.bookkeeper.offsets import Json
from labkit.views.spark.bookkeeper.stream import LedgerStreamReader
from labkit.worlds.live.processes.cluster import LocalCluster

T = TypeVar("T")

_LEDGER_COUNTS = (100, 1000, 10_000, 100_000)
_QUICK = 2
"""Number of points in a quick run."""
_WITH_GOALS = 10_000
_PARTITIONS = 10
_TRIGGERS = 10
_SCHEMA = StructType([StructField("ledger", LongType())])
_AXIS = "ledgers of a topic"
_ENTRIES, _LEDGER_BYTES = 1000, 1 << 20


def main() -> None:
    options = benchmark_parser(__doc__, quick="only the first points", minutes=10.0).parse_args()
    counts = _LEDGER_COUNTS[: _QUICK if options.quick else None]
    with measuring("spark-planning", only_print=options.quick) as found:
        until = monotonic() + 60 * options.minutes
        found.figures += asyncio.run(_measure(found.folder, counts, until))
        measured = {figure.conditions.get(_AXIS) for figure in found.figures}
        found.left_out += [f"{each:,} ledgers" for each in counts if each not in measured]


async def _measure(folder: Path, ledger_counts: Sequence[int], until: float) -> list[Figure]:
    figures = list[Figure]()
    async with LocalCluster(1, folder=folder, traced=False) as cluster:
        client = await cluster.connect()
        # Give open ledgers greater ids than all closed ones, because the ids of a chain increase.
        await client.store.create(f"{cluster.metadata.ledgers_root}/idgen-long", b"")
        ids = count()
        for ledger_count in ledger_counts:
            if monotonic() > until:
                break
            topic = f"topic-{ledger_count}"
            writers = await _make_topic(client, topic, ledger_count, ids)
            for figure in await _figures(cluster.zookeeper, topic, ledger_count, writers):
                sys.stderr.write(f"{ledger_count:,} ledgers: {figure.name}: {figure.seen}\n")
                figures.append(figure)
    return figures


async def _make_topic(
    client: BookKeeper, topic: str, ledger_count: int, ids: Iterator[int]
) -> list[LedgerWriter]:
    """Create the topic; return the writers of the partitions' open ledgers."""
    name = full_name(topic)
    await client.store.create(partitions_path(name), PartitionedTopic(_PARTITIONS).encode())
    writers = []
    for partition in range(_PARTITIONS):
        closed_count = ledger_count // _PARTITIONS - 1
        chain = [
            LedgerInfo(next(ids), _ENTRIES, _LEDGER_BYTES, closed_at_ms=1)
            for _ in range(closed_count)
        ]
        writer = await client.create_ledger(1, 1, 1)
        await writer.add(b"first")
        writers.append(writer)
        chain.append(LedgerInfo(writer.ledger_id))
        path = managed_ledger_path(partition_name(name, partition))
        await client.store.create(path, encode_chain(chain))
    return writers


async def _figures(
    zookeeper: str, topic: str, ledger_count: int, writers: Sequence[LedgerWriter]
) -> list[Figure]:
    reader = LedgerStreamReader({"zookeeper": zookeeper, "topic": topic}, _SCHEMA)
    start, *first = await _timed(partial(_plan, reader, None))
    later = []
    for _ in range(_TRIGGERS):
        for writer in writers:
            await writer.add(b"next")
        start, *times = await _timed(partial(_plan, reader, start))
        later.append(times)
    await asyncio.to_thread(reader.stop)
    seconds, cpu = zip(*later, strict=True)
    where = {_AXIS: ledger_count}
    figures = [
        Figure(
            "first plan, processor time",
            [first[1] * 1e6 / ledger_count],
            " µs a ledger",
            is_work=True,
            conditions=where,
        ),
        Figure(
            "later trigger, processor time",
            [each * 1e6 for each in cpu],
            " µs a trigger",
            is_work=True,
            conditions=where,
        ),
    ]
    if ledger_count == _WITH_GOALS:
        title = f"{ledger_count:,} ledgers"
        figures += [
            Figure(f"{title}: first plan", [first[0]], " s", at_most=3.0),
            Figure(f"{title}: later trigger", seconds, " s", at_most=0.3),
        ]
    return figures


def _plan(reader: LedgerStreamReader, start: Json | None) -> Json:
    """Plan a trigger as Spark does; return its end."""
    begin = reader.initialOffset() if start is None else start
    end = reader.latestOffset(begin, ReadAllAvailable())
    if not reader.partitions(begin, end):
        raise RuntimeError(f"there is nothing to read between {begin} and {end}")
    return end


async def _timed(work: Callable[[], T]) -> tuple[T, float, float]:
    """Run `work` in a thread; return its result, the elapsed time and the processor time."""
    began, cpu_before = perf_counter(), process_time()
    result = await asyncio.to_thread(work)
    return result, perf_counter() - began, process_time() - cpu_before


if __name__ == "__main__":
    main()
