"""All subscriptions of a topic: creates, joins, resets and deletes them.

A durable subscription exists until a client unsubscribes. A reader's subscription is kept in memory
and deleted when its consumer leaves. It is not deleted when a seek disconnects the consumer,
because the reader then subscribes again.

In Pulsar: `broker/service/persistent/PersistentTopic.java` (`subscribe`, `unsubscribe`).
"""

import asyncio
from collections.abc import Callable, Mapping

from labkit.system.broker.dispatch.consumer import Consumer
from labkit.system.broker.dispatch.dispatcher import DispatchContext
from labkit.system.broker.errors import BrokerError, NotAllowedError, ServiceNotReadyError
from labkit.system.broker.positions import (
    EARLIEST,
    LATEST,
    first_or_next_free,
    first_published_from,
)
from labkit.system.broker.protocol.connection import ClientConnection
from labkit.system.broker.protocol.frames import position_of
from labkit.system.broker.subscription import Subscription, SubscriptionType
from labkit.system.model.proto.pulsar_pb2 import CommandSubscribe, ServerError
from labkit.system.topic.chain.ledger_chain import Position
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.topic.names import partition_of
from labkit.system.topic.producing.deduplication import CURSOR_NAME


class TopicSubscriptions:
    """The subscriptions of one topic, whose managed ledger must be open."""

    def __init__(self, ledger: ManagedLedger, context: DispatchContext) -> None:
        self._topic = context.topic
        self._ledger = ledger
        self._context = context
        self._lock = asyncio.Lock()
        self._closed = False
        self.rejects_clients = False
        """Set when the topic is about to be deleted, before its clients are disconnected."""
        self._cleanup_tasks: dict[asyncio.Task[None], None] = {}
        self._by_name = {
            name: Subscription(ledger, cursor, context)
            for name, cursor in ledger.cursors.items()
            if name != CURSOR_NAME
        }
        ledger.when_confirmed(self._wake)

    @property
    def all(self) -> list[Subscription]:
        return list(self._by_name.values())

    def find(self, name: str) -> Subscription:
        if name not in self._by_name:
            raise BrokerError(
                ServerError.SubscriptionNotFound,
                f"subscription {name!r} of {self._topic} does not exist",
            )
        return self._by_name[name]

    async def subscribe(
        self,
        connection: ClientConnection,
        command: CommandSubscribe,
        on_disconnected: Callable[[int], None],
    ) -> tuple[Subscription, Consumer]:
        """Add a consumer to the subscription. Create the subscription if it does not exist.

        `on_disconnected` is called with the consumer's id when the broker disconnects it. Raises
        `BrokerError`, and the same exceptions as `ManagedLedger.open_cursor`.
        """
        ranges = [(each.start, each.end) for each in command.keySharedMeta.hashRanges]
        async with self._lock:
            self._check_accepts_clients()
            subscription = self._by_name.get(command.subscription)
            if subscription is None:
                properties = {each.key: each.value for each in command.subscription_properties}
                subscription = await self._open(
                    command.subscription,
                    await self._start_position(command),
                    properties,
                    durable=command.durable,
                )
            elif subscription.is_durable != command.durable:
                subscription.probe_consumers()
                raise NotAllowedError(
                    f"{self._topic} already has a subscription {command.subscription!r}, which is"
                    f" {'durable' if subscription.is_durable else 'a reader'}; choose another name"
                )
            consumer = Consumer(
                connection,
                command.consumer_id,
                command.consumer_name,
                partition_of(self._topic),
                on_disconnected,
                priority=command.priority_level,
                hash_ranges=ranges,
            )
            try:
                # Since the first check, the topic may have ended or started to reject clients.
                self._check_accepts_clients()
                subscription.add(consumer, SubscriptionType.of(command))
            finally:
                await self._delete_if_unused(subscription)
        return subscription, consumer

    async def create(
        self, name: str, position: Position = EARLIEST, properties: Mapping[str, str] | None = None
    ) -> bool:
        """Create a durable subscription unless it exists. Return whether it was created."""
        async with self._lock:
            self._check_accepts_clients()
            if name in self._by_name:
                return False
            start = first_or_next_free(self._ledger, position)
            await self._open(name, start, properties or {}, durable=True)
            return True

    async def _open(
        self, name: str, start: Position, properties: Mapping[str, str], *, durable: bool
    ) -> Subscription:
        if name == CURSOR_NAME:
            raise NotAllowedError(
                f"subscription name {name!r} is reserved for deduplication; choose another name"
            )
        ledger = self._ledger
        cursor = await ledger.open_cursor(
            name, start, durable=durable, cursor_properties=properties
        )
        subscription = Subscription(ledger, cursor, self._context)
        self._by_name[subscription.name] = subscription
        return subscription

    async def _start_position(self, command: CommandSubscribe) -> Position:
        if command.start_message_rollback_duration_sec:
            rollback_ms = command.start_message_rollback_duration_sec * 1000
            return await first_published_from(
                self._ledger, self._context.wall_clock_ms() - rollback_ms
            )
        if not command.durable and command.HasField("start_message_id"):
            return first_or_next_free(self._ledger, position_of(command.start_message_id))
        earliest = command.initialPosition == CommandSubscribe.Earliest
        return first_or_next_free(self._ledger, EARLIEST if earliest else LATEST)

    async def seek(
        self, subscription: Subscription, position: Position, batch: tuple[int, int] | None = None
    ) -> None:
        """Disconnect the consumers, then mark everything from the position on as unacknowledged.

        `batch` is the size of the batch at the position, and a bit set of the messages to deliver.
        """
        async with self._lock:
            self._check_open()
            if self._by_name.get(subscription.name) is not subscription:
                raise BrokerError(
                    ServerError.SubscriptionNotFound,
                    f"subscription {subscription.name!r} of {self._topic} was deleted",
                )
            subscription.disconnect()
            await subscription.cursor.reset(first_or_next_free(self._ledger, position))
            if batch is not None:
                subscription.cursor.acknowledge_batch(position, *batch)
                await subscription.cursor.flush()

    async def seek_to_time(self, subscription: Subscription, publish_time_ms: int) -> None:
        position = await first_published_from(self._ledger, publish_time_ms)
        await self.seek(subscription, position)

    def leave(self, subscription: Subscription, consumer: Consumer) -> None:
        subscription.remove(consumer)
        if not self._closed and not subscription.is_durable and not subscription.consumers:
            task = asyncio.get_running_loop().create_task(self._clean_up(subscription))
            self._cleanup_tasks[task] = None
            task.add_done_callback(self._cleanup_tasks.pop)

    async def _clean_up(self, subscription: Subscription) -> None:
        async with self._lock:
            if not self._closed:
                await self._delete_if_unused(subscription)

    async def _delete_if_unused(self, subscription: Subscription) -> None:
        # By now, the name may belong to a new subscription.
        exists = self._by_name.get(subscription.name) is subscription
        if exists and not subscription.is_durable and not subscription.consumers:
            await self._delete(subscription)

    async def unsubscribe(
        self, subscription: Subscription, consumer: Consumer | None, *, force: bool = False
    ) -> None:
        """Raise `BrokerError` if another consumer is connected, unless `force` is set."""
        async with self._lock:
            self._check_open()
            others = [each.name for each in subscription.consumers if each is not consumer]
            if others and not force:
                raise BrokerError(
                    ServerError.MetadataError,
                    f"subscription {subscription.name!r} of {self._topic} has other consumers:"
                    f" {', '.join(others)}; close them first",
                )
            if consumer is not None:
                subscription.remove(consumer)
            subscription.disconnect()
            # Another request may have deleted the subscription, and a third one recreated it.
            if self._by_name.get(subscription.name) is subscription:
                await self._delete(subscription)

    async def _delete(self, subscription: Subscription) -> None:
        await self._ledger.delete_cursor(subscription.name)
        del self._by_name[subscription.name]

    async def close(self) -> None:
        """Finish a change in progress, then disconnect all consumers. The cursors remain open."""
        self._closed = True
        async with self._lock:
            self.disconnect()

    def disconnect(self) -> None:
        """Disconnect all consumers immediately, because another broker owns the topic."""
        self._closed = True
        for subscription in self._by_name.values():
            subscription.disconnect()

    def _check_open(self) -> None:
        if self._closed:
            raise ServiceNotReadyError(f"{self._topic} is being closed")

    def _check_accepts_clients(self) -> None:
        self._check_open()
        if self.rejects_clients:
            raise ServiceNotReadyError(f"{self._topic} is being deleted")

    def _wake(self) -> None:
        for subscription in self._by_name.values():
            subscription.wake()
