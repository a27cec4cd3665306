"""A subscription: a cursor and, while consumers are connected, a dispatcher.

The first consumer determines the subscription's type. Consumers of another type are rejected until
all consumers have left.

In Pulsar: `broker/service/persistent/PersistentSubscription.java`.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from labkit.system.broker.dispatch.consumer import Consumer
from labkit.system.broker.dispatch.dispatcher import DispatchContext, Dispatcher
from labkit.system.broker.dispatch.key_shared import (
    AutoSplitRanges,
    KeySharedSelector,
    StickyRanges,
)
from labkit.system.broker.dispatch.multiple import MultipleConsumersDispatcher
from labkit.system.broker.dispatch.shared import SharedSelector
from labkit.system.broker.dispatch.single_active import SingleActiveDispatcher
from labkit.system.broker.errors import BrokerError, NotAllowedError
from labkit.system.broker.traffic import Traffic
from labkit.system.model.proto.pulsar_pb2 import STICKY, CommandSubscribe, ServerError
from labkit.system.topic.chain.ledger_chain import Position
from labkit.system.topic.cursors.cursor import ManagedCursor
from labkit.system.topic.cursors.formats import from_java_longs
from labkit.system.topic.managed_ledger import ManagedLedger

_MAX_PARTLY_ACKED_BATCHES = 10_000
"""In Pulsar: managedLedgerMaxBatchDeletedIndexToPersist."""

Acknowledgement = tuple[Position, Sequence[int]]
"""An entry, and a bit set of its messages that remain unacknowledged (empty: none)."""


class SubscriptionType(NamedTuple):
    """The properties that all consumers of a subscription must have in common."""

    sub_type: CommandSubscribe.SubType
    sticky: bool = False
    keeps_order: bool = True

    @classmethod
    def of(cls, command: CommandSubscribe) -> "SubscriptionType":
        if command.subType != CommandSubscribe.Key_Shared:
            return cls(command.subType)
        meta = command.keySharedMeta
        return cls(command.subType, meta.keySharedMode == STICKY, not meta.allowOutOfOrderDelivery)

    def __str__(self) -> str:
        mode = " with sticky hash ranges" if self.sticky else ""
        order = "" if self.keeps_order else " out of order"
        return f"{CommandSubscribe.SubType.Name(self.sub_type)}{mode}{order}"


class Subscription:
    def __init__(
        self, ledger: ManagedLedger, cursor: ManagedCursor, context: DispatchContext
    ) -> None:
        self.name = cursor.name
        self.cursor = cursor
        self.is_durable = cursor.is_durable
        self.type: SubscriptionType | None = None
        self.departed_traffic = Traffic()
        """Traffic of consumers that have left."""
        self._ledger = ledger
        self._context = context
        self._dispatcher: Dispatcher | None = None

    @property
    def consumers(self) -> list[Consumer]:
        return list(self._dispatcher.consumers) if self._dispatcher is not None else []

    def wake(self) -> None:
        if self._dispatcher is not None:
            self._dispatcher.wake()

    def flow(self, consumer: Consumer, permits: int) -> None:
        consumer.permits += permits
        if self._dispatcher is not None:
            self._dispatcher.retry()

    def add(self, consumer: Consumer, requested: SubscriptionType) -> None:
        """Add a consumer. Raises `BrokerError` if the consumer cannot join."""
        if self._dispatcher is None:
            self.type, self._dispatcher = requested, self._new_dispatcher(requested)
            # The clients will subscribe again, with a new dispatcher.
            self._dispatcher.on_failed = self.disconnect
        try:
            if requested != self.type:
                raise BrokerError(
                    ServerError.ConsumerBusy,
                    f"consumer {consumer.name!r} requested {requested}, but the subscription"
                    f" {self.name!r} of {self._context.topic} has consumers of type {self.type}",
                )
            self._dispatcher.add(consumer)
            self._dispatcher.retry()
        except BrokerError:
            self.probe_consumers()
            self._stop_if_empty()
            raise

    def probe_consumers(self) -> None:
        """Disconnect dead clients, because their consumers may prevent others from joining."""
        for consumer in self.consumers:
            consumer.connection.probe()

    def _new_dispatcher(self, requested: SubscriptionType) -> Dispatcher:
        ledger, cursor, context = self._ledger, self.cursor, self._context
        if requested.sub_type in (CommandSubscribe.Exclusive, CommandSubscribe.Failover):
            is_exclusive = requested.sub_type == CommandSubscribe.Exclusive
            return SingleActiveDispatcher(ledger, cursor, context, is_exclusive=is_exclusive)
        if requested.sub_type == CommandSubscribe.Shared:
            return MultipleConsumersDispatcher(ledger, cursor, SharedSelector(), context)
        ranges = StickyRanges() if requested.sticky else AutoSplitRanges()
        selector = KeySharedSelector(ranges, keeps_order=requested.keeps_order)
        return MultipleConsumersDispatcher(ledger, cursor, selector, context)

    def remove(self, consumer: Consumer) -> None:
        """Remove the consumer if it is connected, and redeliver its unacknowledged entries."""
        if self._dispatcher is not None and consumer in self._dispatcher.consumers:
            consumer.is_connected = False
            self._dispatcher.remove(consumer)
            self.departed_traffic.add(consumer.traffic.messages, consumer.traffic.bytes)
            self._stop_if_empty()

    def _stop_if_empty(self) -> None:
        if self._dispatcher is not None and not self._dispatcher.consumers:
            self._dispatcher.stop()
            self._dispatcher = None

    def disconnect(self) -> None:
        for consumer in self.consumers:
            consumer.disconnect()
            self.departed_traffic.add(consumer.traffic.messages, consumer.traffic.bytes)
        if self._dispatcher is not None:
            self._dispatcher.stop()
            self._dispatcher = None

    def acknowledge(self, consumer: Consumer, acks: Iterable[Acknowledgement]) -> None:
        """Acknowledge entries or messages of batches. Entries that do not exist are ignored."""
        confirmed = self._ledger.last_confirmed
        stored = [(position, ack_set) for position, ack_set in acks if position <= confirmed]
        self.cursor.acknowledge([position for position, ack_set in stored if not ack_set])
        try:
            for position, ack_set in stored:
                if ack_set:
                    self._acknowledge_in_batch(position, ack_set)
        finally:
            # Even if an acknowledgement is rejected, all preceding ones have taken effect.
            found = [position for position, _ in stored if self.cursor.is_acknowledged(position)]
            if found and self._dispatcher is not None:
                self._dispatcher.entries_acknowledged(consumer, found)
                self.notify_if_end_reached()

    def acknowledge_up_to(self, position: Position, ack_set: Sequence[int]) -> None:
        """Acknowledge everything up to and including this entry or these messages of its batch.

        Clients send (L, -1) for "everything before ledger L". Raises `BrokerError` if the
        subscription type does not allow cumulative acknowledgement.
        """
        if isinstance(self._dispatcher, MultipleConsumersDispatcher):
            raise NotAllowedError(
                f"the subscription {self.name!r} is {self.type}, which does not allow cumulative"
                " acknowledgement; acknowledge messages individually"
            )
        if position > self._ledger.last_confirmed:
            return
        if ack_set:
            self.cursor.acknowledge_up_to(self._ledger.chain.previous_position(position))
            self._acknowledge_in_batch(position, ack_set)
        else:
            self.cursor.acknowledge_up_to(position)
        self.notify_if_end_reached()

    def _acknowledge_in_batch(self, position: Position, ack_set: Sequence[int]) -> None:
        is_new = self.cursor.unacknowledged_in_batch(position) is None
        if is_new and self.cursor.batch_count >= _MAX_PARTLY_ACKED_BATCHES:
            raise NotAllowedError(
                f"the subscription {self.name!r} already has {_MAX_PARTLY_ACKED_BATCHES} partly"
                " acknowledged batches; acknowledge whole batches first"
            )
        # The client does not send the batch size, but it is at most the number of bits.
        self.cursor.acknowledge_batch(position, 64 * len(ack_set), from_java_longs(ack_set))

    async def skip(self, position: Position) -> None:
        """Durably acknowledge everything up to the position; used by admins and by expiry."""
        self.cursor.acknowledge_up_to(position)
        if self._dispatcher is not None:
            self._dispatcher.skip()
        self.notify_if_end_reached()
        await self.cursor.flush()

    def notify_if_end_reached(self) -> None:
        if self._ledger.terminated is not None and not self.cursor.unacknowledged_count:
            for consumer in self.consumers:
                consumer.send_end_of_topic()

    def redeliver(self, consumer: Consumer, positions: Sequence[Position], epoch: int) -> None:
        if self._dispatcher is not None:
            self._dispatcher.redeliver(consumer, positions, epoch)
