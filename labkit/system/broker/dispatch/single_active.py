"""One consumer gets everything, in order: Exclusive and Failover.

Entries that were sent are not remembered.  A consumer that becomes active, or asks for redelivery,
gets all unacknowledged entries again, from the mark-delete position on; so redelivery counts stay
0, as in Pulsar.

In Pulsar: `PersistentDispatcherSingleActiveConsumer.java`.
"""

from collections.abc import Sequence

from labkit.system.broker.dispatch.consumer import Consumer
from labkit.system.broker.dispatch.dispatcher import DispatchContext, Dispatcher, after
from labkit.system.broker.dispatch.exclusive import Exclusive
from labkit.system.broker.dispatch.failover import Failover
from labkit.system.topic.chain.chain import Position
from labkit.system.topic.cursors.cursor import ManagedCursor
from labkit.system.topic.managed_ledger import ManagedLedger


class SingleActive(Dispatcher):
    """Sends to the consumer that `choice` names."""

    def __init__(
        self,
        ledger: ManagedLedger,
        cursor: ManagedCursor,
        choice: Exclusive | Failover,
        context: DispatchContext,
    ) -> None:
        super().__init__(ledger, cursor, context)
        self._choice = choice
        self._active: Consumer | None = None
        self._rewinds = 0

    def add(self, consumer: Consumer) -> None:
        """Raises `BrokerError` when the subscription is exclusive and taken."""
        self._choice.admit(consumer, self.consumers)
        self.consumers.append(consumer)
        if not self._appoint() and self._choice.announces:
            consumer.tell_active(consumer is self._active)

    def remove(self, consumer: Consumer) -> None:
        """If the active one left, the next takes over."""
        self.consumers.remove(consumer)
        self._appoint()

    def acknowledged(self, consumer: Consumer, positions: Sequence[Position]) -> None:
        """Nothing to note: the cursor has the acknowledgements."""

    def redeliver(self, consumer: Consumer, positions: Sequence[Position], epoch: int) -> None:
        """Send all unacknowledged entries again, in order: single entries are not remembered."""
        if consumer is self._active:
            consumer.epoch = epoch
            self._rewind()

    def _appoint(self) -> bool:
        """Choose the active consumer; returns whether it has changed."""
        active = self._choice.active(self.consumers) if self.consumers else None
        if active is self._active:
            return False
        self._active = active
        if self._choice.announces:
            for consumer in self.consumers:
                consumer.tell_active(consumer is active)
        self._rewind()
        return True

    def _rewind(self) -> None:
        self._rewinds += 1
        self.next_position = after(self.cursor.mark_delete)
        self.wake()

    async def turn(self) -> bool:
        consumer = self._active
        if consumer is None or not consumer.can_take():
            return False
        rewinds = self._rewinds
        wanted = self.entries_for(consumer.permits)
        entries = await self.read_entries(self.next_position, wanted)
        # These entries were read before a rewind: sending them would change the order.
        if rewinds != self._rewinds:
            return True
        for entry in entries:
            if not consumer.can_take():
                return False
            self.next_position = after(entry.position)
            if not self.cursor.is_acknowledged(entry.position):
                consumer.send(entry, 0, self.cursor.left_in_batch(entry.position))
        return bool(entries)
