"""Distributes entries to the consumers of a Shared or Key_Shared subscription.

Until it has been acknowledged, an entry is in one of these states:

    unread      after the read position
    delayed     before its delivery time
    waiting     to be delivered or redelivered as soon as a consumer can receive it
    pending     sent to a consumer that has not acknowledged it yet

A negative acknowledgement moves an entry from pending to waiting. So does the disconnection of its
consumer. Waiting entries take precedence over unread ones.

The selector (`shared` or `key_shared`) assigns each entry to a group, and chooses the consumer for
each group. If the order within keys is preserved, an entry waits while an earlier entry of its
group is waiting.

In Pulsar: `PersistentDispatcherMultipleConsumers.java`,
`PersistentStickyKeyDispatcherMultipleConsumers.java`, `MessageRedeliveryController.java`,
`broker/delayed/InMemoryDelayedDeliveryTracker.java`.
"""

import asyncio
from collections.abc import Sequence
from heapq import heappop, heappush

from labkit.system.broker.dispatch.consumer import Consumer
from labkit.system.broker.dispatch.dispatcher import (
    MAX_READ_ENTRIES,
    DispatchContext,
    Dispatcher,
    after,
)
from labkit.system.broker.dispatch.entry import MessageEntry
from labkit.system.broker.dispatch.key_shared import KeySharedSelector
from labkit.system.broker.dispatch.shared import SharedSelector
from labkit.system.broker.dispatch.waiting import Receiver, Receivers, WaitingEntries
from labkit.system.model.errors import LabkitError
from labkit.system.topic.chain.ledger_chain import Position
from labkit.system.topic.cursors.cursor import ManagedCursor
from labkit.system.topic.managed_ledger import ManagedLedger

MAX_WAITING = 200_000
"""While this many entries are waiting, no unread entries are read. (Pulsar's default is 20,000:
keySharedLookAheadMsgInReplayThresholdPerSubscription.) A waiting entry uses 150 to 320 bytes of
memory and does not slow down dispatch.
"""
MAX_DUE_PER_TURN = 1000
"""The maximum number of delayed entries per turn, so that they cannot starve other clients."""


