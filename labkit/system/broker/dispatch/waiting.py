"""Entries that wait for a consumer: a queue of groups for each receiver.

    receiver    one consumer, any consumer, or no consumer for now
    group       entries with the same receiver, ordered by position

When the receiver of a group changes, the group moves to another queue, so no call has to scan the
waiting entries. The queues are heaps, in which stale items remain until they reach the top.

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
"""Which consumer gets a group's entries, whether or not it can receive one now."""


class WaitingEntries:
    def __init__(self, receiver_of: Callable[[int], Receiver]) -> None:
        """`receiver_of` returns the receiver of a group. Call `update_receiver` or
        `update_all_receivers` whenever the results of `receiver_of` may have changed.
        """
        self._receiver_of = receiver_of
        self._group_of: dict[Position, int] = {}
        self._entries: dict[int, list[Position]] = {}
        """A heap for each group, in which only the first position is certain not to be stale."""
        self._receivers: dict[int, Receiver] = {}
        self._queues: dict[Receiver, list[tuple[Position, int]]] = {}
        """For each receiver, a heap of its groups, ordered by their earliest waiting positions."""

    def __len__(self) -> int:
        return len(self._group_of)

    def __iter__(self) -> Iterator[Position]:
        return iter(self._group_of)

    def first_of(self, group: int) -> Position | None:
        entries = self._entries.get(group)
        return entries[0] if entries else None

    def add(self, position: Position, group: int) -> None:
        if position in self._group_of:
            return
        self._group_of[position] = group
        entries = self._entries.setdefault(group, [])
        heappush(entries, position)
        if entries[0] == position:
            self._enqueue(group)

    def discard(self, position: Position) -> None:
        group = self._group_of.pop(position, None)
        if group is None or self._entries[group][0] != position:
            return
        entries = self._entries[group]
        while entries and entries[0] not in self._group_of:
            heappop(entries)
        if entries:
            self._enqueue(group)
        else:
            del self._entries[group], self._receivers[group]

    def pop_ready(self, capacity: Mapping[Receiver, int], span: int) -> list[tuple[Position, int]]:
        """Remove and return the first entries that receivers have room for, with their groups.

        All of these entries are in one ledger, and their ids differ by less than `span`, so one
        read can fetch them all.
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
            popped.append((position, self._group_of[position]))
            self.discard(position)
            remaining[index] -= 1
            following = self._first_for(receivers[index]) if remaining[index] else None
            if following is not None:
                heappush(heads, (following, index))
        return popped

    def update_receiver(self, group: int) -> None:
        before = self._receivers.get(group)
        if before is not None and self._receiver_of(group) is not before:
            self._enqueue(group)

    def update_all_receivers(self) -> None:
        self._queues.clear()
        for group in self._entries:
            self._enqueue(group)

    def _first_for(self, receiver: Receiver) -> Position | None:
        queue = self._queues.get(receiver, [])
        while queue:
            position, group = queue[0]
            if self._receivers.get(group) is receiver and self.first_of(group) == position:
                return position
            heappop(queue)
        return None

    def _enqueue(self, group: int) -> None:
        receiver = self._receivers[group] = self._receiver_of(group)
        if receiver is not Receivers.NO_CONSUMER:
            queue = self._queues.setdefault(receiver, [])
            heappush(queue, (self._entries[group][0], group))
