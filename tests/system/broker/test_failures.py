"""Kill brokers and bookies while Pulsar's own client produces with deduplication, and check that no
acknowledged message is lost, no message is stored twice, and the order is kept.
"""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.topic.chain.chain_store import read_chain
from labkit.system.topic.names import full_name, managed_ledger_path
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.client import connect, make_partitions
from tests.system.broker.load import Load, mend, working
from tests.system.broker.owner import owner_of
from tests.until import until_true

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.java, pytest.mark.slow]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def whole() -> AsyncIterator[LocalCluster]:
    async with LocalCluster(
        4, brokers=2, traced=False, broker_conf={"brokerDeduplicationEnabled": "true"}
    ) as cluster:
        yield cluster


@pytest_asyncio.fixture(loop_scope="session")
async def cluster(whole: LocalCluster) -> AsyncIterator[LocalCluster]:
    """Yield four bookies and two brokers, and restart those that the test has stopped."""
    yield whole
    await mend(whole)


@pytest_asyncio.fixture(loop_scope="session")
async def load(cluster: LocalCluster, topic: str) -> AsyncIterator[Load]:
    async with working(cluster, topic) as load:
        yield load


@pytest.mark.promise(
    "If brokers are killed while producers with deduplication send, no acknowledged message "
    "is lost or stored twice, and each key keeps its order"
)
async def test_owner_killed_while_producing(cluster: LocalCluster, topic: str, load: Load) -> None:
    bookkeeper = await cluster.connect()
    for _ in range(2):
        owner = await owner_of(cluster, bookkeeper, topic)
        await cluster.kill(owner)
        await load.goes_on()
        assert await owner_of(cluster, bookkeeper, topic) not in ("", owner)
        await cluster.restart(owner)


async def test_owner_of_a_partition_killed_meanwhile(cluster: LocalCluster, topic: str) -> None:
    await asyncio.to_thread(make_partitions, cluster, topic, 4)
    bookkeeper = await cluster.connect()
    async with working(cluster, topic) as load:
        owner = await owner_of(cluster, bookkeeper, f"{topic}-partition-0")
        await cluster.kill(owner)
        await load.goes_on()
        await cluster.restart(owner)


@pytest.mark.promise(
    "If bookies are killed while producers send, one at a time or all together, no "
    "acknowledged message is lost or stored twice"
)
async def test_bookies_killed_in_mid_production(cluster: LocalCluster, load: Load) -> None:
    for bookie in ("b0", "b1", "b2"):
        await cluster.kill(bookie)
        await load.goes_on()
        await cluster.restart(bookie)


async def test_all_bookies_killed_in_mid_production(cluster: LocalCluster, load: Load) -> None:
    await asyncio.gather(*map(cluster.kill, cluster.bookie_names))
    await asyncio.gather(*map(cluster.restart, cluster.bookie_names))
    await load.goes_on()


@pytest.mark.promise("If two brokers believe that they own a topic, one of them is fenced")
async def test_one_of_two_owners_is_fenced(cluster: LocalCluster, topic: str, load: Load) -> None:
    bookkeeper = await cluster.connect()
    owner = await owner_of(cluster, bookkeeper, topic)
    await cluster.pause(owner)
    await until_true(lambda: nobody_owns(cluster, bookkeeper, topic))
    [other] = [name for name in cluster.broker_names if name != owner]
    await asyncio.to_thread(make_serve, cluster.service_url_of(other), topic)
    assert await owner_of(cluster, bookkeeper, topic) == other
    await cluster.resume(owner)
    await load.goes_on()
    chain, _ = await read_chain(bookkeeper, managed_ledger_path(full_name(topic)))
    newest = list(load.acknowledged.values())[-1]
    assert newest.ledger_id() == chain[-1].ledger_id > chain[0].ledger_id


async def nobody_owns(cluster: LocalCluster, bookkeeper: BookKeeper, topic: str) -> bool:
    return await owner_of(cluster, bookkeeper, topic) == ""


def make_serve(service_url: str, topic: str) -> None:
    """Make that broker serve the topic, which must not have an owner."""
    client = connect(service_url)
    client.create_producer(topic, "another")
    client.close()
