"""Sends all entries, in order, to one consumer of an Exclusive or Failover subscription.

    Exclusive    allows only one consumer
    Failover     allows several, one of which is active; when it leaves, the next one takes over

Failover sorts its consumers by priority (the lowest number first), then by name. The partitions of
a topic are distributed over the consumers with the best priority. For example, if there are three
such consumers, the second one is active for partitions 1, 4 and 7. For a non-partitioned topic, the
first consumer is active. (Newer versions of Pulsar choose it by the topic's hash.)

The dispatcher does not track which entries it has sent, so a consumer that becomes active or
requests redelivery receives all unacknowledged entries. Redelivery counts stay 0, as in Pulsar.

In Pulsar: `AbstractDispatcherSingleActiveConsumer.java` (`addConsumer`,
`pickAndScheduleActiveConsumer`), `PersistentDispatcherSingleActiveConsumer.java`.
"""

from collections.abc import Sequence

from labkit.system.broker.dispatch.consumer import Consumer
from labkit.system.broker.dispatch.dispatcher import DispatchContext, Dispatcher, after
from labkit.system.broker.errors import BrokerError
from labkit.system.model.proto.pulsar_pb2 import ServerError
from labkit.system.topic.chain.ledger_chain import Position
from labkit.system.topic.cursors.cursor import ManagedCursor
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.topic.names import partition_of


def choose_active(consumers: Sequence[Consumer], partition: int) -> Consumer:
    """Choose a consumer by priority and name; `partition` is -1 for a non-partitioned topic."""
    ordered = sorted(consumers, key=lambda each: (each.priority, each.name))
    best = [each for each in ordered if each.priority == ordered[0].priority]
    return best[max(partition, 0) % len(best)]


class SingleActiveDispatcher(Dispatcher):
    def __init__(
        self,
        ledger: ManagedLedger,
        cursor: ManagedCursor,
        context: DispatchContext,
        *,
        is_exclusive: bool,
    ) -> None:
        super().__init__(ledger, cursor, context)
        self._is_exclusive = is_exclusive
        self._partition = partition_of(context.topic)
        self._active: Consumer | None = None
        self._rewinds = 0

    def add(self, consumer: Consumer) -> None:
        """Raise `BrokerError` if the subscription is exclusive and already has a consumer."""
        if self._is_exclusive and self.consumers:
            raise BrokerError(
                ServerError.ConsumerBusy,
                f"consumer {consumer.name!r} cannot join: the exclusive subscription already has"
                f" the consumer {self.consumers[0].name!r}; close that one, or subscribe as"
                " Failover, Shared or Key_Shared",
            )
        self.consumers.append(consumer)
        if not self._update_active() and not self._is_exclusive:
            consumer.send_active_change(consumer is self._active)

    def remove(self, consumer: Consumer) -> None:
        self.consumers.remove(consumer)
        self._update_active()

    def entries_acknowledged(self, consumer: Consumer, positions: Sequence[Position]) -> None:
        """Do nothing: the cursor tracks the acknowledgements."""

    def redeliver(self, consumer: Consumer, positions: Sequence[Position], epoch: int) -> None:
        if consumer is self._active:
            consumer.epoch = epoch
            self._rewind()

    def _update_active(self) -> bool:
        """Select the active consumer. Return whether it has changed."""
        active = choose_active(self.consumers, self._partition) if self.consumers else None
        if active is self._active:
            return False
        self._active = active
        if not self._is_exclusive:
            for consumer in self.consumers:
                consumer.send_active_change(consumer is active)
        self._rewind()
        return True

    def _rewind(self) -> None:
        self._rewinds += 1
        self.next_position = after(self.cursor.mark_delete)
        self.wake()

    async def dispatch_some(self) -> bool:
        consumer = self._active
        if consumer is None or not consumer.can_receive():
            return False
        rewinds = self._rewinds
        wanted = self.entries_for_permits(consumer.permits)
        entries = await self.read_entries(self.next_position, wanted)
        # Do not send entries that were read before a rewind, because that would break the order.
        if rewinds != self._rewinds:
            return True
        for entry in entries:
            if not consumer.can_receive():
                return False
            self.next_position = after(entry.position)
            if not self.cursor.is_acknowledged(entry.position):
                consumer.send(entry, 0, self.cursor.unacknowledged_in_batch(entry.position))
        return bool(entries)
