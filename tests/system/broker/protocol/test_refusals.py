"""What is not served is answered, and the client's connection goes on."""

from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from labkit.system.broker.protocol.frames import encode_frame
from labkit.system.model import crc32c
from labkit.system.model.proto.pulsar_pb2 import (
    BaseCommand,
    CommandGetSchema,
    CommandGetTopicsOfNamespace,
    CommandLookupTopic,
    CommandNotServed,
    CommandPartitionedTopicMetadata,
    CommandProducer,
    CommandSend,
    CommandSubscribe,
    ServerError,
)
from labkit.system.topic.messages import decode_metadata
from tests.system.broker.held import TOPIC, FrameClient, HeldBroker, held_broker, message, sending
from tests.until import until

COORDINATORS = "persistent://pulsar/system/transaction_coordinator_assign"
NOT_SERVED = [
    field
    for field in BaseCommand.DESCRIPTOR.fields
    if field.message_type is CommandNotServed.DESCRIPTOR
]


def replicated_message(clusters: list[str]) -> bytes:
    """A message as a client sends it that wants it in these clusters."""
    metadata = decode_metadata(message())
    metadata.replicate_to.extend(clusters)
    encoded = metadata.SerializeToString()
    rest = len(encoded).to_bytes(4, "big") + encoded + b"x"
    return (0x0E01).to_bytes(2, "big") + crc32c.value(rest).to_bytes(4, "big") + rest


@pytest.fixture
async def broker() -> HeldBroker:
    return held_broker()


@pytest.fixture
async def client(broker: HeldBroker) -> FrameClient:
    return await FrameClient(broker).connect()


@pytest.mark.parametrize("field", NOT_SERVED, ids=lambda field: field.name)
async def test_a_request_that_is_not_served_is_answered_and_the_rest_goes_on(
    client: FrameClient, field: FieldDescriptor
) -> None:
    await client.produce()
    request: dict[str, Any] = {field.name: CommandNotServed(request_id=77)}
    command = BaseCommand(type=BaseCommand.Type.Name(field.number), **request)
    client.give(encode_frame(command))
    if field.number == BaseCommand.CONSUMER_STATS:
        answer = await client.answer(BaseCommand.CONSUMER_STATS_RESPONSE)
        code, text = answer.error_code, answer.error_message
    else:
        answer = await client.answer(BaseCommand.ERROR)
        code, text = answer.error, answer.message
    assert (answer.request_id, code) == (77, ServerError.NotAllowedError)
    assert "here" in text
    await client.produce(producer_id=2)


async def test_a_request_of_a_later_pulsar_is_answered_and_the_rest_goes_on(
    client: FrameClient,
) -> None:
    later = b"\x08\x64" + b"\xa2\x06\x02" + b"\x08\x4d"
    client.give(len(later).to_bytes(4, "big") + later)
    refused = await client.answer(BaseCommand.ERROR)
    assert (refused.request_id, refused.error) == (77, ServerError.UnsupportedVersionError)
    told = b"\x08\x64" + b"\xa2\x06\x00"
    client.give(len(told).to_bytes(4, "big") + told)
    await client.produce()


async def test_what_a_later_pulsar_says_before_it_connects_ends_the_connection(
    broker: HeldBroker,
) -> None:
    client = FrameClient(broker)
    later = b"\x08\x64" + b"\xa2\x06\x02" + b"\x08\x4d"
    client.give(len(later).to_bytes(4, "big") + later)
    assert client.closed


async def test_a_client_that_looks_for_transactions_learns_that_there_are_none(
    client: FrameClient,
) -> None:
    question = CommandPartitionedTopicMetadata(topic=COORDINATORS, request_id=1)
    client.say(BaseCommand.PARTITIONED_METADATA, partitionMetadata=question)
    answer = await client.answer(BaseCommand.PARTITIONED_METADATA_RESPONSE)
    assert answer.error == ServerError.NotAllowedError
    assert "transactions are not served here" in answer.message


async def test_a_message_and_an_acknowledgement_of_a_transaction_are_refused(
    broker: HeldBroker, client: FrameClient
) -> None:
    await client.produce()
    send = CommandSend(producer_id=1, sequence_id=5, txnid_least_bits=1, txnid_most_bits=0)
    client.give(encode_frame(BaseCommand(type=BaseCommand.SEND, send=send), message(5)))
    refused = await client.answer(BaseCommand.SEND_ERROR)
    assert (refused.sequence_id, refused.error) == (5, ServerError.NotAllowedError)
    assert broker.ledger().entries == []


@pytest.mark.parametrize(
    "topic",
    ["persistent://../default/x", "persistent://t/./x", "persistent://t/n/..", "x" * 1_000_000],
)
async def test_a_name_that_cannot_be_stored_is_refused_in_a_short_answer(
    broker: HeldBroker, client: FrameClient, topic: str
) -> None:
    lines: list[str] = []
    broker.log = lines.append
    question = CommandPartitionedTopicMetadata(topic=topic, request_id=1)
    client.say(BaseCommand.PARTITIONED_METADATA, partitionMetadata=question)
    found = await client.answer(BaseCommand.PARTITIONED_METADATA_RESPONSE)
    client.say(BaseCommand.LOOKUP, lookupTopic=CommandLookupTopic(topic=topic, request_id=2))
    where = await client.answer(BaseCommand.LOOKUP_RESPONSE)
    producer = CommandProducer(topic=topic, producer_id=1, request_id=3)
    client.say(BaseCommand.PRODUCER, producer=producer)
    refused = await client.answer(BaseCommand.ERROR)
    client.say(BaseCommand.GET_SCHEMA, getSchema=CommandGetSchema(topic=topic, request_id=4))
    schema = await client.answer(BaseCommand.GET_SCHEMA_RESPONSE)
    codes = [found.error, where.error, refused.error, schema.error_code]
    assert codes == [ServerError.InvalidTopicName] * 4
    texts = found.message, where.message, refused.message, schema.error_message
    assert max(map(len, texts)) <= 1000
    assert [line.partition(" is refused: ")[0] for line in lines] == ["'test'"] * 4


