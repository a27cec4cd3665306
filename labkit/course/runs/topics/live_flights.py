"""A topic of flights in a real cluster, and the queries that read it (lesson 13).

Blocking calls of Spark run in a thread, so that the notebook's cluster keeps running.
"""

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self, TypeVar

import pandas as pd
import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as fn

from labkit.system.client.context import ClientConfig
from labkit.system.client.placement.placement import in_name_order
from labkit.system.model.message_id import MessageId
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.producing.producer import Batching, Producer
from labkit.system.topic.topic import Topic
from labkit.views.spark import flights, streams
from labkit.views.spark.picture import SvgImage, message_id_picture
from labkit.views.widgets.step_list import Step, Steps
from labkit.worlds.live.processes.cluster import LocalCluster

T = TypeVar("T")
_PATIENCE_S = 110
_PARTS = ["partition", "ledger", "entry", "batch_index"]


def steps_of_a_micro_batch() -> Steps:
    """Return the steps of micro-batch 7, each with the effect of a crash at that step."""
    return Steps(
        [
            Step("commits/6 is written"),
            Step(
                "offsets/7 is written: the end of batch 7", "crash here: batch 7 is planned again"
            ),
            Step(
                "its rows are read from the bookies",
                "crash here: it is repeated with the same rows",
            ),
            Step(
                "the sink stores them", "crash here: it is repeated, some rows are already stored"
            ),
            Step("commits/7 is written", "crash here: it is repeated, all rows are already stored"),
        ]
    )


class LiveFlights:
    """A topic with two partitions in a cluster of four bookies, and a producer of flights.

    `published` contains the ids from the producer's receipts, and `folder` is a new directory for
    checkpoints and sinks. Bookies are chosen in alphabetical order, and no batch is closed by a
    timeout, so that all runs are the same.
    """

    def __init__(self, cluster: LocalCluster, producer: Producer, flight_count: int) -> None:
        self.cluster = cluster
        self.published: list[MessageId] = []
        self._temporary = TemporaryDirectory(prefix="labkit-stream-")
        self.folder = Path(self._temporary.name)
        self._producer = producer
        self._flights = flights.flight_events(flight_count)

    @classmethod
    async def create(cls, cluster: LocalCluster, flight_count: int) -> Self:
        """Create the topic. Raises the same errors as `Topic.create`."""
        client = await cluster.connect(
            "owner", placement=in_name_order, config=ClientConfig(explicit_lac_interval_ms=100)
        )
        config = ManagedLedgerConfig(max_entries_per_ledger=12)
        topic = await Topic.create(client, "flights", partitions=2, config=config)
        batching = Batching(max_messages=10, max_delay_ms=60_000)
        return cls(cluster, topic.producer("timetable", batching=batching), flight_count)

    async def stop(self) -> None:
        """Stop the cluster and delete the folder."""
        await self.cluster.stop()
        self._temporary.cleanup()

    async def publish(self, count: int) -> None:
        """Send the next flights, and collect the ids in their receipts."""
        sent = list(islice(self._flights, count))
        self.published.extend(await flights.publish(self._producer, sent))

    async def visible(self, read: Callable[[], DataFrame]) -> DataFrame:
        """Wait until the newest message is visible to readers, and return all messages.

        Raises `TimeoutError`.
        """
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                table = read()
                if await in_thread(table.count) >= len(self.published):
                    return table
                await asyncio.sleep(0.1)

    async def caught_up(self, query: Any, spark: SparkSession, sink: Path) -> None:
        """Wait until the sink has every message.

        Raises the query's error if the query fails, and `TimeoutError` if the wait takes too long.
        """
        async with asyncio.timeout(_PATIENCE_S):
            while query.isActive:
                if await row_count(spark, sink) >= len(self.published):
                    return
                await asyncio.sleep(0.2)
        _raise_error_of(query)

    async def gaps_and_duplicates(self, spark: SparkSession, sink: Path) -> dict[str, int]:
        """Compare the rows in the sink with the producer's receipts."""
        rows = spark.read.parquet(str(sink)).select(*streams.ID_PARTS)
        ids = [":".join(map(str, row)) for row in await in_thread(rows.collect)]
        missing = set(map(str, self.published)) - set(ids)
        return {"missing": len(missing), "duplicates": len(ids) - len(set(ids)), "rows": len(ids)}

    def offsets_and_last_messages(self, checkpoint: Path) -> dict[str, str]:
        """Describe each partition's newest offset and the id of its last message."""
        return {
            partition: f"offset {offset}, last message {last}"
            for partition, (offset, last) in self._ends(checkpoint).items()
        }

    def meaning_of_offsets(self, checkpoint: Path) -> str:
        """Return "last delivered" or "first not delivered", depending on which of these entries the
        newest offsets refer to.
        """
        ends = self._ends(checkpoint).values()
        is_last = all(offset.split(":")[:2] == last.split(":")[:2] for offset, last in ends)
        return "last delivered" if is_last else "first not delivered"

    def _ends(self, checkpoint: Path) -> dict[str, tuple[str, str]]:
        newest = list(_offsets(checkpoint).values())[-1]
        last = {p: max(i for i in self.published if str(i.partition) == p) for p in newest}
        return {p: (newest[p], str(last[p])) for p in newest}

    def five_entries(self) -> list[str]:
        """Return the ids of four entries of partition 0, and of one of partition 1, as text.

        One of the four entries is the first entry of the partition's second ledger.
        """
        first, second, *_ = sorted({i.ledger_id for i in self.published if i.partition == 0})
        other = min(i.ledger_id for i in self.published if i.partition == 1)
        return [f"{first}:2", f"{first}:3", f"{first}:7", f"{second}:0", f"{other}:1"]


