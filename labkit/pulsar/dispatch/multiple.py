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

from labkit.pulsar.dispatch.consumer import Consumer
from labkit.pulsar.dispatch.delayed import Delayed
from labkit.pulsar.dispatch.dispatcher import MAX_ENTRIES, DispatchContext, Dispatcher, after
from labkit.pulsar.dispatch.entry import Entry
from labkit.pulsar.dispatch.key_shared import KeyShared
from labkit.pulsar.dispatch.shared import Shared
from labkit.topic.chain import Position
from labkit.topic.cursor import ManagedCursor
from labkit.topic.managed_ledger import ManagedLedger

MAX_WAITING = 20_000
"""Limit on entries that wait for consumers which take none, while later ones are read for others
(Pulsar: keySharedLookAheadMsgInReplayThresholdPerSubscription).
"""


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
        self.waiting: dict[Position, int] = {}
        """Entries that were read and not handed out, with the hashes of their keys."""
        self._delayed = Delayed()
        self._alarm: asyncio.TimerHandle | None = None
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
        self.wake()

    def remove(self, consumer: Consumer) -> None:
        """Give its entries to the others.  That alone does not count as a redelivery."""
        self.consumers.remove(consumer)
        self._choice.remove(consumer)
        for position in list(consumer.pending):
            self.waiting[position] = self._take_back(consumer, position)
        self.wake()

    def acknowledged(self, consumer: Consumer, positions: Sequence[Position]) -> None:
        """Note acknowledged entries: a consumer may acknowledge entries that another one got."""
        for position in positions:
            # Most consumers acknowledge their own entries, so this one is tried first.
            for holder in (consumer, *self.consumers):
                if position in holder.pending:
                    self._take_back(holder, position)
                    break
            self.waiting.pop(position, None)
            self._redeliveries.pop(position, None)
        self.wake()

    def redeliver(self, consumer: Consumer, positions: Sequence[Position], epoch: int) -> None:
        """Let the consumer's own entries among these wait again, and count the redelivery."""
        for position in positions or list(consumer.pending):
            if position in consumer.pending:
                self.waiting[position] = self._take_back(consumer, position)
                self._redeliveries[position] = self._redeliveries.get(position, 0) + 1
        self.wake()

    def _take_back(self, holder: Consumer, position: Position) -> int:
        key_hash = holder.pending.pop(position)
        self._choice.given_back(key_hash)
        return key_hash

    async def turn(self) -> bool:
        self.waiting.update(self._delayed.take_due(self._wall_clock_ms()))
        if self._alarm is None:
            self._set_alarm()
        return await self._hand_out_waiting() or await self._hand_out_new()

    async def _hand_out_waiting(self) -> bool:
        run = self._choose_waiting()
        if not run:
            return False
        read = await self.read_entries(run[0], len(run) * self.messages_per_entry)
        entries = {entry.position: entry for entry in read}
        held: set[int] = set()
        for position in run:
            key_hash = self.waiting.get(position)
            if key_hash is None:
                continue  # Acknowledged while it was read.
            if position in entries:
                self._place(entries[position], key_hash, held)
            elif position == run[0]:
                del self.waiting[position]  # Trimmed: it will never come.
            else:
                break  # Beyond the limits of this read: the next turn reads it.
        return True

    def _choose_waiting(self) -> list[Position]:
        """The first waiting entry that a consumer can take, and the entries next to it that
        consumers can take too: one read gets them all.
        """
        run: list[Position] = []
        held: set[int] = set()
        # In the order of the topic: a key's earlier entry must not wait behind a later one.
        for position, key_hash in sorted(self.waiting.items()):
            if key_hash in held or self._choice.choose(key_hash) is None:
                held.add(key_hash)
            elif not run or position == after(run[-1]):
                run.append(position)
            else:
                break
            if len(run) == MAX_ENTRIES:
                break
        return run

    async def _hand_out_new(self) -> bool:
        permits = sum(consumer.permits for consumer in self.consumers if consumer.can_take())
        if not permits or len(self.waiting) >= MAX_WAITING:
            return False
        entries = await self.read_entries(self.next_position, permits)
        held = set(self.waiting.values()) if self._choice.keeps_order else set()
        for entry in entries:
            # Moved even past an entry that waits: waiting entries are kept separately.
            self.next_position = after(entry.position)
            key_hash = self._choice.hash_of(entry.metadata)
            if entry.metadata.deliver_at_time > self._wall_clock_ms():
                self._keep_back(entry, key_hash)
            else:
                self._place(entry, key_hash, held)
        return bool(entries)

    def _keep_back(self, entry: Entry, key_hash: int) -> None:
        self._delayed.add(entry.metadata.deliver_at_time, entry.position, key_hash)
        if self._alarm is not None:
            self._alarm.cancel()
        self._set_alarm()

    def _set_alarm(self) -> None:
        due_ms = self._delayed.next_due_ms()
        if due_ms is not None:
            delay_s = max(1, due_ms - self._wall_clock_ms()) / 1000
            self._alarm = asyncio.get_running_loop().call_later(delay_s, self._ring)

    def _ring(self) -> None:
        self._alarm = None
        self.wake()

    def _place(self, entry: Entry, key_hash: int, held: set[int]) -> None:
        """Send the entry, or let it wait and add its hash to `held`: later ones then wait too."""
        position = entry.position
        if self.cursor.is_acknowledged(position):
            self.waiting.pop(position, None)
            return
        consumer = None if key_hash in held else self._choice.choose(key_hash)
        if consumer is None:
            self.waiting[position] = key_hash
            if self._choice.keeps_order:
                held.add(key_hash)
            return
        self.waiting.pop(position, None)
        consumer.pending[position] = key_hash
        self._choice.handed_out(consumer, key_hash)
        left = self.cursor.left_in_batch(position)
        consumer.send(entry, self._redeliveries.get(position, 0), left)
