"""Producers that want a topic for themselves, with Pulsar's own client."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pulsar
import pytest
from pulsar import ProducerAccessMode

from labkit.system.broker.access import EPOCH_PROPERTY
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.topic.chain.formats import decode_properties
from labkit.system.topic.names import full_name, managed_ledger_path
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.admin import unload
from tests.system.broker.client import connect, make_partitions, receive_all
from tests.system.broker.owner import owner_of

EXCLUSIVE = ProducerAccessMode.Exclusive
WAITING = ProducerAccessMode.WaitForExclusive
FENCING = ProducerAccessMode.ExclusiveWithFencing


@pytest.fixture
def other(brokers: LocalCluster) -> Iterator[pulsar.Client]:
    """A client with a separate connection."""
    client = connect(brokers.service_url)
    yield client
    client.close()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(3) as pool:
        yield pool


async def epoch_of(bookkeeper: BookKeeper, topic: str) -> int:
    """As the metadata store keeps it."""
    data, _ = await bookkeeper.store.get(managed_ledger_path(full_name(topic)))
    return int(decode_properties(data)[EPOCH_PROPERTY])


def test_an_exclusive_producer_has_the_topic_for_itself_until_it_leaves(
    client: pulsar.Client, other: pulsar.Client, topic: str
) -> None:
    first = client.create_producer(topic, access_mode=EXCLUSIVE)
    with pytest.raises(pulsar.ProducerFenced):
        other.create_producer(topic, access_mode=EXCLUSIVE)
    with pytest.raises(pulsar.ProducerBusy):
        other.create_producer(topic)
    sent = [(first.send(b"first"), b"first")]
    first.close()
    sent.append((other.create_producer(topic, access_mode=EXCLUSIVE).send(b"second"), b"second"))
    assert receive_all(client, topic, 2) == sent


def test_a_producer_gets_exclusive_access_when_the_others_have_left(
    client: pulsar.Client, other: pulsar.Client, topic: str, threads: ThreadPoolExecutor
) -> None:
    def wait_and_send() -> pulsar.Producer:
        producer = other.create_producer(topic, access_mode=WAITING)
        producer.send(b"at last")
        return producer

    first = client.create_producer(topic)
    waiting: Future[pulsar.Producer] = threads.submit(wait_and_send)
    while True:  # It waits as soon as nobody new may share.
        try:
            client.create_producer(topic).close()
        except pulsar.ProducerBusy:
            break
    first.send(b"before")
    assert not waiting.done()
    first.close()
    waiting.result(20)
    assert [payload for _, payload in receive_all(client, topic, 2)] == [b"before", b"at last"]
    with pytest.raises(pulsar.ProducerFenced):
        client.create_producer(topic, access_mode=EXCLUSIVE)


def test_a_fenced_producer_can_no_longer_send(
    client: pulsar.Client, other: pulsar.Client, topic: str
) -> None:
    first = client.create_producer(topic, access_mode=EXCLUSIVE)
    first.send(b"first")
    last = other.create_producer(topic, access_mode=FENCING)
    last.send(b"last")
    with pytest.raises((pulsar.ProducerFenced, pulsar.AlreadyClosed)):
        first.send(b"too late")
    last.send(b"last again")
    payloads = [payload for _, payload in receive_all(other, topic, 3)]
    assert payloads == [b"first", b"last", b"last again"]


@pytest.mark.asyncio(loop_scope="session")
async def test_exclusive_access_survives_a_move_and_only_others_raise_the_epoch(
    brokers: LocalCluster, client: pulsar.Client, other: pulsar.Client, topic: str
) -> None:
    bookkeeper = await brokers.connect()
    first = await asyncio.to_thread(client.create_producer, topic, access_mode=EXCLUSIVE)
    for move in ("unload", "kill"):
        if move == "unload":
            await asyncio.to_thread(unload, brokers, topic)
        else:
            owner = await owner_of(brokers, bookkeeper, topic)
            await brokers.kill(owner)
            await brokers.restart(owner)
        await asyncio.to_thread(first.send, b"still alone")
        assert await epoch_of(bookkeeper, topic) == 0
    last = await asyncio.to_thread(other.create_producer, topic, access_mode=FENCING)
    await asyncio.to_thread(last.send, b"now I am")
    assert await epoch_of(bookkeeper, topic) == 1
    await asyncio.to_thread(unload, brokers, topic)
    await asyncio.to_thread(last.send, b"and stay so")
    with pytest.raises((pulsar.ProducerFenced, pulsar.AlreadyClosed)):
        await asyncio.to_thread(first.send, b"too late")
    payloads = [payload for _, payload in await asyncio.to_thread(receive_all, other, topic, 4)]
    assert payloads == [b"still alone"] * 2 + [b"now I am", b"and stay so"]


def test_partitions_are_each_its_producers_alone(
    brokers: LocalCluster, client: pulsar.Client, other: pulsar.Client, topic: str
) -> None:
    make_partitions(brokers, topic, 3)
    first = client.create_producer(topic, access_mode=EXCLUSIVE)
    for partition in range(3):
        with pytest.raises(pulsar.ProducerFenced):
            other.create_producer(f"{topic}-partition-{partition}", access_mode=EXCLUSIVE)
    for number in range(6):
        first.send(b"%d" % number)
    assert len(receive_all(client, topic, 6)) == 6