@pytest.mark.parametrize("name", ["", " ", "..", "x" * 1_000_000])
async def test_a_subscription_that_cannot_be_stored_is_refused(
    client: FrameClient, name: str
) -> None:
    wanted = CommandSubscribe(
        topic=TOPIC,
        subscription=name,
        subType=CommandSubscribe.Exclusive,
        consumer_id=1,
        request_id=7,
    )
    client.say(BaseCommand.SUBSCRIBE, subscribe=wanted)
    refused = await client.answer(BaseCommand.ERROR)
    assert (refused.request_id, refused.error) == (7, ServerError.InvalidTopicName)


@pytest.mark.parametrize("namespace", ["../..", "public/..", "public", "a/b/c", "t/n" * 1000])
async def test_an_invalid_namespace_is_refused(client: FrameClient, namespace: str) -> None:
    wanted = CommandGetTopicsOfNamespace(namespace=namespace, request_id=7)
    client.say(BaseCommand.GET_TOPICS_OF_NAMESPACE, getTopicsOfNamespace=wanted)
    refused = await client.answer(BaseCommand.ERROR)
    assert (refused.request_id, refused.error) == (7, ServerError.InvalidTopicName)


async def test_a_listener_that_no_broker_has_is_named(client: FrameClient) -> None:
    lookup = CommandLookupTopic(topic=TOPIC, request_id=1, advertised_listener_name="outside")
    client.say(BaseCommand.LOOKUP, lookupTopic=lookup)
    answer = await client.answer(BaseCommand.LOOKUP_RESPONSE)
    assert answer.error == ServerError.NotAllowedError
    assert "'outside'" in answer.message


@pytest.mark.parametrize("clusters", [["far"], ["standalone", "far"]])
async def test_a_message_for_other_clusters_is_refused_by_name(
    broker: HeldBroker, client: FrameClient, clusters: list[str]
) -> None:
    await broker.start()
    await client.produce()
    client.give(sending(0, replicated_message(clusters)))
    refusal = await client.answer(BaseCommand.SEND_ERROR)
    assert refusal.error == ServerError.NotAllowedError
    assert "replicationClusters names far" in refusal.message
    assert broker.ledger().entries == []


async def test_a_message_is_refused_after_the_receipts_of_the_earlier_ones(
    broker: HeldBroker, client: FrameClient
) -> None:
    await broker.start()
    await client.produce()
    client.give(sending(0, message()))
    client.give(sending(1, replicated_message(["far"])))
    client.give(sending(2, message()))
    await until(lambda: len(broker.ledger().entries) == 1)
    broker.ledger().store(1)
    assert (await client.answer(BaseCommand.SEND_RECEIPT)).sequence_id == 0
    assert (await client.answer(BaseCommand.SEND_ERROR)).sequence_id == 1
    await client.answer(BaseCommand.CLOSE_PRODUCER)
    assert len(broker.ledger().entries) == 1


@pytest.mark.parametrize("clusters", [[], ["__local__"], ["standalone"]])
async def test_a_message_for_this_cluster_is_stored(
    broker: HeldBroker, client: FrameClient, clusters: list[str]
) -> None:
    await broker.start()
    await client.produce()
    client.give(sending(0, replicated_message(clusters)))
    await until(lambda: len(broker.ledger().entries) == 1)


async def test_a_subscription_whose_state_is_to_be_replicated_is_refused_by_name(
    client: FrameClient,
) -> None:
    subscribe = CommandSubscribe(
        topic=TOPIC,
        subscription="sub",
        subType=CommandSubscribe.Shared,
        consumer_id=1,
        request_id=77,
        replicate_subscription_state=True,
    )
    client.say(BaseCommand.SUBSCRIBE, subscribe=subscribe)
    answer = await client.answer(BaseCommand.ERROR)
    assert (answer.request_id, answer.error) == (77, ServerError.NotAllowedError)
    assert "replicateSubscriptionState" in answer.message


@pytest.mark.parametrize("topic", ["persistent://public/none/x", "persistent://none/ns/x"])
async def test_a_topic_in_an_unknown_namespace_is_not_found(
    broker: HeldBroker, client: FrameClient, topic: str
) -> None:
    metadata = CommandPartitionedTopicMetadata(
        topic=topic, request_id=1, metadata_auto_creation_enabled=True
    )
    client.say(BaseCommand.PARTITIONED_METADATA, partitionMetadata=metadata)
    answer = await client.answer(BaseCommand.PARTITIONED_METADATA_RESPONSE)
    assert answer.error == ServerError.TopicNotFound
    client.say(BaseCommand.LOOKUP, lookupTopic=CommandLookupTopic(topic=topic, request_id=2))
    answer = await client.answer(BaseCommand.LOOKUP_RESPONSE)
    assert answer.error == ServerError.TopicNotFound
    assert "does not exist" in answer.message
    assert broker.ownership.owned == []
