"""Entries whose delivery their producers delayed, in the order in which they are due.

They are kept only in memory: a broker that starts reads all unacknowledged entries, and so finds
the delayed ones again.

In Pulsar: `broker/delayed/InMemoryDelayedDeliveryTracker.java`.
"""

import heapq

from labkit.system.topic.chain.chain import Position


class Delayed:
    """Positions with the time at which they are due, in milliseconds since 1970."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, Position, int]] = []

    def add(self, due_ms: int, position: Position, key_hash: int) -> None:
        """Keep an entry back."""
        heapq.heappush(self._heap, (due_ms, position, key_hash))

    def take_due(self, now_ms: int, most: int) -> list[tuple[Position, int]]:
        """Remove and return entries, with their key's hash, that are due by now."""
        due: list[tuple[Position, int]] = []
        while self._heap and self._heap[0][0] <= now_ms and len(due) < most:
            _, position, key_hash = heapq.heappop(self._heap)
            due.append((position, key_hash))
        return due

    def next_due_ms(self) -> int | None:
        """When the next one is due; None if there is none."""
        return self._heap[0][0] if self._heap else None
