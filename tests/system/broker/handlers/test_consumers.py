"""Tests for the commands for consumers that the official client cannot send or does not show."""

import asyncio
from collections.abc import AsyncIterator

import pulsar
import pytest
import pytest_asyncio

from labkit.system.broker.protocol.frames import NO_REQUEST, message_id_data, position_of
from labkit.system.model.proto.pulsar_pb2 import (
    BaseCommand,
    CommandAck,
    CommandSubscribe,
    Schema,
    ServerError,
)
from labkit.system.topic.names import full_name
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.broker.admin import done, topic_path
from tests.system.broker.client import send_all, send_batch
from tests.system.broker.raw import RawClient, raw_client
from tests.until import until_true

pytestmark = pytest.mark.asyncio(loop_scope="session")

PAYLOADS = [f"message {number}".encode() for number in range(6)]
KIND = BaseCommand


@pytest_asyncio.fixture(loop_scope="session")
async def raw(brokers: LocalCluster, topic: str) -> AsyncIterator[RawClient]:
    async with raw_client(brokers, topic) as client:
        yield client


async def delivered(raw: RawClient, count: int) -> list[tuple[int, int]]:
    """Receive `count` messages and return their positions."""
    raw.flow()
    return [position_of(message.message_id) for message in await raw.receive(count)]


@pytest.mark.promise("Consumers are closed before a seek succeeds")
async def test_a_seek_closes_consumers(client: pulsar.Client, raw: RawClient, topic: str) -> None:
    producer = client.create_producer(topic)
    sent = await asyncio.to_thread(send_all, producer, PAYLOADS)
    await raw.subscribe(topic, 1, CommandSubscribe.Shared)
    await raw.subscribe(topic, 2, CommandSubscribe.Shared)
    at = {"ledgerId": sent[4][0].ledger_id(), "entryId": sent[4][0].entry_id()}
    request_id = raw.ask(KIND.SEEK, consumer_id=1, message_id=at)
    closed = [await raw.expect(KIND.CLOSE_CONSUMER) for _ in range(2)]
    assert {each.consumer_id for each in closed} == {1, 2}
    assert {each.request_id for each in closed} == {NO_REQUEST}
    assert (await raw.expect(KIND.SUCCESS)).request_id == request_id
    await raw.subscribe(topic, 1, CommandSubscribe.Shared)
    # The broker resends the entry itself; the client has to skip the messages before the seek.
    assert await delivered(raw, 2) == [(at["ledgerId"], 4), (at["ledgerId"], 5)]


async def test_acknowledgements_get_responses_if_that_is_asked_for(
    client: pulsar.Client, raw: RawClient, topic: str
) -> None:
    await asyncio.to_thread(send_all, client.create_producer(topic), PAYLOADS)
    await raw.subscribe(topic, kind=CommandSubscribe.Shared)
    raw.flow()
    ids = [message.message_id for message in await raw.receive(6)]
    raw.ack(*ids[:2])
    assert not (await raw.ask_ack(ids[2])).HasField("error")
    response = await raw.ask_ack(ids[5], kind=CommandAck.Cumulative)
    assert (response.error, "cumulative" in response.message) == (ServerError.NotAllowedError, True)
    unknown = await raw.ask_ack(ids[5], consumer_id=7)
    assert unknown.error == ServerError.ConsumerNotFound
    raw.tell(KIND.REDELIVER_UNACKNOWLEDGED_MESSAGES, consumer_id=1)
    again = await raw.receive(3)
    assert [(m.message_id, m.redelivery_count) for m in again] == [(at, 1) for at in ids[3:]]


@pytest.mark.promise("An entry that was never stored cannot be acknowledged")
async def test_what_was_never_stored_cannot_be_acknowledged(
    client: pulsar.Client, raw: RawClient, topic: str
) -> None:
    producer = client.create_producer(topic)
    sent = await asyncio.to_thread(send_all, producer, PAYLOADS)
    await raw.subscribe(topic)
    ledger_id = sent[0][0].ledger_id()
    for kind, beyond in [
        (CommandAck.Individual, {"ledgerId": ledger_id, "entryId": 6}),
        (CommandAck.Cumulative, {"ledgerId": ledger_id, "entryId": 100}),
        (CommandAck.Cumulative, {"ledgerId": 2**62, "entryId": 0}),
    ]:
        await raw.ask_ack(beyond, kind=kind)
    await asyncio.to_thread(producer.send, b"one more")
    assert await delivered(raw, 7) == [(ledger_id, at) for at in range(7)]


@pytest.mark.promise("The last message id includes the batch index and the mark-delete position")
async def test_the_last_message_is_returned_with_the_mark_delete_position(
    client: pulsar.Client, raw: RawClient, topic: str
) -> None:
    await asyncio.to_thread(send_batch, client, topic, PAYLOADS)
    await raw.subscribe(topic)
    raw.flow()
    [message] = await raw.receive(1)
    raw.ack(message.message_id)
    raw.ask(KIND.GET_LAST_MESSAGE_ID, consumer_id=1)
    response = await raw.expect(KIND.GET_LAST_MESSAGE_ID_RESPONSE)
    last = position_of(message.message_id)
    assert (position_of(response.last_message_id), response.last_message_id.batch_index) == (
        last,
        5,
    )
    assert position_of(response.consumer_mark_delete_position) == last


