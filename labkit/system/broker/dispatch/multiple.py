"""Several consumers share the entries: Shared and Key_Shared.

Each entry is in one of these places until it is acknowledged:

    ahead       after the read position: not read yet
    delayed     its producer wants it delivered later
    waiting     to be delivered, for the first time or again, as soon as a consumer can take it
    pending     sent to one consumer, which has not acknowledged it

A negative acknowledgement moves an entry from pending to waiting, and so does the end of its
consumer.  Waiting entries go before those ahead.  Where keys keep their order, an entry waits while
an earlier entry of the same hash waits.

In Pulsar: `PersistentDispatcherMultipleConsumers.java`,
`PersistentStickyKeyDispatcherMultipleConsumers.java`, `MessageRedeliveryController.java`.
"""

import asyncio
from collections.abc import Sequence

from labkit.system.broker.dispatch.consumer import Consumer
from labkit.system.broker.dispatch.delayed import Delayed
from labkit.system.broker.dispatch.dispatcher import MAX_ENTRIES, DispatchContext, Dispatcher, after
from labkit.system.broker.dispatch.entry import MessageEntry
from labkit.system.broker.dispatch.key_shared import KeyShared
from labkit.system.broker.dispatch.shared import Shared
from labkit.system.broker.dispatch.waiting import Receiver, Receivers, WaitingEntries
from labkit.system.model.errors import LabkitError
from labkit.system.topic.chain.chain import Position
from labkit.system.topic.cursors.cursor import ManagedCursor
from labkit.system.topic.managed_ledger import ManagedLedger

MAX_WAITING = 200_000
"""Limit on entries that wait for consumers which take none, while later ones are read for others
(Pulsar: keySharedLookAheadMsgInReplayThresholdPerSubscription, 20,000).  A waiting entry takes
150 to 320 bytes of memory here, and does not slow the others down.
"""
MAX_DUE = 1000
"""Delayed entries that become due in one turn: other clients have their turn before the next."""


