"""Tests for a topic's subscriptions while several clients change them concurrently: a condition
that was checked before an await may no longer hold after it.
"""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, cast

import pytest

from labkit.system.broker import subscription as subscription_module
from labkit.system.broker.broker_service import BrokerService
from labkit.system.broker.errors import BrokerError, code_of
from labkit.system.broker.handlers.consumers import Consumers
from labkit.system.broker.protocol.connection import ClientConnection, Handlers
from labkit.system.broker.protocol.frames import message_id_data
from labkit.system.broker.subscription import Subscription
from labkit.system.broker.topic_subscriptions import TopicSubscriptions
from labkit.system.model.proto.pulsar_pb2 import (
    BaseCommand,
    CommandAck,
    CommandCloseConsumer,
    CommandFlow,
    CommandRedeliverUnacknowledgedMessages,
    CommandSeek,
    CommandSubscribe,
    CommandUnsubscribe,
    ServerError,
)
from labkit.system.topic.cursors.cursor import ManagedCursor
from tests.system.broker.in_memory import Client, MemoryLedger, message, settle, surroundings


class SubscribedLedger(MemoryLedger):
    """A ledger whose cursors are created and deleted only when `gate` is set."""

    def __init__(self) -> None:
        super().__init__([message() for _ in range(4)])
        self.gate = asyncio.Event()
        self.gate.set()
        self.by_name: dict[str, ManagedCursor] = {}

    @property
    def cursors(self) -> Mapping[str, ManagedCursor]:
        return self.by_name

    @property
    def terminated(self) -> None:
        return None

    def when_confirmed(self, action: Callable[[], None]) -> None:
        """Do nothing, because these tests store no entries."""

    async def open_cursor(self, name: str, *_: Any, **__: Any) -> ManagedCursor:
        await self.gate.wait()
        return self.by_name.setdefault(name, self.cursor())

    async def delete_cursor(self, name: str) -> None:
        await self.gate.wait()
        del self.by_name[name]


class Topic:
    """A topic with the attributes that consumers use."""

    name = "persistent://public/default/topic"
    is_ended = False

    def __init__(self) -> None:
        self.ledger = SubscribedLedger()
        self.producers: dict[str, object] = {}
        self.subscriptions = TopicSubscriptions(self.ledger, surroundings())

    async def subscribed(
        self,
        client: Client,
        name: str = "sub",
        *,
        kind: "CommandSubscribe.SubType" = CommandSubscribe.Shared,
        durable: bool = True,
    ) -> Subscription:
        command = CommandSubscribe(
            topic=self.name,
            subscription=name,
            subType=kind,
            consumer_id=1,
            request_id=1,
            durable=durable,
            initialPosition=CommandSubscribe.Earliest,
        )
        connection = cast(ClientConnection, client)
        subscription, _ = await self.subscriptions.subscribe(connection, command, lambda _: None)
        return subscription


@pytest.fixture
async def topic() -> Topic:
    return Topic()


async def test_a_subscription_that_two_requests_delete_is_deleted_once(topic: Topic) -> None:
    subscription = await topic.subscribed(Client())
    topic.ledger.gate.clear()
    requests = [
        asyncio.create_task(topic.subscriptions.unsubscribe(subscription, None, force=True))
        for _ in range(2)
    ]
    again = asyncio.create_task(topic.subscribed(Client()))
    await settle()
    topic.ledger.gate.set()
    await asyncio.gather(*requests)
    assert topic.subscriptions.all == [await again]


async def test_a_late_request_to_delete_leaves_the_next_subscription_of_that_name(
    topic: Topic,
) -> None:
    subscription = await topic.subscribed(Client())
    await topic.subscriptions.unsubscribe(subscription, None, force=True)
    following = await topic.subscribed(Client())
    await topic.subscriptions.unsubscribe(subscription, None, force=True)
    assert topic.subscriptions.all == [following]
    assert len(following.consumers) == 1
    with pytest.raises(BrokerError, match="was deleted") as refused:
        await topic.subscriptions.seek(subscription, (10, 0))
    assert code_of(refused.value) == ServerError.SubscriptionNotFound
    following.disconnect()


async def test_no_subscription_is_created_on_a_topic_that_is_being_closed(topic: Topic) -> None:
    topic.ledger.gate.clear()
    first = asyncio.create_task(topic.subscriptions.create("first"))
    await settle()
    closing = asyncio.create_task(topic.subscriptions.close())
    await settle()
    second = asyncio.create_task(topic.subscriptions.create("second"))
    topic.ledger.gate.set()
    await asyncio.gather(first, closing)
    with pytest.raises(BrokerError, match="being closed"):
        await second
    assert list(topic.ledger.cursors) == ["first"]


async def test_a_reader_that_is_rejected_while_its_cursor_is_opened_leaves_no_subscription(
    topic: Topic,
) -> None:
    topic.ledger.gate.clear()
    reader = asyncio.create_task(topic.subscribed(Client(), durable=False))
    await settle()
    topic.subscriptions.rejects_clients = True
    topic.ledger.gate.set()
    with pytest.raises(BrokerError, match="being deleted"):
        await reader
    topic.subscriptions.rejects_clients = False
    assert topic.subscriptions.all == []


