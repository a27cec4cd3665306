"""Tests for consuming while brokers and bookies stop and restart: unacknowledged messages are never
lost.
"""

import asyncio
from collections.abc import AsyncIterator

import pulsar
import pytest
import pytest_asyncio
from pulsar import ConsumerType, InitialPosition

from labkit.system.client.bookkeeper import BookKeeper
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.client import (
    connect,
    receive,
    received_payloads,
    rest,
    send_all,
    send_batch,
)
from tests.system.broker.load import mend
from tests.system.broker.owner import owner_of

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.java]

PAYLOADS = [f"message {number:03}".encode() for number in range(200)]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def whole() -> AsyncIterator[LocalCluster]:
    async with LocalCluster(3, brokers=2, traced=False) as cluster:
        yield cluster


@pytest_asyncio.fixture(loop_scope="session")
async def brokers(whole: LocalCluster) -> AsyncIterator[LocalCluster]:
    """Yield three bookies and two brokers, and restart those that the test has stopped."""
    yield whole
    await mend(whole)


@pytest_asyncio.fixture(loop_scope="session")
async def bookkeeper(brokers: LocalCluster) -> BookKeeper:
    return await brokers.connect()


def subscribe(
    client: pulsar.Client, topic: str, kind: ConsumerType = ConsumerType.Exclusive
) -> pulsar.Consumer:
    return client.subscribe(
        topic, "sub", kind, initial_position=InitialPosition.Earliest, batch_index_ack_enabled=True
    )


def acknowledge_some(client: pulsar.Client, topic: str) -> list[bytes]:
    """Send single messages and a batch, acknowledge two thirds, and return the other payloads."""
    send_all(client.create_producer(topic), PAYLOADS[:100])
    send_batch(client, topic, PAYLOADS[100:])
    consumer = subscribe(client, topic)
    for number, message in enumerate(receive(consumer, 200)):
        assert message.data() == PAYLOADS[number]
        if number % 3:
            consumer.acknowledge(message)
    consumer.close()
    return PAYLOADS[::3]


def all_that_comes(client: pulsar.Client, topic: str, least: int) -> list[bytes]:
    """Return the payloads that a new consumer of the subscription receives, waiting for `least` of
    them.
    """
    consumer = subscribe(client, topic)
    received = received_payloads(consumer, least) + rest(consumer)
    consumer.close()
    return received


@pytest.mark.core
@pytest.mark.promise(
    "Acknowledgements survive a broker restart; after a broker crash, no unacknowledged "
    "message is lost"
)
async def test_acknowledgements_survive_a_brokers_restart(
    client: pulsar.Client, brokers: LocalCluster, bookkeeper: BookKeeper, topic: str
) -> None:
    left = await asyncio.to_thread(acknowledge_some, client, topic)
    owner = await owner_of(brokers, bookkeeper, topic)
    await brokers.shut_down(owner)
    assert await asyncio.to_thread(all_that_comes, client, topic, len(left)) == left
    assert await owner_of(brokers, bookkeeper, topic) not in ("", owner)


async def test_after_a_brokers_kill_what_was_not_acknowledged_comes_and_nothing_else_but_old(
    client: pulsar.Client, brokers: LocalCluster, bookkeeper: BookKeeper, topic: str
) -> None:
    left = await asyncio.to_thread(acknowledge_some, client, topic)
    await brokers.kill(await owner_of(brokers, bookkeeper, topic))
    received = await asyncio.to_thread(all_that_comes, client, topic, len(left))
    # Acknowledged messages may be redelivered, in order, if the cursor had not been stored.
    assert received == sorted(set(received))
    assert set(left) <= set(received) <= set(PAYLOADS)


def read_on(reader: pulsar.Reader, count: int) -> list[bytes]:
    return [reader.read_next(20_000).data() for _ in range(count)]


@pytest.mark.promise(
    "When its broker is killed, a reader continues after the last message that it read"
)
async def test_a_reader_goes_on_behind_what_it_read_when_its_broker_is_killed(
    client: pulsar.Client, brokers: LocalCluster, bookkeeper: BookKeeper, topic: str
) -> None:
    producer = client.create_producer(topic)
    await asyncio.to_thread(send_all, producer, PAYLOADS[:100])
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    assert await asyncio.to_thread(read_on, reader, 60) == PAYLOADS[:60]
    await brokers.kill(await owner_of(brokers, bookkeeper, topic))
    await asyncio.to_thread(send_all, producer, PAYLOADS[100:])
    assert await asyncio.to_thread(read_on, reader, 140) == PAYLOADS[60:]


@pytest.mark.promise("Consumers continue when bookies die")
async def test_a_consumer_reads_on_when_a_bookie_is_killed(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    await asyncio.to_thread(send_all, client.create_producer(topic), PAYLOADS)
    other = connect(brokers.service_url)
    for bookie in ("b0", "b1"):
        await brokers.kill(bookie)
        consumer = await asyncio.to_thread(
            other.subscribe, topic, bookie, initial_position=InitialPosition.Earliest
        )
        assert await asyncio.to_thread(received_payloads, consumer, 200) == PAYLOADS
        await brokers.restart(bookie)
    other.close()
