"""Tests for a topic's subscriptions that `subscriptions.txt` cannot show: a limit and a bug."""

import asyncio
from typing import cast

import pytest

from labkit.system.broker import subscription as subscription_module
from labkit.system.broker.errors import BrokerError
from labkit.system.broker.protocol.connection import ClientConnection
from labkit.system.broker.subscription import Subscription
from labkit.system.model.proto.pulsar_pb2 import BaseCommand, CommandSubscribe
from tests.system.broker.commands.subscriptions import TOPIC, Topic
from tests.system.broker.in_memory import Client, settle


async def subscribed(topic: Topic, client: Client) -> Subscription:
    command = CommandSubscribe(
        topic=TOPIC,
        subscription="sub",
        subType=CommandSubscribe.Shared,
        consumer_id=1,
        request_id=1,
        initialPosition=CommandSubscribe.Earliest,
    )
    connection = cast(ClientConnection, client)
    subscription, _ = await topic.subscriptions.subscribe(connection, command, lambda _: None)
    return subscription


async def test_acknowledgements_before_a_rejected_one_release_their_entries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subscription_module, "_MAX_PARTLY_ACKED_BATCHES", 0)
    subscription = await subscribed(Topic(), Client())
    [consumer] = subscription.consumers
    subscription.flow(consumer, 2)
    await settle()
    first, second = consumer.pending_acks
    with pytest.raises(BrokerError, match="partly acknowledged batches"):
        subscription.acknowledge(consumer, [(first, ()), (second, (1,))])
    assert list(consumer.pending_acks) == [second]
    subscription.disconnect()


async def test_an_uncaught_exception_of_the_dispatcher_disconnects_the_consumers() -> None:
    topic, reported = Topic(), list[object]()
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: reported.append(context.get("exception"))
    )
    error = AssertionError("a bug")

    def fail() -> None:
        raise error

    topic.ledger.before_read = fail
    client, again = Client(), Client()
    subscription = await subscribed(topic, client)
    subscription.flow(subscription.consumers[0], 10)
    await settle()
    assert reported == [error]
    assert [command.type for command in client.commands] == [BaseCommand.CLOSE_CONSUMER]
    assert subscription.consumers == []
    topic.ledger.before_read = lambda: None
    assert await subscribed(topic, again) is subscription
    subscription.flow(subscription.consumers[0], 10)
    await settle()
    assert len(again.positions) == 4
    subscription.disconnect()
