"""Test how many requests a connection may have in progress, and when the broker stops reading."""

import pytest

from labkit.system.broker.protocol.backpressure import MAX_REQUESTS
from labkit.system.model.proto.pulsar_pb2 import (
    BaseCommand,
    CommandSubscribe,
    ServerError,
    WaitForExclusive,
)
from tests.system.broker.held import TOPIC, FrameClient, HeldBroker, frame
from tests.system.broker.in_memory import settle
from tests.until import until

PING = BaseCommand.PING


def questions(count: int) -> list[bytes]:
    kind = BaseCommand.PARTITIONED_METADATA
    return [frame(kind, topic=TOPIC, request_id=number) for number in range(count)]


@pytest.mark.promise(
    "A client's requests, producers, names and responses are limited, and a client that does "
    "not read is disconnected"
)
async def test_client_that_never_reads_is_dropped(broker: HeldBroker, client: FrameClient) -> None:
    for takes_them in (True, False):
        client.is_writable = False
        client.say(PING)
        await settle()
        assert client.paused
        if takes_them:
            client.is_writable = True
            client.on_writable()
            assert not client.paused
    [connection] = broker.connections
    for _ in range(3):
        connection.keep_alive()
    assert client.closed


async def test_client_with_many_requests_is_read_again_after_half(client: FrameClient) -> None:
    client.give(*questions(MAX_REQUESTS - 1))
    assert not client.paused
    await settle()
    client.responses.clear()
    client.give(*questions(MAX_REQUESTS))
    assert client.paused
    await until(lambda: not client.paused)
    await until(lambda: len(client.responses) == MAX_REQUESTS)


async def test_one_client_leaves_room_for_another(broker: HeldBroker, client: FrameClient) -> None:
    other = await FrameClient(broker).connect()
    client.give(*[frame(PING)] * 10_000)
    assert client.paused
    other.say(PING)
    await until(lambda: len(other.responses) > 0)
    assert len(client.responses) < 5_000
    await until(lambda: len(client.responses) == 10_000)
    assert not client.paused


async def test_producers_that_wait_for_their_turn_delay_no_other(client: FrameClient) -> None:
    await client.produce("first")
    for producer_id in range(2, MAX_REQUESTS + 10):
        client.register("", producer_id, producer_access_mode=WaitForExclusive)
    await until(lambda: not client.paused)
    client.ask(BaseCommand.LOOKUP, topic=TOPIC)
    await client.response(BaseCommand.LOOKUP_RESPONSE)
    assert not client.paused


async def test_connection_has_a_bounded_number_of_producers(
    client: FrameClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labkit.system.broker.handlers.producers.MAX_PER_CONNECTION", 3)
    for producer_id in range(1, 4):
        await client.produce(producer_id=producer_id)
    client.register(producer_id=4)
    rejected = await client.response(BaseCommand.ERROR)
    assert rejected.error == ServerError.NotAllowedError
    assert "this connection has 3 producers" in rejected.message


async def test_subscribing_in_vain_leaves_nothing_behind(
    client: FrameClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labkit.system.broker.handlers.consumers.MAX_PER_CONNECTION", 3)
    elsewhere = {"topic": "persistent://t/n/elsewhere", "subscription": "sub"}
    for consumer_id in range(10):
        kind = CommandSubscribe.Shared
        client.ask(BaseCommand.SUBSCRIBE, subType=kind, consumer_id=consumer_id, **elsewhere)
        assert (await client.response(BaseCommand.ERROR)).error == ServerError.ServiceNotReady


async def test_consumer_names_a_bounded_number_of_ranges(client: FrameClient) -> None:
    ranges = {"keySharedMode": "STICKY", "hashRanges": [{"start": 0, "end": 1}] * 1001}
    request_id = client.ask(
        BaseCommand.SUBSCRIBE,
        topic=TOPIC,
        subscription="sub",
        subType=CommandSubscribe.Key_Shared,
        consumer_id=1,
        keySharedMeta=ranges,
    )
    rejected = await client.response(BaseCommand.ERROR)
    assert (rejected.request_id, rejected.error) == (request_id, ServerError.ConsumerAssignError)
