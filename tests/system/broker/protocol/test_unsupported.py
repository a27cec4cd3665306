"""Test that an unsupported request gets an error response and the connection stays usable."""

from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from labkit.system.model import crc32c
from labkit.system.model.proto.pulsar_pb2 import (
    BaseCommand,
    CommandNotServed,
    CommandSubscribe,
    ServerError,
)
from labkit.system.topic.messages import decode_metadata
from tests.system.broker.held import TOPIC, FrameClient, HeldBroker, frame, message, sending
from tests.until import until

COORDINATORS = "persistent://pulsar/system/transaction_coordinator_assign"
NOT_SERVED = [
    field
    for field in BaseCommand.DESCRIPTOR.fields
    if field.message_type is CommandNotServed.DESCRIPTOR
]
METADATA, LOOKUP = BaseCommand.PARTITIONED_METADATA, BaseCommand.LOOKUP
METADATA_RESPONSE = BaseCommand.PARTITIONED_METADATA_RESPONSE
LATER = b"\0\0\0\x07" + b"\x08\x64" + b"\xa2\x06\x02" + b"\x08\x4d"
"""A request with id 77 that only a later version of Pulsar knows."""


def replicated_message(clusters: list[str]) -> bytes:
    """Return a message that its client wants replicated to these clusters."""
    metadata = decode_metadata(message())
    metadata.replicate_to.extend(clusters)
    encoded = metadata.SerializeToString()
    rest = len(encoded).to_bytes(4, "big") + encoded + b"x"
    return (0x0E01).to_bytes(2, "big") + crc32c.value(rest).to_bytes(4, "big") + rest


@pytest.mark.promise("An unsupported request is answered, and the connection stays open")
@pytest.mark.parametrize("field", NOT_SERVED, ids=lambda field: field.name)
async def test_a_request_that_is_not_served_gets_a_response_and_the_rest_goes_on(
    client: FrameClient, field: FieldDescriptor
) -> None:
    await client.produce()
    kind: Any = field.number
    client.say(kind, request_id=77)
    if field.number == BaseCommand.CONSUMER_STATS:
        response = await client.response(BaseCommand.CONSUMER_STATS_RESPONSE)
        code, text = response.error_code, response.error_message
    else:
        response = await client.response(BaseCommand.ERROR)
        code, text = response.error, response.message
    assert (response.request_id, code) == (77, ServerError.NotAllowedError)
    assert "not supported" in text
    await client.produce(producer_id=2)


async def test_a_later_pulsars_request_gets_a_response(
    broker: HeldBroker, client: FrameClient
) -> None:
    client.give(LATER)
    rejected = await client.response(BaseCommand.ERROR)
    assert (rejected.request_id, rejected.error) == (77, ServerError.UnsupportedVersionError)
    client.give(b"\0\0\0\x05" + b"\x08\x64" + b"\xa2\x06\x00")
    await client.produce()
    unconnected = FrameClient(broker)
    unconnected.give(LATER)
    assert unconnected.closed


async def test_transactions_are_rejected(broker: HeldBroker, client: FrameClient) -> None:
    client.ask(METADATA, topic=COORDINATORS)
    response = await client.response(METADATA_RESPONSE)
    assert response.error == ServerError.NotAllowedError
    assert "transactions are not supported" in response.message
    await client.produce()
    of_transaction = {"txnid_least_bits": 1, "txnid_most_bits": 0}
    client.give(frame(BaseCommand.SEND, message(5), producer_id=1, sequence_id=5, **of_transaction))
    rejected = await client.response(BaseCommand.SEND_ERROR)
    assert (rejected.sequence_id, rejected.error) == (5, ServerError.NotAllowedError)
    assert broker.ledger().entries == []


@pytest.mark.promise("Unsupported and oversized requests are rejected by name")
@pytest.mark.parametrize(
    ("topic", "code"),
    [
        ("a/b", ServerError.InvalidTopicName),
        ("persistent://only/two", ServerError.InvalidTopicName),
        ("persistent://../default/x", ServerError.InvalidTopicName),
        ("persistent://t/./x", ServerError.InvalidTopicName),
        ("persistent://t/n/..", ServerError.InvalidTopicName),
        ("x" * 1_000_000, ServerError.InvalidTopicName),
        ("non-persistent://a/b/c", ServerError.NotAllowedError),
    ],
)
async def test_a_name_that_cannot_be_stored_is_rejected_in_a_short_response(
    broker: HeldBroker, client: FrameClient, topic: str, code: ServerError
) -> None:
    lines: list[str] = []
    broker.log = lines.append
    client.ask(METADATA, topic=topic)
    found = await client.response(METADATA_RESPONSE)
    client.ask(LOOKUP, topic=topic)
    where = await client.response(BaseCommand.LOOKUP_RESPONSE)
    client.ask(BaseCommand.PRODUCER, topic=topic, producer_id=1)
    rejected = await client.response(BaseCommand.ERROR)
    client.ask(BaseCommand.GET_SCHEMA, topic=topic)
    schema = await client.response(BaseCommand.GET_SCHEMA_RESPONSE)
    codes = [found.error, where.error, rejected.error, schema.error_code]
    assert codes == [code, code, code, ServerError.InvalidTopicName]
    texts = found.message, where.message, rejected.message, schema.error_message
    assert max(map(len, texts)) <= 1000
    assert [line.partition(": ")[0] for line in lines] == ["rejected a request from 'test'"] * 4


