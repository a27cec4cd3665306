"""Tests for producer access modes, frame by frame."""

from typing import Any

import pytest

from labkit.system.broker.access import EPOCH_PROPERTY
from labkit.system.model.proto.pulsar_pb2 import (
    BaseCommand,
    Exclusive,
    ExclusiveWithFencing,
    ServerError,
    Shared,
    WaitForExclusive,
)
from tests.system.broker.held import FrameClient, HeldBroker, held_broker
from tests.until import until

ALONE = (Exclusive, WaitForExclusive, ExclusiveWithFencing)
SUCCESS, CLOSED = BaseCommand.PRODUCER_SUCCESS, BaseCommand.CLOSE_PRODUCER


@pytest.fixture
async def broker() -> HeldBroker:
    return held_broker()


async def connected(broker: HeldBroker) -> FrameClient:
    return await FrameClient(broker).connect()


async def producing(broker: HeldBroker, mode: int, name: str = "first") -> FrameClient:
    """Return a client whose producer has been admitted."""
    client = await connected(broker)
    await client.produce(name, producer_access_mode=mode)
    return client


async def asks(broker: HeldBroker, mode: int, name: str, **fields: Any) -> FrameClient:
    """Return a client that has requested a producer but has not received the response yet."""
    client = await connected(broker)
    client.register(name, producer_access_mode=mode, **fields)
    return client


async def queued(broker: HeldBroker, name: str) -> FrameClient:
    client = await asks(broker, WaitForExclusive, name)
    success = await client.answer(SUCCESS)
    assert not success.producer_ready
    assert success.HasField("schema_version")
    return client


async def refusal(client: FrameClient) -> ServerError:
    error: ServerError = (await client.answer(BaseCommand.ERROR)).error
    return error


async def test_producers_that_share_know_no_epoch(broker: HeldBroker) -> None:
    for name in ("first", "second"):
        client = await connected(broker)
        success = await client.produce(name)
        assert not success.HasField("topic_epoch")
        assert success.producer_ready
    assert broker.ledger().kept == {}


@pytest.mark.parametrize("mode", ALONE)
async def test_an_exclusive_producer_gets_the_next_epoch_which_is_stored(
    broker: HeldBroker, mode: int
) -> None:
    for epoch in range(3):
        client = await connected(broker)
        success = await client.produce("first", producer_access_mode=mode)
        assert (success.topic_epoch, success.producer_ready) == (epoch, True)
        assert broker.ledger().kept == {EPOCH_PROPERTY: str(epoch)}
        client.close_producer()
        await client.answer(BaseCommand.SUCCESS)
    client = await connected(broker)
    assert (await client.produce("sharing")).topic_epoch == 2


@pytest.mark.parametrize("there", ALONE)
@pytest.mark.parametrize(
    ("mode", "error"),
    [(Shared, ServerError.ProducerBusy), (Exclusive, ServerError.ProducerFenced)],
)
async def test_no_producer_joins_an_exclusive_one(
    broker: HeldBroker, there: int, mode: int, error: int
) -> None:
    await producing(broker, there)
    client = await asks(broker, mode, "second")
    assert await refusal(client) == error
    assert list(broker.topics[0].producers) == ["first"]


async def test_exclusive_access_is_refused_where_producers_share(broker: HeldBroker) -> None:
    await producing(broker, Shared)
    client = await asks(broker, Exclusive, "second")
    assert await refusal(client) == ServerError.ProducerFenced


@pytest.mark.parametrize("there", [Shared, Exclusive])
async def test_a_waiting_producer_enters_in_turn_when_the_earlier_ones_have_left(
    broker: HeldBroker, there: int
) -> None:
    first = await producing(broker, there)
    second, third = await queued(broker, "second"), await queued(broker, "third")
    shares = await asks(broker, Shared, "shares")
    assert await refusal(shares) == ServerError.ProducerBusy
    first.close_producer()
    await first.answer(BaseCommand.SUCCESS)
    success = await second.answer(SUCCESS)
    assert (success.producer_name, success.producer_ready) == ("second", True)
    second.close()
    assert (await third.answer(SUCCESS)).topic_epoch == success.topic_epoch + 1


