"""Consuming while brokers and bookies go and come: what is not acknowledged is never lost."""

import asyncio
from collections.abc import AsyncIterator

import pulsar
import pytest
import pytest_asyncio
from pulsar import ConsumerType, InitialPosition

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.topic.chain.acknowledged import CursorState
from labkit.system.topic.chain.formats import IN_NODE, decode_cursor_node, decode_position
from labkit.system.topic.names import full_name, managed_ledger_path
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.client import (
    connect,
    receive,
    received_payloads,
    rest,
    send_all,
    send_batch,
)
from tests.system.broker.owner import owner_of
from tests.until import until_true

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.java]

PAYLOADS = [f"message {number:03}".encode() for number in range(200)]


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def whole() -> AsyncIterator[LocalCluster]:
    async with LocalCluster(3, brokers=2, traced=False) as cluster:
        yield cluster


@pytest_asyncio.fixture(loop_scope="session")
async def brokers(whole: LocalCluster) -> AsyncIterator[LocalCluster]:
    """Three bookies and two brokers; whatever a test does to them, the next finds them up."""
    yield whole
    for name in (*whole.bookie_names, *whole.broker_names):
        if not whole.is_up(name):
            await whole.restart(name)


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
    """Send singles and a batch, acknowledge two of three; what is left."""
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
    """The payloads that a new consumer of the subscription gets, at least that many."""
    consumer = subscribe(client, topic)
    received = received_payloads(consumer, least) + rest(consumer)
    consumer.close()
    return received


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
    # Acknowledged ones may come again, in their places: the cursor may not have been stored.
    assert received == sorted(set(received))
    assert set(left) <= set(received) <= set(PAYLOADS)


async def test_stored_acknowledgements_survive_a_brokers_kill(
    client: pulsar.Client, brokers: LocalCluster, bookkeeper: BookKeeper, topic: str
) -> None:
    left = await asyncio.to_thread(acknowledge_some, client, topic)
    bits = sum(1 << number - 100 for number in range(100, 200) if number % 3 == 0)

    async def is_stored() -> bool:
        state = await stored_cursor(bookkeeper, topic)
        return len(state.ranges) == 33 and [each[1] for each in state.batches] == [bits]

    await until_true(is_stored)
    await brokers.kill(await owner_of(brokers, bookkeeper, topic))
    assert await asyncio.to_thread(all_that_comes, client, topic, len(left)) == left


async def stored_cursor(bookkeeper: BookKeeper, topic: str) -> CursorState:
    """What the next owner would find."""
    path = f"{managed_ledger_path(full_name(topic))}/sub"
    node = decode_cursor_node((await bookkeeper.store.get(path))[0])
    if node.ledger_id == IN_NODE:
        return node.state
    reader = await bookkeeper.open_ledger_no_recovery(node.ledger_id)
    last = await reader.read_explicit_last_add_confirmed()
    if last < 0:
        return node.state
    return decode_position((await reader.read_entry(last)).payload)


def read_on(reader: pulsar.Reader, count: int) -> list[bytes]:
    return [reader.read_next(20_000).data() for _ in range(count)]


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


async def test_consumers_that_share_get_everything_through_a_brokers_kill(
    client: pulsar.Client, brokers: LocalCluster, bookkeeper: BookKeeper, topic: str
) -> None:
    consumers = [subscribe(client, topic, ConsumerType.Shared) for _ in range(2)]
    producer = client.create_producer(topic)
    await asyncio.to_thread(send_all, producer, PAYLOADS[:100])
    received: set[bytes] = set()

    def take_all() -> bool:
        for consumer in consumers:
            try:
                message = consumer.receive(200)
            except pulsar.Timeout:
                continue
            received.add(message.data())
            consumer.acknowledge(message)
        return len(received) == len(PAYLOADS)

    for _ in range(20):
        await asyncio.to_thread(take_all)
    await brokers.kill(await owner_of(brokers, bookkeeper, topic))
    await asyncio.to_thread(send_all, producer, PAYLOADS[100:])
    await until_true(lambda: asyncio.to_thread(take_all))
    assert received == set(PAYLOADS)


async def test_a_consumer_reads_on_when_a_bookie_is_killed(
    client: pulsar.Client, brokers: LocalCluster, topic: str
) -> None:
    await asyncio.to_thread(send_all, client.create_producer(topic), PAYLOADS)
    other = connect(brokers.service_url)
    for bookie in ("bookie-1", "bookie-2"):
        await brokers.kill(bookie)
        consumer = await asyncio.to_thread(
            other.subscribe, topic, bookie, initial_position=InitialPosition.Earliest
        )
        assert await asyncio.to_thread(received_payloads, consumer, 200) == PAYLOADS
        await brokers.restart(bookie)
    other.close()
