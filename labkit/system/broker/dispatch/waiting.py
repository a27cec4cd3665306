"""Entries that wait for a consumer, grouped by their key's hash and by receiver.

    receivers       one consumer, any consumer, or no consumer for now
      hashes        ordered by their first waiting entries
    entries         per hash, ordered by position

When the receiver of a hash changes, the hash moves to another queue, so no call scans the waiting
entries. The queues are heaps; stale items stay in them until they reach the top.

In Pulsar: `MessageRedeliveryController.java`.
"""

from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import TypeAlias

from labkit.system.broker.dispatch.consumer import Consumer
from labkit.system.topic.chain.ledger_chain import Position


class Receivers(Enum):
    ANY_CONSUMER = "any consumer"
    NO_CONSUMER = "no consumer for now"


Receiver: TypeAlias = Consumer | Receivers
"""The receiver of a hash's entries, whether or not it can receive an entry now."""


class WaitingEntries:
    def __init__(self, receiver_of: Callable[[int], Receiver]) -> None:
        """Call an `update` method whenever the results of `receiver_of` may have changed."""
        self._receiver_of = receiver_of
        self._hash_of: dict[Position, int] = {}
        self._entries: dict[int, list[Position]] = {}
        """A heap for each hash; positions after the first may have been discarded."""
        self._receivers: dict[int, Receiver] = {}
        self._queues: dict[Receiver, list[tuple[Position, int]]] = {}
        """A heap for each receiver: its hashes, ordered by their first entries."""

    def __len__(self) -> int:
        return len(self._hash_of)

    def __iter__(self) -> Iterator[Position]:
        return iter(self._hash_of)

    def first_of(self, key_hash: int) -> Position | None:
        entries = self._entries.get(key_hash)
        return entries[0] if entries else None

    def add(self, position: Position, key_hash: int) -> None:
        if position in self._hash_of:
            return
        self._hash_of[position] = key_hash
        entries = self._entries.setdefault(key_hash, [])
        heappush(entries, position)
        if entries[0] == position:
            self._enqueue(key_hash)

    def discard(self, position: Position) -> None:
        key_hash = self._hash_of.pop(position, None)
        if key_hash is not None and self._entries[key_hash][0] == position:
            self._remove_first(key_hash)

    def pop_ready(self, capacity: Mapping[Receiver, int], span: int) -> list[tuple[Position, int]]:
        """Remove and return the first entries that receivers have room for, and the entries'
        hashes.

        All of these entries are in one ledger, and their ids differ by less than `span`, so that a
        single read can fetch them all.
        """
        receivers, remaining = list(capacity), list(capacity.values())
        heads = [
            (first, index)
            for index, receiver in enumerate(receivers)
            if (first := self._first_for(receiver)) is not None
        ]
        heapify(heads)
        popped: list[tuple[Position, int]] = []
        while heads:
            position, index = heappop(heads)
            ledger_id, entry_id = popped[0][0] if popped else position
            if position[0] != ledger_id or position[1] >= entry_id + span:
                break
            popped.append((position, self._hash_of[position]))
            self.discard(position)
            remaining[index] -= 1
            following = self._first_for(receivers[index]) if remaining[index] else None
            if following is not None:
                heappush(heads, (following, index))
        return popped

    def update_receiver(self, key_hash: int) -> None:
        before = self._receivers.get(key_hash)
        if before is not None and self._receiver_of(key_hash) is not before:
            self._enqueue(key_hash)

    def update_all_receivers(self) -> None:
        self._queues.clear()
        for key_hash in self._entries:
            self._enqueue(key_hash)

    def _first_for(self, receiver: Receiver) -> Position | None:
        queue = self._queues.get(receiver, [])
        while queue:
            position, key_hash = queue[0]
            if self._receivers.get(key_hash) is receiver and self.first_of(key_hash) == position:
                return position
            heappop(queue)
        return None

    def _enqueue(self, key_hash: int) -> None:
        receiver = self._receivers[key_hash] = self._receiver_of(key_hash)
        if receiver is not Receivers.NO_CONSUMER:
            queue = self._queues.setdefault(receiver, [])
            heappush(queue, (self._entries[key_hash][0], key_hash))

    def _remove_first(self, key_hash: int) -> None:
        entries = self._entries[key_hash]
        heappop(entries)
        while entries and entries[0] not in self._hash_of:
            heappop(entries)
        if entries:
            self._enqueue(key_hash)
        else:
            del self._entries[key_hash], self._receivers[key_hash]
