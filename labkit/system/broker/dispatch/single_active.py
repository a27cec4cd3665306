"""One consumer gets everything, in order: Exclusive and Failover.

    Exclusive    one consumer; a second one is refused
    Failover     several consumers, one of them active; when it leaves, the next takes over

Failover orders its consumers by priority (the lowest number first), then by name.  The partitions
of a topic are spread over the consumers of the best priority: of three, the second is active for
partitions 1, 4, 7.  For a topic without partitions it is the first (Pulsar's newer brokers draw it
from the topic's hash).

Entries that were sent are not remembered.  A consumer that becomes active, or asks for redelivery,
gets all unacknowledged entries again, from the mark-delete position on; so redelivery counts stay
0, as in Pulsar.

In Pulsar: `AbstractDispatcherSingleActiveConsumer.java` (`addConsumer`,
`pickAndScheduleActiveConsumer`), `PersistentDispatcherSingleActiveConsumer.java`.
"""

from collections.abc import Sequence

from labkit.system.broker.dispatch.consumer import Consumer
from labkit.system.broker.dispatch.dispatcher import DispatchContext, Dispatcher, after
from labkit.system.broker.errors import BrokerError
from labkit.system.model.proto.pulsar_pb2 import ServerError
from labkit.system.topic.chain.chain import Position
from labkit.system.topic.cursors.cursor import ManagedCursor
from labkit.system.topic.managed_ledger import ManagedLedger


class Exclusive:
    """Chooses the only consumer."""

    announces = False

    def admit(self, consumer: Consumer, connected: Sequence[Consumer]) -> None:
        """Raises `BrokerError` while another is connected."""
        if connected:
            raise BrokerError(
                ServerError.ConsumerBusy,
                f"consumer {consumer.name!r} is refused: the exclusive subscription has the"
                f" consumer {connected[0].name!r}; close that one, or subscribe as Failover, Shared"
                " or Key_Shared",
            )

    def active(self, connected: Sequence[Consumer]) -> Consumer:
        """The consumer that gets the entries."""
        return connected[0]


class Failover:
    """Chooses a consumer for the topic with partition index `partition`, -1 for none."""

    announces = True

    def __init__(self, partition: int) -> None:
        self._partition = partition

    def admit(self, consumer: Consumer, connected: Sequence[Consumer]) -> None:
        """Every consumer may join."""

    def active(self, connected: Sequence[Consumer]) -> Consumer:
        """The consumer that gets the entries."""
        ordered = sorted(connected, key=lambda each: (each.priority, each.name))
        best = [each for each in ordered if each.priority == ordered[0].priority]
        return best[max(self._partition, 0) % len(best)]


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
            consumer.announce_active(consumer is self._active)

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
                consumer.announce_active(consumer is active)
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