async def test_acknowledgements_before_a_rejected_one_release_their_entries(
    topic: Topic, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subscription_module, "_MAX_PARTLY_ACKED_BATCHES", 0)
    subscription = await topic.subscribed(Client())
    [consumer] = subscription.consumers
    subscription.flow(consumer, 2)
    await settle()
    first, second = consumer.pending_acks
    with pytest.raises(BrokerError, match="partly acknowledged batches"):
        subscription.acknowledge(consumer, [(first, ()), (second, (1,))])
    assert list(consumer.pending_acks) == [second]
    subscription.disconnect()


@pytest.mark.parametrize(
    ("kind", "durable", "reason"),
    [
        (CommandSubscribe.Exclusive, False, "already has the consumer"),
        (CommandSubscribe.Shared, False, "of type Exclusive"),
        (CommandSubscribe.Exclusive, True, "which is a reader"),
    ],
)
async def test_the_client_that_keeps_another_consumer_out_must_show_that_it_is_alive(
    topic: Topic, kind: "CommandSubscribe.SubType", durable: bool, reason: str
) -> None:
    connected = Client()
    subscription = await topic.subscribed(connected, kind=CommandSubscribe.Exclusive, durable=False)
    with pytest.raises(BrokerError, match=reason):
        await topic.subscribed(Client(), kind=kind, durable=durable)
    assert connected.probes == 1
    subscription.disconnect()


async def test_an_uncaught_exception_of_the_dispatcher_disconnects_the_consumers(
    topic: Topic,
) -> None:
    reported: list[object] = []
    asyncio.get_running_loop().set_exception_handler(
        lambda _, context: reported.append(context.get("exception"))
    )
    error = AssertionError("a bug")

    def fail() -> None:
        raise error

    topic.ledger.before_read = fail
    client, again = Client(), Client()
    subscription = await topic.subscribed(client)
    subscription.flow(subscription.consumers[0], 10)
    await settle()
    assert reported == [error]
    assert [command.type for command in client.commands] == [BaseCommand.CLOSE_CONSUMER]
    assert subscription.consumers == []
    topic.ledger.before_read = lambda: None
    assert await topic.subscribed(again) is subscription
    subscription.flow(subscription.consumers[0], 10)
    await settle()
    assert len(again.positions) == 4
    subscription.disconnect()


# Commands of a client


class Wired(Client):
    """A client whose commands are passed to the broker's handlers."""

    def __init__(self, topic: Topic) -> None:
        super().__init__()
        self.topic_served = topic
        self.schemas = self
        self.is_closed = False
        self.role = ""
        self.handlers: Handlers = {}
        self._close_actions: list[Callable[[], None]] = []
        Consumers(cast(BrokerService, self), cast(ClientConnection, self))

    # The parts of a connection and of a broker that `Consumers` uses

    def register_handlers(self, handlers: Handlers) -> None:
        self.handlers = handlers

    def when_writable(self, action: Callable[[], None]) -> None:
        """Do nothing, because this client always reads."""

    def when_closed(self, action: Callable[[], None]) -> None:
        self._close_actions.append(action)

    async def check_permission(self, *_: object, **__: object) -> None:
        """Allow everything."""

    def error_response(self, error: BrokerError) -> tuple[ServerError, str]:
        return code_of(error), str(error)

    async def topic(self, _: str) -> Topic:
        return self.topic_served

    async def check_exists(self, _: str) -> None:
        """Accept every topic as existing."""

    async def check_consumer(self, *_: object, **__: object) -> None:
        """Accept every schema."""

    # The client's commands

    def say(self, command: BaseCommand) -> "asyncio.Task[None] | None":
        work = self.handlers[command.type](command, b"")
        return None if work is None else asyncio.ensure_future(cast(Any, work))

    async def subscribe(
        self,
        name: str = "sub",
        *,
        kind: "CommandSubscribe.SubType" = CommandSubscribe.Exclusive,
        durable: bool = True,
    ) -> None:
        request = CommandSubscribe(
            topic=Topic.name,
            subscription=name,
            subType=kind,
            consumer_id=1,
            request_id=1,
            initialPosition=CommandSubscribe.Earliest,
            durable=durable,
        )
        subscribing = self.say(BaseCommand(type=BaseCommand.SUBSCRIBE, subscribe=request))
        assert subscribing is not None
        await subscribing
        flow = CommandFlow(consumer_id=1, messagePermits=10)
        self.say(BaseCommand(type=BaseCommand.FLOW, flow=flow))
        await settle()

    def seek(self) -> "asyncio.Task[None]":
        request = CommandSeek(consumer_id=1, request_id=2, message_id=message_id_data((10, 0)))
        seeking = self.say(BaseCommand(type=BaseCommand.SEEK, seek=request))
        assert seeking is not None
        return seeking

    def close(self) -> None:
        self.is_closed = True
        for action in self._close_actions:
            action()

    @property
    def kinds(self) -> list[int]:
        return [command.type for command in self.commands]