SUBSCRIBING: dict[str, Any] = {
    **{"topic": TOPIC, "subscription": "sub", "consumer_id": 1},
    "subType": CommandSubscribe.Exclusive,
}


NAMESPACES = ("../..", "public/..", "public", "a/b/c", "t/n" * 1000)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        *((BaseCommand.SUBSCRIBE, {"subscription": x}) for x in ("", " ", "..", "x" * 1_000_000)),
        *((BaseCommand.GET_TOPICS_OF_NAMESPACE, {"namespace": name}) for name in NAMESPACES),
    ],
)
async def test_a_request_with_an_invalid_name_is_rejected(
    client: FrameClient, kind: "BaseCommand.Type", fields: dict[str, Any]
) -> None:
    if kind == BaseCommand.SUBSCRIBE:
        fields = {**SUBSCRIBING, **fields}
    request_id = client.ask(kind, **fields)
    rejected = await client.response(BaseCommand.ERROR)
    assert (rejected.request_id, rejected.error) == (request_id, ServerError.InvalidTopicName)


async def test_a_replicated_subscription_is_rejected(client: FrameClient) -> None:
    client.ask(BaseCommand.SUBSCRIBE, **SUBSCRIBING, replicate_subscription_state=True)
    rejected = await client.response(BaseCommand.ERROR)
    assert rejected.error == ServerError.NotAllowedError
    assert "replicateSubscriptionState" in rejected.message


async def test_a_listener_that_no_broker_has_is_named(client: FrameClient) -> None:
    client.ask(LOOKUP, topic=TOPIC, advertised_listener_name="outside")
    response = await client.response(BaseCommand.LOOKUP_RESPONSE)
    assert response.error == ServerError.NotAllowedError
    assert "'outside'" in response.message


@pytest.mark.parametrize("clusters", [["far"], ["standalone", "far"]])
async def test_a_message_for_other_clusters_is_rejected_after_the_receipts_of_the_earlier_ones(
    broker: HeldBroker, client: FrameClient, clusters: list[str]
) -> None:
    await broker.start()
    await client.produce()
    client.give(sending(0), sending(1, replicated_message(clusters)), sending(2))
    await until(lambda: len(broker.ledger().entries) == 1)
    broker.ledger().store(1)
    assert (await client.response(BaseCommand.SEND_RECEIPT)).sequence_id == 0
    rejection = await client.response(BaseCommand.SEND_ERROR)
    assert (rejection.sequence_id, rejection.error) == (1, ServerError.NotAllowedError)
    assert "replicationClusters contains far" in rejection.message
    await client.response(BaseCommand.CLOSE_PRODUCER)
    assert len(broker.ledger().entries) == 1


async def test_cluster_names_must_be_utf8(broker: HeldBroker, client: FrameClient) -> None:
    await broker.start()
    await client.produce()
    rest = replicated_message(["?"])[6:].replace(b"\x01?", b"\x01\xff")
    data = (0x0E01).to_bytes(2, "big") + crc32c.value(rest).to_bytes(4, "big") + rest
    client.give(sending(0, data))
    rejection = await client.response(BaseCommand.SEND_ERROR)
    assert (rejection.sequence_id, rejection.error) == (0, ServerError.NotAllowedError)
    await client.response(BaseCommand.CLOSE_PRODUCER)
    assert not client.closed


@pytest.mark.parametrize("clusters", [[], ["__local__"], ["standalone"]])
async def test_a_message_for_this_cluster_is_stored(
    broker: HeldBroker, client: FrameClient, clusters: list[str]
) -> None:
    await broker.start()
    await client.produce()
    client.give(sending(0, replicated_message(clusters)))
    await until(lambda: len(broker.ledger().entries) == 1)


@pytest.mark.parametrize("topic", ["persistent://public/none/x", "persistent://none/ns/x"])
async def test_a_topic_in_an_unknown_namespace_is_not_found(
    broker: HeldBroker, client: FrameClient, topic: str
) -> None:
    client.ask(METADATA, topic=topic, metadata_auto_creation_enabled=True)
    response = await client.response(METADATA_RESPONSE)
    assert response.error == ServerError.TopicNotFound
    client.ask(LOOKUP, topic=topic)
    response = await client.response(BaseCommand.LOOKUP_RESPONSE)
    assert response.error == ServerError.TopicNotFound
    assert "does not exist" in response.message
    assert broker.ownership.owned == []
