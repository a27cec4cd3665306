"""Test how a broker handles each frame on a client's connection."""

import asyncio
import struct

import pytest

from labkit.system.broker.errors import BrokerError
from labkit.system.broker.protocol.authentication import Identity
from labkit.system.broker.protocol.frames import NO_REQUEST
from labkit.system.model import crc32c
from labkit.system.model.errors import BKNotEnoughBookiesException
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


def receipts(client: FrameClient) -> list[tuple[int, int, int]]:
    return [
        (
            command.send_receipt.sequence_id,
            command.send_receipt.message_id.ledgerId,
            command.send_receipt.message_id.entryId,
        )
        for command in client.answers
        if command.type == RECEIPT
    ]


async def test_broker_speaks_the_older_of_two_protocol_versions(broker: HeldBroker) -> None:
    for offered, spoken in ((12, 12), (99, 20)):
        client = FrameClient(broker)
        client.say(BaseCommand.CONNECT, client_version="t", protocol_version=offered)
        connected = await client.answer(BaseCommand.CONNECTED)
        assert connected.protocol_version == spoken
        assert connected.server_version.startswith("labkit")
        assert connected.max_message_size == broker.config.max_message_size
        flags = [field.name for field, _ in connected.feature_flags.ListFields()]
        assert flags == ["supports_get_partitioned_metadata_without_auto_creation"]


@pytest.mark.parametrize("body", [b"", b"\0", b"\0\0\0\2\xff\xff", b"\0\0\0\0"])
async def test_bytes_that_are_not_a_command_end_the_connection(
    client: FrameClient, body: bytes
) -> None:
    client.give(body)
    assert client.closed


async def test_client_that_is_refused_learns_why_and_gets_nothing_else() -> None:
    def refuse(method: str, data: bytes) -> Identity:
        raise BrokerError(ServerError.AuthenticationError, f"{method} {data.decode()} is nobody")

    broker = held_broker(authenticate=refuse)
    client = FrameClient(broker)
    client.say(BaseCommand.CONNECT, client_version="t", auth_method_name="token", auth_data=b"abc")
    await client.answer(BaseCommand.CONNECTED)
    client.ask(BaseCommand.PARTITIONED_METADATA, topic=TOPIC)
    answers = [await client.answer(BaseCommand.PARTITIONED_METADATA_RESPONSE)]
    client.ask(BaseCommand.LOOKUP, topic=TOPIC, authoritative=True)
    answers.append(await client.answer(BaseCommand.LOOKUP_RESPONSE))
    for answer in answers:
        assert answer.error == ServerError.AuthenticationError
        assert answer.message == "token abc is nobody"
    assert broker.ownership.owned == []
    client.register("mine")
    assert client.closed
    assert not client.answers


async def test_silent_client_is_asked_and_then_given_up(
    broker: HeldBroker, client: FrameClient
) -> None:
    await client.produce("mine")
    [connection] = broker.connections
    connection.keep_alive()
    connection.keep_alive()
    await client.answer(PING)
    client.say(BaseCommand.PONG)
    connection.keep_alive()
    connection.keep_alive()
    await client.answer(PING)
    assert not client.closed
    connection.keep_alive()
    assert client.closed
    assert broker.connections == {}
    other = await FrameClient(broker).connect()
    await other.produce("mine")


async def test_client_that_pings_but_never_connects_is_disconnected(broker: HeldBroker) -> None:
    client = FrameClient(broker)
    [connection] = broker.connections
    for _ in range(2):
        client.say(PING)
        connection.keep_alive()
    assert not client.closed
    client.say(PING)
    connection.keep_alive()
    assert client.closed


async def test_client_that_pings_but_was_refused_is_disconnected() -> None:
    def refuse(method: str, data: bytes) -> Identity:
        raise BrokerError(ServerError.AuthenticationError, "nobody")

    broker = held_broker(authenticate=refuse)
    client = await FrameClient(broker).connect()
    [connection] = broker.connections
    for _ in range(2):
        client.say(PING)
        connection.keep_alive()
    assert not client.closed
    client.say(PING)
    connection.keep_alive()
    assert client.closed


async def test_client_that_connects_late_stays_connected(broker: HeldBroker) -> None:
    client = FrameClient(broker)
    [connection] = broker.connections
    for _ in range(2):
        connection.keep_alive()
    await client.connect()
    connection.keep_alive()
    assert not client.closed


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


