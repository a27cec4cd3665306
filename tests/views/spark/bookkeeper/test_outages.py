"""Tests that streams and batch queries survive restarts of ZooKeeper and of a bookie."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from labkit.system.metadata.store import MetadataError
from labkit.system.topic.topic import Topic
from labkit.views.spark.bookkeeper.batches import read_task
from labkit.views.spark.bookkeeper.options import read_options
from labkit.views.spark.bookkeeper.source import LedgersReader
from labkit.worlds.live.host.posix import continue_process, stop_process
from tests.repeat import repeated
from tests.until import until_true
from tests.views.spark.bookkeeper.stage import Stage, numbered
from tests.views.spark.bookkeeper.test_stream import Following

T = TypeVar("T")

pytestmark = pytest.mark.slow

BOOKIES = 3
LONGER_THAN_A_SESSION_S = 5.0
LONGER_THAN_A_FIRST_CONNECTION_S = 11.0


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """Start a cluster for this module alone, because its tests stop ZooKeeper."""
    with Stage(bookies=BOOKIES) as stage:
        yield stage


@asynccontextmanager
async def zookeeper_away(stage: Stage, *, hangs: bool) -> AsyncIterator[None]:
    """Stop or suspend ZooKeeper while the block runs, then wait until all bookies are registered.

    While ZooKeeper is suspended, all sessions expire, and with them the registrations of all
    bookies.
    """

    async def all_registered() -> bool:
        try:
            return len(await stage.client.writable_bookies()) == BOOKIES
        except MetadataError:
            return False

    server = stage.cluster.embedded_zookeeper
    if hangs:
        await stop_process(server.pid)
    else:
        await server.stop()
    try:
        yield
    finally:
        if hangs:
            continue_process(server.pid)
        else:
            await server.start()
        await until_true(all_registered)


async def publish(topic: Topic, payloads: list[bytes]) -> list[str]:
    """Publish like `Stage.send`, but without using ZooKeeper.

    The client makes the newest message readable.
    """
    producer = topic.producer("p")
    sent = [producer.send(payload) for payload in payloads]
    await producer.flush()
    return [str(each.result()) for each in sent]


@pytest.fixture
def follow(spark: SparkSession, stage: Stage, name: str, tmp_path: Path) -> Following:
    return Following(spark, stage, tmp_path, topic=name)


@pytest.mark.parametrize("hangs", repeated([False, True]))
def test_a_stream_goes_on_when_zookeeper_is_back(
    stage: Stage, name: str, follow: Following, hangs: bool
) -> None:
    async def publish_meanwhile() -> None:
        async with zookeeper_away(stage, hangs=hangs):
            sent.extend(await publish(topic, numbered(20, 40)))
            await asyncio.sleep(LONGER_THAN_A_SESSION_S)

    topic = stage.topic(name, 0, entries_per_ledger=1000)
    sent = stage.send(topic, numbered(0, 20))
    with follow.running() as query:
        follow.wait_for(20, query)
        stage.run(publish_meanwhile())
        follow.wait_for(40, query)
    assert follow.sink.ids() == sent


def test_a_stream_ends_with_one_sentence_when_zookeeper_stays_away_and_can_be_restarted(
    stage: Stage, name: str, follow: Following
) -> None:
    async def end_meanwhile() -> None:
        async with zookeeper_away(stage, hangs=False):
            await asyncio.to_thread(query.awaitTermination, 60)

    topic = stage.topic(name, 0)
    sent = stage.send(topic, numbered(0, 5))
    follow.options["retrySeconds"] = "1"
    with follow.running() as query:
        follow.wait_for(5, query)
        with pytest.raises(StreamingQueryException) as told:
            stage.run(end_meanwhile())
    said = f"ZooKeeper at {stage.cluster.zookeeper} was unreachable for 1 s; is it running?"
    assert said in str(told.value)
    sent += stage.send(topic, numbered(5, 10))
    follow.options["retrySeconds"] = "60"
    follow.read_now()
    assert follow.sink.ids() == sent


def test_a_batch_query_planned_and_read_while_zookeeper_is_away_waits_for_it(
    stage: Stage, name: str
) -> None:
    sent = numbered(0, 20)
    stage.send(stage.topic(name, 0, entries_per_ledger=1000), sent)
    options = read_options({"zookeeper": stage.cluster.zookeeper, "topic": name})
    schema = StructType().add("payload", "binary")

    def read(tasks: Sequence[InputPartition]) -> list[bytes]:
        batches = (batch for task in tasks for batch in read_task(task, options, schema))
        return [row["payload"] for batch in batches for row in batch.to_pylist()]

    async def meanwhile(work: Callable[[], T]) -> T:
        async with zookeeper_away(stage, hangs=True):
            asked = asyncio.create_task(asyncio.to_thread(work))
            await asyncio.sleep(LONGER_THAN_A_FIRST_CONNECTION_S)
        return await asked

    tasks = stage.run(meanwhile(LedgersReader(options, schema).partitions))
    assert stage.run(meanwhile(lambda: read(tasks))) == sent


def test_a_bookie_that_restarts_ends_no_query_though_it_has_the_only_copy(stage: Stage) -> None:
    async def read_while_it_restarts() -> list[bytes]:
        await stage.cluster.kill(bookie)
        asked = asyncio.create_task(asyncio.to_thread(read))
        await asyncio.sleep(1)
        await stage.cluster.restart(bookie)
        return await asked

    def read() -> list[bytes]:
        [task] = LedgersReader(options, schema).partitions()
        batches = read_task(task, options, schema)
        return [row["payload"] for batch in batches for row in batch.to_pylist()]

    writer = stage.write_ledger([b"x"], 1, 1, 1)
    ledger_id, [bookie] = writer.ledger_id, writer.metadata.segments[0].ensemble
    options = read_options({"zookeeper": stage.cluster.zookeeper, "ledgers": str(ledger_id)})
    schema = StructType().add("payload", "binary")
    assert stage.run(read_while_it_restarts()) == [b"x"]
