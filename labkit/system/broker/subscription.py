"""A subscription: the acknowledged messages, and the consumers that get the others.

It is a cursor of the topic's managed ledger, and a dispatcher while it has consumers.  Its type is
its consumers' type: a consumer of another type is refused until they have left.

In Pulsar: `broker/service/persistent/PersistentSubscription.java`.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from labkit.system.broker.dispatch.consumer import Consumer
from labkit.system.broker.dispatch.dispatcher import DispatchContext, Dispatcher
from labkit.system.broker.dispatch.key_shared import AutoSplitRanges, KeyShared, StickyRanges
from labkit.system.broker.dispatch.multiple import Multiple
from labkit.system.broker.dispatch.shared import Shared
from labkit.system.broker.dispatch.single_active import Exclusive, Failover, SingleActive
from labkit.system.broker.errors import BrokerError
from labkit.system.broker.traffic import Traffic
from labkit.system.model.proto.pulsar_pb2 import STICKY, CommandSubscribe, ServerError
from labkit.system.topic.chain.chain import Position
from labkit.system.topic.chain.formats import bits_of
from labkit.system.topic.cursors.cursor import ManagedCursor
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.topic.names import partition_of

_MOST_BATCHES = 10_000
"""Limit on partly acknowledged batches (Pulsar: managedLedgerMaxBatchDeletedIndexToPersist)."""

Acknowledgement = tuple[Position, Sequence[int]]
"""An entry, and the bits of its batch's unacknowledged messages; none: the whole entry is done."""


class SubscriptionType(NamedTuple):
    """What all consumers of a subscription must agree on."""

    sub_type: CommandSubscribe.SubType
    sticky: bool = False
    keeps_order: bool = True

    @classmethod
    def of(cls, command: CommandSubscribe) -> "SubscriptionType":
        """The type that a client asks for."""
        if command.subType != CommandSubscribe.Key_Shared:
            return cls(command.subType)
        meta = command.keySharedMeta
        return cls(
            command.subType,
            meta.keySharedMode == STICKY,
            not meta.allowOutOfOrderDelivery,
        )

    def __str__(self) -> str:
        mode = " with sticky hash ranges" if self.sticky else ""
        order = "" if self.keeps_order else " out of order"
        return f"{CommandSubscribe.SubType.Name(self.sub_type)}{mode}{order}"


