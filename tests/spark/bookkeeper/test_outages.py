"""Queries while ZooKeeper is away: a restart of it ends neither a stream nor a batch query."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from labkit.live.posix import continue_process, stop_process
from labkit.live.zookeeper import EmbeddedZooKeeper
from labkit.spark.bookkeeper.batches import Task, read_task
from labkit.spark.bookkeeper.options import read_options
from labkit.spark.bookkeeper.source import LedgersReader
from labkit.topic.topic import Topic
from tests.repeat import repeated
from tests.spark.bookkeeper.stage import Stage, numbered
from tests.spark.bookkeeper.test_stream import Following

pytestmark = pytest.mark.slow

LONGER_THAN_A_SESSION_S = 5.0


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    """A cluster whose ZooKeeper no other test needs."""
    with Stage(bookies=3) as stage:
        yield stage


@asynccontextmanager
async def away(server: EmbeddedZooKeeper, *, hangs: bool) -> AsyncIterator[None]:
    """While it hangs, all sessions expire, and with them the registrations of all bookies."""
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


async def publish(topic: Topic, payloads: list[bytes]) -> list[str]:
    """As `Stage.send`, which needs ZooKeeper.  The last two messages make the others readable."""
    producer = topic.producer("p")
    sent = [producer.send(payload) for payload in payloads]
    await producer.flush()
    return [str(each.result()) for each in sent]


@pytest.fixture
def follow(spark: SparkSession, stage: Stage, name: str, tmp_path: Path) -> Following:
    return Following(spark, stage, tmp_path, topic=name)


@pytest.mark.parametrize("hangs", repeated([True, False]))
def test_a_stream_goes_on_when_zookeeper_is_back(
    stage: Stage, name: str, follow: Following, hangs: bool
) -> None:
    async def publish_meanwhile() -> None:
        async with away(stage.cluster.embedded_zookeeper, hangs=hangs):
            sent.extend(await publish(topic, numbered(20, 40)))
            await asyncio.sleep(LONGER_THAN_A_SESSION_S)

    topic = stage.topic(name, 0, entries_per_ledger=1000)
    sent = stage.send(topic, numbered(0, 20))
    with follow.running() as query:
        follow.wait_for(20, query)
        stage.run(publish_meanwhile())
        follow.wait_for(40, query)
    assert follow.sink.ids() == sent