@pytest.mark.parametrize("leaves", [FrameClient.close_producer, FrameClient.close])
async def test_a_producer_that_gives_up_waiting_is_skipped(broker: HeldBroker, leaves: Any) -> None:
    first = await producing(broker, Exclusive)
    second, third = await queued(broker, "second"), await queued(broker, "third")
    leaves(second)
    first.close()
    assert (await third.answer(SUCCESS)).producer_ready
    assert all(command.type != BaseCommand.ERROR for command in second.answers)
    assert list(broker.topics[0].producers) == ["third"]


async def test_a_producer_that_fences_enters_at_once_and_all_others_are_fenced(
    broker: HeldBroker,
) -> None:
    first = await producing(broker, Exclusive)
    waiting = await queued(broker, "waiting")
    last = await producing(broker, ExclusiveWithFencing, "last")
    assert (await first.answer(CLOSED)).producer_id == 1
    assert await refusal(waiting) == ServerError.ProducerFenced
    first.send_messages([0])
    last.send_messages([7])
    await until(lambda: broker.ledger().pending)
    broker.ledger().store(1)
    assert (await last.answer(BaseCommand.SEND_RECEIPT)).sequence_id == 7
    assert len(broker.ledger().entries) == 1


@pytest.mark.parametrize("mode", ALONE)
async def test_a_producer_that_returns_after_another_was_alone_stays_fenced(
    broker: HeldBroker, mode: int
) -> None:
    await producing(broker, ExclusiveWithFencing)
    last = await producing(broker, ExclusiveWithFencing, "last")
    for _ in range(2):
        first = await asks(broker, mode, "first", topic_epoch=0)
        assert await refusal(first) == ServerError.ProducerFenced
        last.close()
    assert broker.ledger().kept == {EPOCH_PROPERTY: "1"}


@pytest.mark.parametrize("mode", ALONE)
async def test_a_producer_that_returns_before_any_other_keeps_its_epoch(
    broker: HeldBroker, mode: int
) -> None:
    first = await producing(broker, mode)
    first.close()
    again = await connected(broker)
    success = await again.produce("first", producer_access_mode=mode, topic_epoch=0)
    assert success.topic_epoch == 0


async def test_own_old_connection_is_probed_and_does_not_fence_the_producer(
    broker: HeldBroker,
) -> None:
    first = await producing(broker, Exclusive)
    again = await asks(broker, Exclusive, "first", topic_epoch=0)
    assert await refusal(again) == ServerError.ProducerBusy
    await first.answer(BaseCommand.PING)


async def test_two_producers_that_fence_at_once_enter_one_after_the_other(
    broker: HeldBroker,
) -> None:
    await producing(broker, Shared)
    clients = [await connected(broker) for _ in range(2)]
    for number, client in enumerate(clients):
        client.register(f"fencing {number}", producer_access_mode=ExclusiveWithFencing)
    assert await refusal(clients[0]) == ServerError.ProducerFenced
    assert (await clients[1].answer(SUCCESS)).topic_epoch == int(
        broker.ledger().kept[EPOCH_PROPERTY]
    )
    assert list(broker.topics[0].producers) == ["fencing 1"]


async def test_a_producer_that_waits_for_a_closing_topic_looks_it_up_again(
    broker: HeldBroker,
) -> None:
    first = await producing(broker, Exclusive)
    waiting = await queued(broker, "waiting")
    broker.lose_session()
    assert await refusal(waiting) == ServerError.ServiceNotReady
    await first.answer(CLOSED)


async def test_name_that_is_taken_does_not_keep_the_place(broker: HeldBroker) -> None:
    first = await producing(broker, Shared)
    again = await asks(broker, Shared, "first")
    assert await refusal(again) == ServerError.ProducerBusy
    first.close()
    await producing(broker, Exclusive, "alone")
    assert list(broker.topics[0].producers) == ["alone"]
