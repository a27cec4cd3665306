"""The subscriptions of a topic: creating, joining, seeking and deleting them.

A durable subscription stays until a client unsubscribes.  A reader's subscription is kept in memory
and deleted with its consumer.  But a seek disconnects every consumer, and the reader comes back to
the same subscription; so after a seek it is deleted only with the client's connection.

In Pulsar: `broker/service/persistent/PersistentTopic.java` (`subscribe`, `unsubscribe`).
"""

import asyncio
from collections.abc import Callable, Mapping

from labkit.system.broker.dispatch.consumer import Consumer
from labkit.system.broker.dispatch.dispatcher import DispatchContext
from labkit.system.broker.errors import BrokerError
from labkit.system.broker.positions import EARLIEST, LATEST, first_from, first_published_from
from labkit.system.broker.protocol.connection import ClientConnection
from labkit.system.broker.protocol.frames import position_of
from labkit.system.broker.subscription import Subscription, SubscriptionType
from labkit.system.model.proto.pulsar_pb2 import CommandSubscribe, ServerError
from labkit.system.topic.chain.chain import Position
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.topic.names import partition_of
from labkit.system.topic.producing.deduplication import CURSOR_NAME


class Subscriptions:
    """All subscriptions of one topic, on its open managed ledger."""

    def __init__(self, ledger: ManagedLedger, context: DispatchContext) -> None:
        self._topic = context.topic
        self._ledger = ledger
        self._context = context
        self._changing = asyncio.Lock()
        self._closed = False
        self.is_fenced = False
        """Whether no client may subscribe for now."""
        self._going: dict[asyncio.Task[None], None] = {}
        self._by_name = {
            name: Subscription(ledger, cursor, context, durable=True)
            for name, cursor in ledger.cursors.items()
            if name != CURSOR_NAME
        }
        ledger.when_confirmed(self._wake)

    @property
    def all(self) -> list[Subscription]:
        """All subscriptions, including readers'."""
        return list(self._by_name.values())

    def find(self, name: str) -> Subscription:
        """Raises `BrokerError`."""
        if name not in self._by_name:
            raise BrokerError(
                ServerError.SubscriptionNotFound, f"{self._topic} has no subscription {name!r}"
            )
        return self._by_name[name]

    async def subscribe(
        self,
        connection: ClientConnection,
        command: CommandSubscribe,
        on_disconnected: Callable[[int], None],
    ) -> tuple[Subscription, Consumer]:
        """Add a client's consumer to the subscription, which is created if it does not exist;
        `on_disconnected` gets the consumer's id when it is disconnected.

        Raises `BrokerError`, and what `ManagedLedger.open_cursor` raises.
        """
        ranges = [(each.start, each.end) for each in command.keySharedMeta.hashRanges]
        async with self._changing:
            self._check_takes_clients()
            subscription = self._by_name.get(command.subscription)
            if subscription is None:
                properties = {each.key: each.value for each in command.subscription_properties}
                subscription = await self._open(
                    command.subscription,
                    await self._start(command),
                    properties,
                    durable=command.durable,
                )
            elif subscription.durable != command.durable:
                raise BrokerError(
                    ServerError.NotAllowedError,
                    f"{self._topic} has a subscription {command.subscription!r} that"
                    f" {'stays' if subscription.durable else 'is a reader'}; take another name",
                )
            # The topic may have ended, or been fenced, while the cursor was opened.
            self._check_takes_clients()
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
                subscription.add(consumer, SubscriptionType.of(command))
            finally:
                await self._drop_if_over(subscription)
        return subscription, consumer

    async def create(
        self, name: str, position: Position = EARLIEST, properties: Mapping[str, str] | None = None
    ) -> bool:
        """Create a durable subscription from the position on, unless the name exists.  Returns
        whether it was created.
        """
        async with self._changing:
            self._check_takes_clients()
            if name in self._by_name:
                return False
            start = first_from(self._ledger, position)
            await self._open(name, start, properties or {}, durable=True)
            return True

    async def _open(
        self, name: str, start: Position, properties: Mapping[str, str], *, durable: bool
    ) -> Subscription:
        ledger = self._ledger
        cursor = await ledger.open_cursor(
            name, start, durable=durable, cursor_properties=properties
        )
        subscription = Subscription(ledger, cursor, self._context, durable=durable)
        self._by_name[subscription.name] = subscription
        return subscription

    async def _start(self, command: CommandSubscribe) -> Position:
        """The position at which a new subscription starts."""
        if command.start_message_rollback_duration_sec:
            back_ms = command.start_message_rollback_duration_sec * 1000
            return await first_published_from(self._ledger, self._context.wall_clock_ms() - back_ms)
        if not command.durable and command.HasField("start_message_id"):
            return first_from(self._ledger, position_of(command.start_message_id))
        earliest = command.initialPosition == CommandSubscribe.Earliest
        return first_from(self._ledger, EARLIEST if earliest else LATEST)

    async def seek(
        self, subscription: Subscription, position: Position, batch: tuple[int, int] | None = None
    ) -> None:
        """Make everything from the position on unacknowledged; disconnects the consumers first.

        With `batch`, the size of the batch at the position and the bits of its messages to be
        delivered, the batch's other messages are acknowledged.
        """
        async with self._changing:
            self._check_open()
            if self._by_name.get(subscription.name) is not subscription:
                raise BrokerError(
                    ServerError.SubscriptionNotFound,
                    f"the subscription {subscription.name!r} of {self._topic} was deleted",
                )
            subscription.disconnect()
            await subscription.cursor.reset(first_from(self._ledger, position))
            if batch is not None:
                subscription.cursor.acknowledge_batch(position, *batch)
                await subscription.cursor.flush()

    async def seek_to_time(self, subscription: Subscription, publish_time_ms: int) -> None:
        """Like `seek`, to the first entry published at that time or later."""
        position = await first_published_from(self._ledger, publish_time_ms)
        await self.seek(subscription, position)

    def leave(self, subscription: Subscription, consumer: Consumer) -> None:
        """Remove the consumer: it was closed, or its client is gone."""
        subscription.remove(consumer)
        if not self._closed and not subscription.durable and not subscription.consumers:
            task = asyncio.get_running_loop().create_task(self._forget(subscription))
            self._going[task] = None
            task.add_done_callback(self._going.pop)

    async def _forget(self, subscription: Subscription) -> None:
        async with self._changing:
            if not self._closed:
                await self._drop_if_over(subscription)

    async def _drop_if_over(self, subscription: Subscription) -> None:
        """Delete a reader's subscription once no reader is connected."""
        # Compared: another subscription of this name may have been created while this one closed.
        is_there = self._by_name.get(subscription.name) is subscription
        if is_there and not subscription.durable and not subscription.consumers:
            await self._delete(subscription)

    async def unsubscribe(
        self, subscription: Subscription, consumer: Consumer | None, *, force: bool = False
    ) -> None:
        """Delete the subscription with its acknowledgements.  `force` disconnects other consumers.

        Raises `BrokerError` while consumers other than `consumer` are connected.
        """
        async with self._changing:
            self._check_open()
            others = [each.name for each in subscription.consumers if each is not consumer]
            if others and not force:
                raise BrokerError(
                    ServerError.MetadataError,
                    f"the subscription {subscription.name!r} of {self._topic} has other consumers:"
                    f" {', '.join(others)}; close them first",
                )
            if consumer is not None:
                subscription.remove(consumer)
            subscription.disconnect()
            # An earlier request may have deleted it, and another client created it again.
            if self._by_name.get(subscription.name) is subscription:
                await self._delete(subscription)

    async def _delete(self, subscription: Subscription) -> None:
        await self._ledger.delete_cursor(subscription.name)
        del self._by_name[subscription.name]

    async def close(self) -> None:
        """Disconnect all consumers, after any change under way.  The ledger closes the cursors."""
        self._closed = True
        async with self._changing:
            self.disconnect()

    def disconnect(self) -> None:
        """Disconnect all consumers at once: the topic belongs to another broker."""
        self._closed = True
        for subscription in self._by_name.values():
            subscription.disconnect()

    def _check_open(self) -> None:
        if self._closed:
            raise BrokerError(ServerError.ServiceNotReady, f"{self._topic} is being closed")

    def _check_takes_clients(self) -> None:
        self._check_open()
        if self.is_fenced:
            raise BrokerError(ServerError.ServiceNotReady, f"{self._topic} is being deleted")

    def _wake(self) -> None:
        for subscription in self._by_name.values():
            subscription.wake()