class MultipleConsumersDispatcher(Dispatcher):
    def __init__(
        self,
        ledger: ManagedLedger,
        cursor: ManagedCursor,
        selector: SharedSelector | KeySharedSelector,
        context: DispatchContext,
    ) -> None:
        super().__init__(ledger, cursor, context)
        self._selector = selector
        self._wall_clock_ms = context.wall_clock_ms
        self.waiting = WaitingEntries(selector.receiver_of)
        self._delayed: list[tuple[int, Position, int]] = []
        """A heap of delayed entries: due time, position and group. It is kept only in memory, so
        the broker reads all unacknowledged entries again after a restart.
        """
        self._due_timer: asyncio.TimerHandle | None = None
        self._due_timer_ms: int | None = None
        self._redeliveries: dict[Position, int] = {}

    def stop(self) -> None:
        if self._due_timer is not None:
            self._due_timer.cancel()
        super().stop()

    def add(self, consumer: Consumer) -> None:
        self._selector.add(consumer)
        self.consumers.append(consumer)
        self.waiting.update_all_receivers()
        self.wake()

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer, and redeliver its entries without increasing redelivery counts."""
        self.consumers.remove(consumer)
        self._selector.remove(consumer)
        self.waiting.update_all_receivers()
        for position in list(consumer.pending_acks):
            self._return_to_waiting(consumer, position)
        self.wake()

    def skip(self) -> None:
        mark_delete = self.cursor.mark_delete
        for consumer in self.consumers:
            for position in [each for each in consumer.pending_acks if each <= mark_delete]:
                self._remove_pending_ack(consumer, position)
                self._forget(position)
        for position in [each for each in self.waiting if each <= mark_delete]:
            self._forget(position)
        super().skip()

    def entries_acknowledged(self, consumer: Consumer, positions: Sequence[Position]) -> None:
        """Record acknowledgements. The entries may have been sent to other consumers."""
        for position in positions:
            # Try this consumer first, because consumers mostly acknowledge their own entries.
            for holder in (consumer, *self.consumers):
                if position in holder.pending_acks:
                    self._remove_pending_ack(holder, position)
                    break
            self._forget(position)
        self.wake()

    def _forget(self, position: Position) -> None:
        """Forget an entry that is not pending and has been acknowledged or trimmed."""
        self.waiting.discard(position)
        self._redeliveries.pop(position, None)

    def redeliver(self, consumer: Consumer, positions: Sequence[Position], epoch: int) -> None:
        for position in positions or list(consumer.pending_acks):
            if position in consumer.pending_acks:
                self._return_to_waiting(consumer, position)
                self._redeliveries[position] = self._redeliveries.get(position, 0) + 1
        self.wake()

    def _remove_pending_ack(self, holder: Consumer, position: Position) -> int:
        group = holder.pending_acks.pop(position)
        self._selector.entry_released(group)
        self.waiting.update_receiver(group)
        return group

    def _return_to_waiting(self, holder: Consumer, position: Position) -> None:
        self.waiting.add(position, self._remove_pending_ack(holder, position))

    async def dispatch_some(self) -> bool:
        now_ms, due_count = self._wall_clock_ms(), 0
        while self._delayed and self._delayed[0][0] <= now_ms and due_count < MAX_DUE_PER_TURN:
            _, position, group = heappop(self._delayed)
            self.waiting.add(position, group)
            due_count += 1
        self._schedule_due_timer()
        has_sent = await self._send_waiting() or await self._send_unread()
        return has_sent or due_count == MAX_DUE_PER_TURN

    async def _send_waiting(self) -> bool:
        candidates = self.waiting.pop_ready(self._capacity(), MAX_READ_ENTRIES)
        if not candidates:
            return False
        (first, _), (last, _) = candidates[0], candidates[-1]
        try:
            # Also read the entries in between: one large read costs less than many small ones.
            read = await self.read_entries(first, last[1] - first[1] + 1)
        except LabkitError:
            for position, group in candidates:
                self.waiting.add(position, group)
            raise
        entries = {entry.position: entry for entry in read}
        for position, group in candidates:
            if position in entries:
                self._send_or_wait(entries[position], group)
            elif read and position > read[-1].position:
                self.waiting.add(position, group)  # The read reached its limit before this entry.
            else:
                self._forget(position)  # All other missing entries have been trimmed.
        return True

    def _capacity(self) -> dict[Receiver, int]:
        """Return how many waiting entries to read for each receiver.

        The permits of a consumer are counted both for that consumer and for ANY_CONSUMER. The
        dispatcher may therefore read more entries than it can send; `_send_or_wait` puts the
        others back.
        """
        ready = [consumer for consumer in self.consumers if consumer.can_receive()]
        capacity: dict[Receiver, int] = {
            each: self.entries_for_permits(each.permits) for each in ready
        }
        if ready:
            capacity[Receivers.ANY_CONSUMER] = self.entries_for_permits(
                sum(each.permits for each in ready)
            )
        return capacity

    async def _send_unread(self) -> bool:
        permits = sum(consumer.permits for consumer in self.consumers if consumer.can_receive())
        if not permits or len(self.waiting) >= MAX_WAITING:
            return False
        entries = await self.read_entries(self.next_position, self.entries_for_permits(permits))
        for entry in entries:
            self.next_position = after(entry.position)
            group = self._selector.group_of(entry.metadata)
            if entry.metadata.deliver_at_time > self._wall_clock_ms():
                due_ms = entry.metadata.deliver_at_time
                heappush(self._delayed, (due_ms, entry.position, group))
            else:
                self._send_or_wait(entry, group)
        self._schedule_due_timer()
        return bool(entries)

    def _schedule_due_timer(self) -> None:
        if not self._delayed or (due_ms := self._delayed[0][0]) == self._due_timer_ms:
            return
        if self._due_timer is not None:
            self._due_timer.cancel()
        delay_s = max(1, due_ms - self._wall_clock_ms()) / 1000
        self._due_timer_ms = due_ms
        self._due_timer = asyncio.get_running_loop().call_later(delay_s, self._on_due_timer)

    def _on_due_timer(self) -> None:
        self._due_timer = self._due_timer_ms = None
        self.wake()

    def _send_or_wait(self, entry: MessageEntry, group: int) -> None:
        """Send the entry or let it wait, depending on the state after the read."""
        position = entry.position
        if self.cursor.is_acknowledged(position):
            self._forget(position)
            return
        consumer = None if self._waits_behind(position, group) else self._selector.choose(group)
        if consumer is None:
            self.waiting.add(position, group)
            return
        consumer.pending_acks[position] = group
        self._selector.entry_sent(consumer, group)
        self.waiting.update_receiver(group)
        redeliveries = self._redeliveries.get(position, 0)
        consumer.send(entry, redeliveries, self.cursor.unacknowledged_in_batch(position))

    def _waits_behind(self, position: Position, group: int) -> bool:
        first = self.waiting.first_of(group) if self._selector.keeps_order else None
        return first is not None and first < position