async def in_thread(call: Callable[[], T]) -> T:
    """Run a blocking call of Spark in a thread."""
    return await asyncio.to_thread(call)


async def row_count(spark: SparkSession, sink: Path) -> int:
    """Return the number of rows in the sink."""
    return await in_thread(spark.read.parquet(str(sink)).count)


async def ensembles_in(spark: SparkSession, sink: Path) -> pd.DataFrame:
    """Return the ensembles from which the rows in the sink were read."""
    ensembles = spark.read.parquet(str(sink)).select(
        fn.array_join("ensemble", " ").alias("ensemble")
    )
    return await in_thread(ensembles.distinct().orderBy("ensemble").toPandas)


async def picture_of_middle(table: DataFrame) -> SvgImage:
    """Return a picture of the id of the message in the middle of a topic."""
    rows = (await in_thread(table.select("topic", *_PARTS).toPandas)).sort_values(_PARTS)
    rows["seq"] = range(len(rows))
    return message_id_picture(pa.Table.from_pandas(rows), seq=len(rows) // 2)


async def finished(query: Any) -> None:
    """Wait until a query has ended. Raises the query's error if the query failed."""
    await in_thread(query.awaitTermination)
    _raise_error_of(query)


def _raise_error_of(query: Any) -> None:
    if query.exception() is not None:
        raise query.exception()


async def error_of(stream: DataFrame, folder: Path) -> str:
    """Start a query that fails, and return the end of its error message, which states the
    reason.
    """
    writer = stream.writeStream.format("noop").option("checkpointLocation", f"{folder}/wrong")
    query = writer.start()
    with suppress(PySparkException):
        await in_thread(query.awaitTermination)
    lines = str(query.exception()).splitlines()
    return next(line for line in reversed(lines) if " in the cluster" in line).partition(" in ")[0]


def committed(checkpoint: Path) -> list[int]:
    """Return the numbers of a query's committed micro-batches."""
    return _batches(checkpoint / "commits")


def planned(checkpoint: Path) -> list[int]:
    """Return the numbers of the micro-batches whose end offsets have been stored."""
    return _batches(checkpoint / "offsets")


def offset_table(checkpoint: Path) -> pd.DataFrame:
    """Return the end offset of each micro-batch, which is the last line of its file."""
    return pd.DataFrame.from_dict(_offsets(checkpoint), orient="index")


def _offsets(checkpoint: Path) -> dict[int, dict[str, str]]:
    files = {number: checkpoint / "offsets" / str(number) for number in planned(checkpoint)}
    lines = {number: file.read_text(encoding="utf-8") for number, file in files.items()}
    return {number: json.loads(text.splitlines()[-1]) for number, text in lines.items()}


def _batches(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in folder.glob("[0-9]*"))


class NotedQuery:
    """A query whose sink only records the number of each batch and how many rows it contains. A
    batch contains at most 300 rows.

    The records are kept in a file, because with Spark Connect the sink runs in the server.
    """

    def __init__(self, spark: SparkSession, options: dict[str, str], folder: Path) -> None:
        stream = spark.readStream.format("bookkeeper").options(**options)
        self._stream = stream.option("maxRowsPerTrigger", 300).load()
        self._checkpoint, self._notes = folder / "noted", folder / "notes"

    def batches(self) -> list[tuple[int, int]]:
        """Return a batch number and a row count for each call of the sink."""
        lines = self._notes.read_text(encoding="utf-8").splitlines()
        return [(number, count) for number, count in map(json.loads, lines)]

    async def run(self) -> list[tuple[int, int]]:
        """Run the query on everything that is available, and return `batches`.

        Raises the query's error if the query fails.
        """
        notes = self._notes

        def note(rows: Any, number: int) -> None:
            with notes.open("a", encoding="utf-8") as file:
                file.write(f"[{number}, {rows.count()}]\n")

        writer = self._stream.writeStream.foreachBatch(note)
        writer = writer.option("checkpointLocation", str(self._checkpoint))
        await finished(writer.trigger(availableNow=True).start())
        return self.batches()

    async def crash_before_commit(self) -> list[tuple[int, int]]:
        """Delete the newest commit, as if a crash had prevented the commit, and run the query
        again.

        Return the batches that the sink received in the second run.
        """
        before, newest = len(self.batches()), committed(self._checkpoint)[-1]
        (self._checkpoint / "commits" / str(newest)).unlink()
        (self._checkpoint / "commits" / f".{newest}.crc").unlink(missing_ok=True)
        return (await self.run())[before:]