@pytest.mark.promise("Receipts are sent once entries are stored, in the order of the sends")
async def test_receipt_follows_when_the_entry_is_stored_and_in_the_order_of_sends(
    broker: HeldBroker, client: FrameClient
) -> None:
    await client.produce()
    await client.send_pending(broker, 5)
    assert receipts(client) == []
    broker.ledger().store(2)
    await settle()
    assert receipts(client) == [(0, 7, 0), (1, 7, 1)]
    broker.ledger().store(3)
    await settle()
    assert receipts(client) == [(number, 7, number) for number in range(5)]
    assert broker.ledger().entries == [message(number) for number in range(5)]


@pytest.mark.promise(
    "A failed add closes every producer of the topic, and nothing sent after it is stored"
)
async def test_failed_add_closes_every_producer_and_stores_nothing_after_it(
    broker: HeldBroker, client: FrameClient
) -> None:
    other = await FrameClient(broker).connect()
    await client.produce("first")
    await other.produce("second")
    ledger = await client.send_pending(broker, 3)
    ledger.store(1)
    ledger.fail(BKNotEnoughBookiesException("too few"))
    client.send_messages(range(3, 6))
    for each in (client, other):
        closed = await each.answer(BaseCommand.CLOSE_PRODUCER)
        assert (closed.producer_id, closed.request_id) == (1, NO_REQUEST)
    client.send_messages(range(6, 9))
    other.send_messages(range(9))
    await settle()
    assert len(ledger.entries) == 3
    assert ledger.is_closed
    assert not client.closed
    await client.produce("first")
    assert broker.ledger() is not ledger
    client.send_messages(range(1, 9))
    await until(lambda: len(broker.ledger().pending) == 8)


@pytest.mark.promise("A damaged message is not stored")
async def test_damaged_message_closes_its_producer_alone(
    broker: HeldBroker, client: FrameClient
) -> None:
    other = await FrameClient(broker).connect()
    await client.produce("first")
    await other.produce("second")
    damaged = message(0)[:-1] + b"y"
    client.give(sending(0, damaged), sending(1))
    refused = await client.answer(BaseCommand.SEND_ERROR)
    assert (refused.sequence_id, refused.error) == (0, ServerError.ChecksumError)
    await client.answer(BaseCommand.CLOSE_PRODUCER)
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
    refused = await client.answer(BaseCommand.SEND_ERROR)
    assert (refused.sequence_id, refused.error) == (0, ServerError.ChecksumError)
    await client.answer(BaseCommand.CLOSE_PRODUCER)
    assert not client.closed
    await client.produce("first")
    client.send_messages(range(1))
    await until(lambda: broker.ledger().entries == [message(0)])


@pytest.mark.promise(
    "A client that sends too fast is slowed down; a silent client is probed and then disconnected"
)
async def test_client_that_sends_faster_than_is_stored_is_not_read_for_a_while(
    broker: HeldBroker, client: FrameClient
) -> None:
    await client.produce()
    client.send_messages(range(999))
    await until(lambda: not client.paused)
    client.send_messages(range(999, 1200))
    assert client.paused
    await until(lambda: len(broker.ledger().pending) == 1200)
    broker.ledger().store(600)
    await settle()
    assert client.paused
    broker.ledger().store(200)
    await settle()
    assert not client.paused


async def test_connection_of_a_closed_producer_is_read_again(
    broker: HeldBroker, client: FrameClient
) -> None:
    await client.produce()
    ledger = await client.send_pending(broker, 1000)
    assert client.paused
    ledger.fail(BKNotEnoughBookiesException("too few"))
    await client.answer(BaseCommand.CLOSE_PRODUCER)
    assert not client.paused


async def test_producer_is_closed_when_all_it_sent_has_its_receipt(
    broker: HeldBroker, client: FrameClient
) -> None:
    await client.produce("mine")
    client.send_messages(range(2))
    client.close_producer()
    await until(lambda: len(broker.ledger().pending) == 2)
    await settle()
    assert not any(command.type == BaseCommand.SUCCESS for command in client.answers)
    broker.ledger().store(2)
    await client.answer(RECEIPT)
    await client.answer(BaseCommand.SUCCESS)
    await client.produce("mine", producer_id=2)


async def test_producer_that_is_closed_before_it_was_registered_holds_no_name(
    broker: HeldBroker, client: FrameClient
) -> None:
    await client.produce("other")
    client.close_producer()
    client.register("mine")
    client.close_producer()
    await client.answer(BaseCommand.SUCCESS)
    await client.answer(BaseCommand.SUCCESS)
    await settle()
    await (await FrameClient(broker).connect()).produce("mine")


