"""Tests for several brokers that share a ZooKeeper: which one serves a topic, and how
topics move.
"""

import asyncio
import json
import socket
import urllib.request
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import pulsar
import pytest
import pytest_asyncio

from labkit.system.broker.ownership import BROKERS
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.ledger import LedgerState
from labkit.system.topic.chain.chain_store import read_chain
from labkit.system.topic.names import full_name, managed_ledger_path
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.admin import unload
from tests.system.broker.client import connect, receive_all, send_all
from tests.system.broker.load import Load, mend, working
from tests.system.broker.owner import owner_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAYLOADS = [f"message {number}".encode() for number in range(100)]


@pytest_asyncio.fixture(loop_scope="session")
async def bookkeeper(brokers: LocalCluster) -> BookKeeper:
    return await brokers.connect()


@pytest_asyncio.fixture(loop_scope="session")
async def load(brokers: LocalCluster, topic: str) -> AsyncIterator[Load]:
    """Run a producer whose messages must all be stored exactly once and in order."""
    async with working(brokers, topic) as load:
        yield load
    await mend(brokers)


@pytest.mark.promise(
    "Every broker redirects clients to the owner of a topic, and topics are spread over brokers"
)
async def test_any_broker_leads_to_the_owner(brokers: LocalCluster, bookkeeper: BookKeeper) -> None:
    topics = [f"spread-{number}" for number in range(12)]
    urls = [brokers.service_url_of(name) for name in brokers.broker_names]

    def through(url: str) -> list[str]:
        client = connect(url)
        for topic in topics:
            client.create_producer(topic).send(b"x")
        client.close()
        return topics

    await asyncio.gather(*(asyncio.to_thread(through, url) for url in urls))
    client = connect(urls[0])
    for topic in topics:
        assert len(await asyncio.to_thread(receive_all, client, topic, 2)) == 2
    client.close()
    owners = [await owner_of(brokers, bookkeeper, topic) for topic in topics]
    assert set(owners) == set(brokers.broker_names)


@pytest.mark.promise(
    "When a topic is unloaded or its broker shuts down, it moves without lost or duplicate "
    "messages, with or without deduplication"
)
async def test_unloaded_topic_goes_on_without_loss_or_double(
    brokers: LocalCluster, bookkeeper: BookKeeper, topic: str, load: Load
) -> None:
    for _ in range(3):
        await asyncio.to_thread(unload, brokers, topic)
        await load.goes_on()
    chain, _ = await read_chain(bookkeeper, managed_ledger_path(full_name(topic)))
    ids = [link.ledger_id for link in chain]
    assert len(ids) > 3
    assert ids == sorted(ids)


async def test_broker_that_is_shut_down_hands_its_topics_over_without_loss_or_double(
    brokers: LocalCluster, bookkeeper: BookKeeper, topic: str, load: Load
) -> None:
    owner = await owner_of(brokers, bookkeeper, topic)
    first = load.ledger_id
    await brokers.shut_down(owner)
    metadata = await bookkeeper.ledger_metadata(first)
    assert metadata.state is LedgerState.CLOSED
    assert len(await bookkeeper.store.children(BROKERS)) == 1
    await load.goes_on()
    assert await owner_of(brokers, bookkeeper, topic) not in ("", owner)
    assert load.ledger_id > first


@pytest.mark.promise("The ledger ids of a topic increase, whichever processes restart")
async def test_ledger_ids_of_a_topic_grow_while_all_brokers_restart(
    brokers: LocalCluster, client: pulsar.Client, topic: str
) -> None:
    sent = []
    for restart in (brokers.kill, brokers.shut_down, brokers.kill):
        producer = client.create_producer(topic)
        sent += await asyncio.to_thread(send_all, producer, PAYLOADS)
        await asyncio.to_thread(producer.close)
        await asyncio.gather(*map(restart, brokers.broker_names))
        await asyncio.gather(*map(brokers.restart, brokers.broker_names))
    ledgers = list(dict.fromkeys(message_id.ledger_id() for message_id, _ in sent))
    assert len(ledgers) == 3
    assert ledgers == sorted(ledgers)
    assert await asyncio.to_thread(receive_all, client, topic, 300) == sent


@pytest.mark.java
@pytest.mark.asyncio(loop_scope="session")
async def test_a_broker_on_ipv6_announces_urls_with_brackets(topic: str) -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("there is no IPv6 here")
    keys = {"advertisedAddress": "::1"}
    async with LocalCluster(1, brokers=1, traced=False, broker_conf=keys) as cluster:
        assert cluster.service_url.startswith("pulsar://[::1]:")
        url = f"{cluster.web_url_of('broker-1')}/lookup/v2/topic/persistent/public/default/{topic}"
        with await asyncio.to_thread(urllib.request.urlopen, url, timeout=20) as response:
            found = json.loads(response.read())
    # Pulsar's Python and C++ clients do not support IPv6 addresses, so look the topic up over HTTP.
    assert found["brokerUrl"] == cluster.service_url
    assert urlsplit(found["httpUrl"]).hostname == "::1"