class Multiple(Dispatcher):
    """Sends each entry to the consumer that `choice` names for it."""

    def __init__(
        self,
        ledger: ManagedLedger,
        cursor: ManagedCursor,
        choice: Shared | KeyShared,
        context: DispatchContext,
    ) -> None:
        super().__init__(ledger, cursor, context)
        self._choice = choice
        self._wall_clock_ms = context.wall_clock_ms
        self.waiting = WaitingEntries(choice.receiver_of)
        self._delayed = Delayed()
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms: int | None = None
        self._redeliveries: dict[Position, int] = {}

    def stop(self) -> None:
        """Hand out nothing more."""
        if self._alarm is not None:
            self._alarm.cancel()
        super().stop()

    def add(self, consumer: Consumer) -> None:
        """Raises `BrokerError` when it asks for hash ranges that are not available."""
        self._choice.add(consumer)
        self.consumers.append(consumer)
        self.waiting.update_all_receivers()
        self.wake()

    def remove(self, consumer: Consumer) -> None:
        """Give its entries to the others.  That alone does not count as a redelivery."""
        self.consumers.remove(consumer)
        self._choice.remove(consumer)
        self.waiting.update_all_receivers()
        for position in list(consumer.pending):
            self._give_back(consumer, position)
        self.wake()

    def acknowledged(self, consumer: Consumer, positions: Sequence[Position]) -> None:
        """Note acknowledged entries: a consumer may acknowledge entries that another one got."""
        for position in positions:
            # Most consumers acknowledge their own entries, so this one is tried first.
            for holder in (consumer, *self.consumers):
                if position in holder.pending:
                    self._take_back(holder, position)
                    break
            self.waiting.discard(position)
            self._redeliveries.pop(position, None)
        self.wake()

    def redeliver(self, consumer: Consumer, positions: Sequence[Position], epoch: int) -> None:
        """Let the consumer's own entries among these wait again, and count the redelivery."""
        for position in positions or list(consumer.pending):
            if position in consumer.pending:
                self._give_back(consumer, position)
                self._redeliveries[position] = self._redeliveries.get(position, 0) + 1
        self.wake()

    def _take_back(self, holder: Consumer, position: Position) -> int:
        key_hash = holder.pending.pop(position)
        self._choice.given_back(key_hash)
        self.waiting.update_receiver(key_hash)
        return key_hash

    def _give_back(self, holder: Consumer, position: Position) -> None:
        self.waiting.add(position, self._take_back(holder, position))

    async def turn(self) -> bool:
        due = self._delayed.take_due(self._wall_clock_ms(), MAX_DUE)
        for position, key_hash in due:
            self.waiting.add(position, key_hash)
        self._set_alarm()
        handed_out = await self._hand_out_waiting() or await self._hand_out_new()
        return handed_out or len(due) == MAX_DUE

    async def _hand_out_waiting(self) -> bool:
        taken = self.waiting.take(self._room(), MAX_ENTRIES)
        if not taken:
            return False
        (first, _), (last, _) = taken[0], taken[-1]
        try:
            # Entries between the taken ones are read with them: one read costs less than many.
            read = await self.read_entries(first, last[1] - first[1] + 1)
        except LabkitError:
            for position, key_hash in taken:
                self.waiting.add(position, key_hash)
            raise
        entries = {entry.position: entry for entry in read}
        for position, key_hash in taken:
            if position in entries:
                self._place(entries[position], key_hash)
            elif read and position > read[-1].position:
                self.waiting.add(position, key_hash)  # Beyond the limits of this read.
            # All others were trimmed.
        return True

    def _room(self) -> dict[Receiver, int]:
        """How many entries the consumers can take at this moment."""
        able = [consumer for consumer in self.consumers if consumer.can_take()]
        room: dict[Receiver, int] = {each: self.entries_for(each.permits) for each in able}
        if able:
            room[Receivers.ANY_CONSUMER] = self.entries_for(sum(each.permits for each in able))
        return room

    async def _hand_out_new(self) -> bool:
        permits = sum(consumer.permits for consumer in self.consumers if consumer.can_take())
        if not permits or len(self.waiting) >= MAX_WAITING:
            return False
        entries = await self.read_entries(self.next_position, self.entries_for(permits))
        for entry in entries:
            # Moved even past an entry that waits: waiting entries are kept separately.
            self.next_position = after(entry.position)
            key_hash = self._choice.hash_of(entry.metadata)
            if entry.metadata.deliver_at_time > self._wall_clock_ms():
                self._delayed.add(entry.metadata.deliver_at_time, entry.position, key_hash)
            else:
                self._place(entry, key_hash)
        self._set_alarm()
        return bool(entries)

    def _set_alarm(self) -> None:
        """Wake up when the next delayed entry is due."""
        due_ms = self._delayed.next_due_ms()
        if due_ms is None or due_ms == self._alarm_ms:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        delay_s = max(1, due_ms - self._wall_clock_ms()) / 1000
        self._alarm_ms = due_ms
        self._alarm = asyncio.get_running_loop().call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._alarm = self._alarm_ms = None
        self.wake()

    def _place(self, entry: MessageEntry, key_hash: int) -> None:
        """Send the entry, or let it wait.

        Everything that is decided here is looked up after the read: consumers may have joined, left
        or given entries back meanwhile.
        """
        position = entry.position
        if self.cursor.is_acknowledged(position):
            return
        consumer = None if self._waits_behind(position, key_hash) else self._choice.choose(key_hash)
        if consumer is None:
            self.waiting.add(position, key_hash)
            return
        consumer.pending[position] = key_hash
        self._choice.handed_out(consumer, key_hash)
        self.waiting.update_receiver(key_hash)
        left = self.cursor.left_in_batch(position)
        consumer.send(entry, self._redeliveries.get(position, 0), left)

    def _waits_behind(self, position: Position, key_hash: int) -> bool:
        """Whether an earlier entry of the hash waits, in a subscription that keeps their order."""
        first = self.waiting.first_of(key_hash) if self._choice.keeps_order else None
        return first is not None and first < position