async def test_name_of_a_client_that_is_gone_is_free(
    broker: HeldBroker, client: FrameClient
) -> None:
    await client.produce("mine")
    client.send_messages(range(1))
    client.close()
    other = await FrameClient(broker).connect()
    await other.produce("mine")


async def test_client_with_a_name_that_another_requests_must_show_that_it_is_alive(
    broker: HeldBroker, client: FrameClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labkit.system.broker.protocol.connection._PROBE_TIMEOUT_S", 0.01)
    await client.produce("mine")
    other = await FrameClient(broker).connect()
    other.register("mine")
    busy = await other.answer(BaseCommand.ERROR)
    assert busy.error == ServerError.ProducerBusy
    await client.answer(PING)
    await until(lambda: client.closed)
    await other.produce("mine")


async def test_client_that_answers_keeps_its_name(
    broker: HeldBroker, client: FrameClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labkit.system.broker.protocol.connection._PROBE_TIMEOUT_S", 1000)
    await client.produce("mine")
    [connection] = broker.connections
    other = await FrameClient(broker).connect()
    other.register("mine")
    await client.answer(PING)
    client.say(BaseCommand.PONG)
    connection.end_probe()
    assert not client.closed


async def test_client_of_a_topic_served_elsewhere_must_look_it_up(
    broker: HeldBroker, client: FrameClient
) -> None:
    client.register("mine")
    error = await client.answer(BaseCommand.ERROR)
    assert error.error == ServerError.ServiceNotReady


async def test_topic_ends_when_another_owner_has_fenced_it(
    broker: HeldBroker, client: FrameClient
) -> None:
    await client.produce()
    ledger = broker.ledger()
    ledger.tell_ended[0](BKNotEnoughBookiesException("fenced"))
    await client.answer(BaseCommand.CLOSE_PRODUCER)
    assert broker.topics == []


async def test_topics_of_a_lost_session_end_at_once(
    broker: HeldBroker, client: FrameClient
) -> None:
    await client.produce("mine")
    ledger = await client.send_pending(broker, 2)
    broker.lose_session()
    await client.answer(BaseCommand.CLOSE_PRODUCER)
    ledger.store(2)
    client.send_messages(range(2, 4))
    client.register("mine")
    error = await client.answer(BaseCommand.ERROR)
    assert error.error == ServerError.ServiceNotReady
    assert receipts(client) == []
    assert len(ledger.entries) == 2
    await client.produce("mine")
    assert broker.ledger() is not ledger


async def test_topic_that_is_opened_while_the_session_is_lost_serves_no_client(
    broker: HeldBroker, client: FrameClient
) -> None:
    await client.produce("first")
    await broker.unload(broker.topics[0].name)
    client.register("second", producer_id=2)
    await asyncio.sleep(0)
    broker.lose_session()
    error = await client.answer(BaseCommand.ERROR)
    assert error.error == ServerError.ServiceNotReady
    assert broker.topics == []


@pytest.mark.promise(
    "An unload returns when the topic is closed, even if another request started the unload"
)
async def test_unload_of_a_topic_that_is_being_unloaded_waits_for_its_end(
    broker: HeldBroker, client: FrameClient
) -> None:
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
    assert [sequence_id for sequence_id, *_ in receipts(client)] == [0, 1]
    assert ledger.is_closed
    assert (broker.topics, broker.ownership.owned) == ([], [])


async def test_topic_that_is_being_unloaded_ends_at_once_with_the_session(
    broker: HeldBroker, client: FrameClient
) -> None:
    await client.produce()
    ledger = await client.send_pending(broker, 2)
    unloading = asyncio.create_task(broker.unload(broker.topics[0].name))
    await settle()
    broker.lose_session()
    await unloading
    await client.answer(BaseCommand.CLOSE_PRODUCER)
    ledger.store(2)
    await settle()
    assert receipts(client) == []
    assert ledger.is_closed


async def test_unloaded_topic_takes_nothing_more_and_acknowledges_what_came(
    broker: HeldBroker, client: FrameClient
) -> None:
    await client.produce()
    ledger = await client.send_pending(broker, 2)
    unloading = asyncio.create_task(broker.unload(broker.topics[0].name))
    await settle()
    client.send_messages(range(2, 4))
    await settle()
    ledger.store(2)
    await unloading
    assert [command.type for command in client.answers] == [
        RECEIPT,
        RECEIPT,
        BaseCommand.CLOSE_PRODUCER,
    ]
    assert len(ledger.entries) == 2
    assert ledger.is_closed
