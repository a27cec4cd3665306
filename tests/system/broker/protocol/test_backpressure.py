"""What a client may have under way on one connection, and when it is not read."""

import pytest

from labkit.system.broker.protocol.backpressure import MOST_REQUESTS
from labkit.system.broker.protocol.frames import encode_frame
from labkit.system.model.proto.pulsar_pb2 import (
    BaseCommand,
    CommandLookupTopic,
    CommandPartitionedTopicMetadata,
    CommandPing,
    CommandSubscribe,
    IntRange,
    KeySharedMeta,
    ServerError,
    WaitForExclusive,
)
from tests.system.broker.held import TOPIC, FrameClient, HeldBroker, held_broker, sending, turns
from tests.until import until


@pytest.fixture
async def broker() -> HeldBroker:
    return held_broker()


@pytest.fixture
async def client(broker: HeldBroker) -> FrameClient:
    return await FrameClient(broker).connect()


def questions(count: int) -> list[bytes]:
    return [
        encode_frame(
            BaseCommand(
                type=BaseCommand.PARTITIONED_METADATA,
                partitionMetadata=CommandPartitionedTopicMetadata(topic=TOPIC, request_id=number),
            )
        )
        for number in range(count)
    ]


async def test_client_that_does_not_take_its_answers_is_not_read(client: FrameClient) -> None:
    client.is_writable = False
    client.say(BaseCommand.PING, ping=CommandPing())
    await turns()
    assert client.paused
    client.is_writable = True
    client.on_writable()
    assert not client.paused


async def test_client_that_takes_nothing_is_silent_and_given_up(
    broker: HeldBroker, client: FrameClient
) -> None:
    client.is_writable = False
    client.say(BaseCommand.PING, ping=CommandPing())
    await turns()
    [connection] = broker.connections
    for _ in range(3):
        connection.keep_alive()
    assert client.closed


async def test_client_that_asks_much_at_once_is_read_again_when_half_is_answered(
    client: FrameClient,
) -> None:
    client.give(*questions(MOST_REQUESTS - 1))
    assert not client.paused
    await turns()
    client.answers.clear()
    client.give(*questions(MOST_REQUESTS))
    assert client.paused
    await until(lambda: not client.paused)
    await until(lambda: len(client.answers) == MOST_REQUESTS)


async def test_frames_of_one_client_leave_room_for_another(
    broker: HeldBroker, client: FrameClient
) -> None:
    other = await FrameClient(broker).connect()
    client.give(*[encode_frame(BaseCommand(type=BaseCommand.PING, ping=CommandPing()))] * 10_000)
    assert client.paused
    other.say(BaseCommand.PING, ping=CommandPing())
    await until(lambda: len(other.answers) > 0)
    assert len(client.answers) < 5_000
    await until(lambda: len(client.answers) == 10_000)
    assert not client.paused


async def test_producers_that_wait_for_their_turn_delay_no_other(client: FrameClient) -> None:
    await client.produce("first")
    for producer_id in range(2, MOST_REQUESTS + 10):
        client.register("", producer_id, producer_access_mode=WaitForExclusive)
    await until(lambda: not client.paused)
    client.say(BaseCommand.LOOKUP, lookupTopic=CommandLookupTopic(topic=TOPIC, request_id=5000))
    await client.answer(BaseCommand.LOOKUP_RESPONSE)
    assert not client.paused


async def test_connection_has_a_bounded_number_of_producers(
    client: FrameClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labkit.system.broker.handlers.producers.MOST_OF_A_CONNECTION", 3)
    for producer_id in range(1, 4):
        await client.produce(producer_id=producer_id)
    client.register(producer_id=4)
    refused = await client.answer(BaseCommand.ERROR)
    assert refused.error == ServerError.NotAllowedError
    assert "this connection has 3 producers" in refused.message


async def test_subscribing_in_vain_leaves_nothing_behind(
    client: FrameClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labkit.system.broker.handlers.consumers.MOST_OF_A_CONNECTION", 3)
    for consumer_id in range(10):
        wanted = CommandSubscribe(
            topic="persistent://t/n/elsewhere",
            subscription="sub",
            subType=CommandSubscribe.Shared,
            consumer_id=consumer_id,
            request_id=consumer_id,
        )
        client.say(BaseCommand.SUBSCRIBE, subscribe=wanted)
        refused = await client.answer(BaseCommand.ERROR)
        assert refused.error == ServerError.ServiceNotReady


async def test_consumer_names_a_bounded_number_of_ranges(client: FrameClient) -> None:
    ranges = [IntRange(start=0, end=1)] * 1001
    wanted = CommandSubscribe(
        topic=TOPIC,
        subscription="sub",
        subType=CommandSubscribe.Key_Shared,
        consumer_id=1,
        request_id=7,
        keySharedMeta=KeySharedMeta(keySharedMode="STICKY", hashRanges=ranges),
    )
    client.say(BaseCommand.SUBSCRIBE, subscribe=wanted)
    refused = await client.answer(BaseCommand.ERROR)
    assert (refused.request_id, refused.error) == (7, ServerError.ConsumerAssignError)


async def test_sequence_id_that_no_mark_has_room_for_is_refused(
    broker: HeldBroker, client: FrameClient
) -> None:
    await client.produce()
    client.give(sending(2**63))
    refused = await client.answer(BaseCommand.SEND_ERROR)
    assert refused.error == ServerError.NotAllowedError
    assert broker.ledger().entries == []
