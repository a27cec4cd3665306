"""Tests for connections that `connections.txt` cannot show: versions and damaged frames."""

import asyncio
import struct

import pytest

from labkit.system.broker.errors import BrokerError
from labkit.system.broker.protocol.authentication import Identity
from labkit.system.model import crc32c
from labkit.system.model.proto.pulsar_pb2 import (
    BaseCommand,
    ServerError,
)
from tests.system.broker.held import (
    TOPIC,
    FrameClient,
    HeldBroker,
    frame,
    held_broker,
    message,
    sending,
)
from tests.system.broker.in_memory import settle
from tests.until import until

PING = BaseCommand.PING
RECEIPT = BaseCommand.SEND_RECEIPT


async def test_broker_speaks_the_older_of_two_protocol_versions(broker: HeldBroker) -> None:
    for offered, spoken in ((12, 12), (99, 20)):
        client = FrameClient(broker)
        client.say(BaseCommand.CONNECT, client_version="t", protocol_version=offered)
        connected = await client.response(BaseCommand.CONNECTED)
        assert connected.protocol_version == spoken
        assert connected.server_version.startswith("labkit")
        assert connected.max_message_size == broker.config.max_message_size
        flags = [field.name for field, _ in connected.feature_flags.ListFields()]
        assert flags == ["supports_get_partitioned_metadata_without_auto_creation"]


@pytest.mark.parametrize("body", [b"", b"\0", b"\0\0\0\2\xff\xff", b"\0\0\0\0"])
async def test_invalid_bytes_end_the_connection(client: FrameClient, body: bytes) -> None:
    client.give(body)
    assert client.closed


async def test_client_that_is_rejected_learns_why_and_gets_nothing_else() -> None:
    def reject(method: str, data: bytes) -> Identity:
        raise BrokerError(ServerError.AuthenticationError, f"{method} {data.decode()} is nobody")

    broker = held_broker(authenticate=reject)
    client = FrameClient(broker)
    client.say(BaseCommand.CONNECT, client_version="t", auth_method_name="token", auth_data=b"abc")
    await client.response(BaseCommand.CONNECTED)
    client.ask(BaseCommand.PARTITIONED_METADATA, topic=TOPIC)
    responses = [await client.response(BaseCommand.PARTITIONED_METADATA_RESPONSE)]
    client.ask(BaseCommand.LOOKUP, topic=TOPIC, authoritative=True)
    responses.append(await client.response(BaseCommand.LOOKUP_RESPONSE))
    for response in responses:
        assert response.error == ServerError.AuthenticationError
        assert response.message == "token abc is nobody"
    assert broker.ownership.owned == []
    client.register("mine")
    assert client.closed
    assert not client.responses


@pytest.mark.parametrize("waits", [False, True])
async def test_an_uncaught_exception_of_a_handler_disconnects_the_client(
    broker: HeldBroker, client: FrameClient, waits: bool
) -> None:
    error = AssertionError("a bug")
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: reported.append(context.get("exception"))
    )

    def fail(command: BaseCommand, message: bytes) -> None:
        raise error

    [connection] = broker.connections
    connection.register_handlers({BaseCommand.FLOW: fail})
    flow = frame(BaseCommand.FLOW, consumer_id=1, messagePermits=1)
    if waits:
        client.give(*[frame(PING)] * 300, flow, flow)
        assert client.paused
        await until(lambda: reported)
    else:
        with pytest.raises(AssertionError, match="a bug"):
            client.give(flow)
    await settle()
    assert reported == ([error] if waits else [])
    assert client.closed
    assert broker.connections == {}


@pytest.mark.promise("A damaged message is not stored")
async def test_damaged_message_closes_its_producer_alone(
    broker: HeldBroker, client: FrameClient
) -> None:
    other = await FrameClient(broker).connect()
    await client.produce("first")
    await other.produce("second")
    damaged = message(0)[:-1] + b"y"
    client.give(sending(0, damaged), sending(1))
    rejected = await client.response(BaseCommand.SEND_ERROR)
    assert (rejected.sequence_id, rejected.error) == (0, ServerError.ChecksumError)
    await client.response(BaseCommand.CLOSE_PRODUCER)
    other.send_messages(range(1))
    await until(lambda: broker.ledger().entries == [message(0)])
    await client.produce("first")


@pytest.mark.parametrize(
    ("metadata", "fields"),
    [(b"\xff", {"is_chunk": True}), (b"\x3a\xff", {})],
    ids=["chunk", "with a tag of replicate_to"],
)
async def test_message_whose_metadata_cannot_be_decoded_closes_its_producer_alone(
    broker: HeldBroker, client: FrameClient, metadata: bytes, fields: dict[str, bool]
) -> None:
    await client.produce("first")
    rest = struct.pack(">I", len(metadata)) + metadata
    undecodable = struct.pack(">HI", 0x0E01, crc32c.value(rest)) + rest
    client.give(frame(BaseCommand.SEND, undecodable, producer_id=1, sequence_id=0, **fields))
    rejected = await client.response(BaseCommand.SEND_ERROR)
    assert (rejected.sequence_id, rejected.error) == (0, ServerError.ChecksumError)
    await client.response(BaseCommand.CLOSE_PRODUCER)
    assert not client.closed
    await client.produce("first")
    client.send_messages(range(1))
    await until(lambda: broker.ledger().entries == [message(0)])


@pytest.mark.promise(
    "An unload returns when the topic is closed, even if another request started the unload"
)
async def test_every_unload_waits_for_its_end(broker: HeldBroker, client: FrameClient) -> None:
    await client.produce()
    ledger, name = await client.send_pending(broker, 2), broker.topics[0].name
    [bundle] = broker.ownership.owned
    unloads = [broker.unload(name), broker.unload(name), broker.unload_bundle(bundle)]
    tasks = [asyncio.create_task(unload) for unload in unloads]
    await settle()
    assert not any(task.done() for task in tasks)
    assert broker.ownership.owned == [bundle]
    assert len(broker.topics) == 1
    tasks[0].cancel()
    await settle()
    ledger.store(2)
    await asyncio.gather(*tasks[1:])
    receipts = [command.send_receipt for command in client.responses if command.type == RECEIPT]
    assert [receipt.sequence_id for receipt in receipts] == [0, 1]
    assert ledger.is_closed
    assert (broker.topics, broker.ownership.owned) == ([], [])