async def test_a_subscription_may_begin_a_time_ago(
    client: pulsar.Client, raw: RawClient, topic: str
) -> None:
    await asyncio.to_thread(send_all, client.create_producer(topic), PAYLOADS)
    await raw.subscribe(topic, start_message_rollback_duration_sec=3600)
    assert len(await delivered(raw, 6)) == 6


async def test_a_consumer_that_is_closed_while_it_subscribes_is_not_there(
    brokers: LocalCluster, raw: RawClient, topic: str
) -> None:
    asked = {
        "topic": full_name(topic),
        "subscription": "sub",
        "subType": CommandSubscribe.Exclusive,
        "consumer_id": 1,
    }
    raw.ask(KIND.SUBSCRIBE, **asked)
    request_id = raw.ask(KIND.CLOSE_CONSUMER, consumer_id=1)
    # If the subscription was complete before the second request arrived, the first response
    # confirms it.
    while (await raw.expect(KIND.SUCCESS)).request_id != request_id:
        pass
    async with raw_client(brokers, topic) as other:

        async def is_free() -> bool:
            other.ask(KIND.SUBSCRIBE, **asked)
            kind, _ = await other.next()
            return bool(kind == KIND.SUCCESS)

        await until_true(is_free)


@pytest.mark.parametrize("kind", [KIND.SEEK, KIND.UNSUBSCRIBE, KIND.GET_LAST_MESSAGE_ID])
async def test_requests_need_a_consumer(raw: RawClient, kind: BaseCommand.Type) -> None:
    request_id = raw.ask(kind, consumer_id=9)
    error = await raw.expect(KIND.ERROR)
    assert (error.request_id, error.error) == (request_id, ServerError.ConsumerNotFound)


async def test_topics_of_a_namespace_are_listed_as_they_come(
    client: pulsar.Client, raw: RawClient, topic: str
) -> None:
    async def listed() -> list[str]:
        raw.ask(KIND.GET_TOPICS_OF_NAMESPACE, namespace="public/default")
        response = await raw.expect(KIND.GET_TOPICS_OF_NAMESPACE_RESPONSE)
        return [name for name in response.topics if topic in name]

    assert await listed() == []
    for name in (f"{topic}-b", f"{topic}-ä/a".replace("/", "%2F")):
        await asyncio.to_thread(client.create_producer, name)
    assert await listed() == [full_name(f"{topic}-b"), full_name(f"{topic}-ä%2Fa")]
    raw.ask(KIND.GET_TOPICS_OF_NAMESPACE, namespace="public/default", mode="NON_PERSISTENT")
    response = await raw.expect(KIND.GET_TOPICS_OF_NAMESPACE_RESPONSE)
    assert list(response.topics) == []
    raw.ask(KIND.GET_TOPICS_OF_NAMESPACE, namespace="nonsense")
    assert (await raw.expect(KIND.ERROR)).error == ServerError.InvalidTopicName


async def test_a_consumer_of_any_schema_registers_none(
    client: pulsar.Client, raw: RawClient, topic: str
) -> None:
    await asyncio.to_thread(client.create_producer, topic)
    for consumer_id, kind in enumerate((Schema.AutoConsume, Schema.Schemaless)):
        schema = Schema(name="any", type=kind, schema_data=b"")
        await raw.subscribe(topic, consumer_id, CommandSubscribe.Shared, schema=schema)
    raw.ask(KIND.GET_SCHEMA, topic=full_name(topic))
    response = await raw.expect(KIND.GET_SCHEMA_RESPONSE)
    assert response.error_code == ServerError.TopicNotFound


async def test_an_acknowledgement_in_a_transaction_is_rejected(
    client: pulsar.Client, raw: RawClient, topic: str
) -> None:
    await asyncio.to_thread(send_all, client.create_producer(topic), PAYLOADS[:1])
    await raw.subscribe(topic)
    [position] = await delivered(raw, 1)
    at = message_id_data(position)
    rejected = await raw.ask_ack(at, txnid_least_bits=1, txnid_most_bits=0)
    assert rejected.error == ServerError.NotAllowedError


async def test_a_consumer_that_must_not_make_its_topic_does_not(
    brokers: LocalCluster, raw: RawClient, topic: str
) -> None:
    asked = {
        "topic": full_name(topic),
        "subscription": "sub",
        "subType": CommandSubscribe.Shared,
        "force_topic_creation": False,
    }
    raw.ask(KIND.SUBSCRIBE, consumer_id=1, **asked)
    assert (await raw.expect(KIND.ERROR)).error == ServerError.TopicNotFound
    raw.ask(KIND.PARTITIONED_METADATA, topic=full_name(topic), metadata_auto_creation_enabled=False)
    response = await raw.expect(KIND.PARTITIONED_METADATA_RESPONSE)
    assert response.error == ServerError.TopicNotFound
    await asyncio.to_thread(done, brokers, "PUT", topic_path(topic))
    raw.ask(KIND.SUBSCRIBE, consumer_id=1, **asked)
    await raw.expect(KIND.SUCCESS)