class Subscription:
    """One subscription of a topic."""

    def __init__(
        self,
        ledger: ManagedLedger,
        cursor: ManagedCursor,
        context: DispatchContext,
        *,
        durable: bool,
    ) -> None:
        self.name = cursor.name
        self.cursor = cursor
        self.durable = durable
        self.type: SubscriptionType | None = None
        self.departed = Traffic()
        """What was sent to consumers that have left."""
        self._ledger = ledger
        self._context = context
        self._dispatcher: Dispatcher | None = None

    @property
    def consumers(self) -> list[Consumer]:
        """The connected consumers."""
        return list(self._dispatcher.consumers) if self._dispatcher is not None else []

    def wake(self) -> None:
        """Let the dispatcher look again: there are new entries, or a consumer can take more."""
        if self._dispatcher is not None:
            self._dispatcher.wake()

    def flow(self, consumer: Consumer, permits: int) -> None:
        """Give the consumer permits for more messages."""
        consumer.permits += permits
        if self._dispatcher is not None:
            self._dispatcher.retry()

    def add(self, consumer: Consumer, wanted: SubscriptionType) -> None:
        """Add a consumer.  Raises `BrokerError` when it may not join."""
        if self._dispatcher is None:
            self.type, self._dispatcher = wanted, self._new_dispatcher(wanted)
        elif wanted != self.type:
            raise BrokerError(
                ServerError.ConsumerBusy,
                f"the subscription {self.name!r} of {self._context.topic} is {self.type} while it"
                f" has consumers; consumer {consumer.name!r} asks for {wanted}",
            )
        try:
            self._dispatcher.add(consumer)
            self._dispatcher.retry()
        except BrokerError:
            # One whose client is gone unnoticed must not keep others out for long.
            for other in self.consumers:
                other.probe()
            self._stop_if_empty()
            raise

    def _new_dispatcher(self, wanted: SubscriptionType) -> Dispatcher:
        ledger, cursor, context = self._ledger, self.cursor, self._context
        if wanted.sub_type == CommandSubscribe.Exclusive:
            return SingleActive(ledger, cursor, Exclusive(), context)
        if wanted.sub_type == CommandSubscribe.Failover:
            failover = Failover(partition_of(context.topic))
            return SingleActive(ledger, cursor, failover, context)
        if wanted.sub_type == CommandSubscribe.Shared:
            return Multiple(ledger, cursor, Shared(), context)
        ranges = StickyRanges() if wanted.sticky else AutoSplitRanges()
        choice = KeyShared(ranges, keeps_order=wanted.keeps_order)
        return Multiple(ledger, cursor, choice, context)

    def remove(self, consumer: Consumer) -> None:
        """Remove the consumer, if it is still there; the others get its unacknowledged entries."""
        if self._dispatcher is not None and consumer in self._dispatcher.consumers:
            self._dispatcher.remove(consumer)
            self.departed.add(consumer.traffic.messages, consumer.traffic.bytes)
            self._stop_if_empty()

    def _stop_if_empty(self) -> None:
        if self._dispatcher is not None and not self._dispatcher.consumers:
            self._dispatcher.stop()
            self._dispatcher = None

    def disconnect(self) -> None:
        """Disconnect every consumer."""
        for consumer in self.consumers:
            consumer.disconnect()
            self.departed.add(consumer.traffic.messages, consumer.traffic.bytes)
        if self._dispatcher is not None:
            self._dispatcher.stop()
            self._dispatcher = None

    def acknowledge(self, consumer: Consumer, acks: Iterable[Acknowledgement]) -> None:
        """Acknowledge single entries or parts of batches.  Entries never stored are ignored."""
        confirmed = self._ledger.last_confirmed
        stored = [(position, words) for position, words in acks if position <= confirmed]
        self.cursor.acknowledge([position for position, words in stored if not words])
        for position, words in stored:
            if words:
                self._acknowledge_part(position, words)
        done = [position for position, _ in stored if self.cursor.is_acknowledged(position)]
        if done and self._dispatcher is not None:
            self._dispatcher.acknowledged(consumer, done)
            self.announce_end()

    def acknowledge_up_to(self, position: Position, words: Sequence[int]) -> None:
        """Acknowledge everything up to and including this entry, or this part of its batch.  (L,
        -1), which clients send for "all before the first entry of L", acknowledges nothing in
        ledger L.

        Raises `BrokerError` where consumers share the entries.
        """
        if isinstance(self._dispatcher, Multiple):
            raise BrokerError(
                ServerError.NotAllowedError,
                f"the subscription {self.name!r} is {self.type}: there each message is"
                " acknowledged by itself, not all up to one",
            )
        if position > self._ledger.last_confirmed:
            return
        if words:
            self.cursor.acknowledge_up_to(self._ledger.previous_position(position))
            self._acknowledge_part(position, words)
        else:
            self.cursor.acknowledge_up_to(position)
        self.announce_end()

    def _acknowledge_part(self, position: Position, words: Sequence[int]) -> None:
        is_new = self.cursor.left_in_batch(position) is None
        if is_new and self.cursor.batch_count >= _MOST_BATCHES:
            raise BrokerError(
                ServerError.NotAllowedError,
                f"of the subscription {self.name!r} {_MOST_BATCHES} batches are acknowledged in"
                " part; acknowledge whole ones",
            )
        # The client does not say how many messages the batch has: at most as many as there are
        # bits.
        self.cursor.acknowledge_batch(position, 64 * len(words), bits_of(words))

    async def skip(self, position: Position) -> None:
        """Acknowledge everything up to the position for an administrator, whatever the type.

        Durable when this returns.  Raises what `ManagedCursor.flush` raises.
        """
        self.cursor.acknowledge_up_to(position)
        if self._dispatcher is not None:
            self._dispatcher.skip()
        self.announce_end()
        await self.cursor.flush()

    def announce_end(self) -> None:
        """Tell the consumers if nothing more will come: the topic is terminated, and everything is
        acknowledged.
        """
        if self._ledger.terminated is not None and not self.cursor.unacknowledged_count:
            for consumer in self.consumers:
                consumer.announce_end()

    def redeliver(self, consumer: Consumer, positions: Sequence[Position], epoch: int) -> None:
        """Deliver these entries to the consumer again, or all that it holds if none are named."""
        if self._dispatcher is not None:
            self._dispatcher.redeliver(consumer, positions, epoch)
