"""Entries with delayed delivery, ordered by the time at which they are due.

These entries are kept only in memory; after a restart, the broker reads all unacknowledged entries
again.

In Pulsar: `broker/delayed/InMemoryDelayedDeliveryTracker.java`.
"""

import heapq

from labkit.system.topic.chain.ledger_chain import Position


class DelayedEntries:
    def __init__(self) -> None:
        self._heap: list[tuple[int, Position, int]] = []

    def add(self, due_ms: int, position: Position, group: int) -> None:
        heapq.heappush(self._heap, (due_ms, position, group))

    def pop_due(self, now_ms: int, max_entries: int) -> list[tuple[Position, int]]:
        due: list[tuple[Position, int]] = []
        while self._heap and self._heap[0][0] <= now_ms and len(due) < max_entries:
            _, position, group = heapq.heappop(self._heap)
            due.append((position, group))
        return due

    def next_due_ms(self) -> int | None:
        return self._heap[0][0] if self._heap else None