async def held_seek(topic: Topic, client: Wired, *, durable: bool) -> "asyncio.Task[None]":
    """Start a seek that waits until the test sets the ledger's `gate`."""
    await client.subscribe(durable=durable)
    cursor = topic.ledger.by_name["sub"]

    async def flush() -> None:
        await topic.ledger.gate.wait()

    cursor.flush = flush  # type: ignore[method-assign]
    topic.ledger.gate.clear()
    seeking = client.seek()
    await settle()
    assert client.kinds[-1] == BaseCommand.CLOSE_CONSUMER
    return seeking


@pytest.mark.parametrize("how", ["connection", "consumer"])
async def test_a_reader_whose_client_leaves_during_its_seek_is_forgotten(
    topic: Topic, how: str
) -> None:
    client = Wired(topic)
    seeking = await held_seek(topic, client, durable=False)
    if how == "connection":
        client.close()
    else:
        close = CommandCloseConsumer(consumer_id=1, request_id=3)
        client.say(BaseCommand(type=BaseCommand.CLOSE_CONSUMER, close_consumer=close))
    topic.ledger.gate.set()
    await seeking
    await settle()
    assert topic.subscriptions.all == []


async def test_an_acknowledgement_from_before_a_seek_does_not_count_behind_it(
    topic: Topic,
) -> None:
    client = Wired(topic)
    seeking = await held_seek(topic, client, durable=True)
    for is_done in (False, True):
        if is_done:
            topic.ledger.gate.set()
            await seeking
        ack = CommandAck(
            consumer_id=1,
            ack_type=CommandAck.Individual,
            request_id=4,
            message_id=[message_id_data((10, 1))],
        )
        client.say(BaseCommand(type=BaseCommand.ACK, ack=ack))
        assert client.commands[-1].ackResponse.error == ServerError.ConsumerNotFound
    await client.subscribe()
    assert client.positions[-4:] == [(10, number) for number in range(4)]
    client.close()


@pytest.mark.parametrize("durable", [False, True])
async def test_a_request_to_redeliver_from_before_a_seek_changes_nothing_after_it(
    topic: Topic, durable: bool
) -> None:
    seeking, other = Wired(topic), Wired(topic)
    for client in (seeking, other):
        await client.subscribe(kind=CommandSubscribe.Shared, durable=durable)
    assert seeking.positions == [(10, number) for number in range(4)]
    await seeking.seek()
    await other.subscribe(kind=CommandSubscribe.Shared, durable=durable)
    assert other.positions == [(10, number) for number in range(4)]
    redeliver = CommandRedeliverUnacknowledgedMessages(consumer_id=1)
    kind = BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES
    seeking.say(BaseCommand(type=kind, redeliverUnacknowledgedMessages=redeliver))
    await settle()
    assert len(other.positions) == 4
    for client in (seeking, other):
        client.close()


@pytest.mark.parametrize("how", ["connection", "consumer", "another subscription"])
async def test_a_reader_that_does_not_return_after_an_administrators_seek_is_forgotten(
    topic: Topic, how: str
) -> None:
    client = Wired(topic)
    await client.subscribe(durable=False)
    [subscription] = topic.subscriptions.all
    await topic.subscriptions.seek(subscription, (10, 0))
    assert client.kinds[-1] == BaseCommand.CLOSE_CONSUMER
    assert topic.subscriptions.all == [subscription]
    if how == "connection":
        client.close()
    elif how == "consumer":
        close = CommandCloseConsumer(consumer_id=1, request_id=3)
        client.say(BaseCommand(type=BaseCommand.CLOSE_CONSUMER, close_consumer=close))
    else:
        await client.subscribe("other")
    await settle()
    assert subscription not in topic.subscriptions.all
    client.close()


async def test_a_reader_that_returns_after_an_administrators_seek_continues(topic: Topic) -> None:
    client = Wired(topic)
    await client.subscribe(durable=False)
    [subscription] = topic.subscriptions.all
    await topic.subscriptions.seek(subscription, (10, 2))
    await client.subscribe(durable=False)
    await settle()
    assert topic.subscriptions.all == [subscription]
    client.close()
    await settle()
    assert topic.subscriptions.all == []


async def test_a_consumer_that_subscribes_while_another_of_its_id_is_deleted_stays(
    topic: Topic,
) -> None:
    client = Wired(topic)
    await client.subscribe()
    topic.ledger.gate.clear()
    request = CommandUnsubscribe(consumer_id=1, request_id=5)
    deleting = client.say(BaseCommand(type=BaseCommand.UNSUBSCRIBE, unsubscribe=request))
    await settle()
    again = asyncio.create_task(client.subscribe())
    await settle()
    topic.ledger.gate.set()
    assert deleting is not None
    await asyncio.gather(deleting, again)
    [subscription] = topic.subscriptions.all
    assert len(subscription.consumers) == 1
    client.close()
    assert subscription.consumers == []
