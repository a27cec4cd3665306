"""Which consumer holds unacknowledged entries of a hash.  Key_Shared asks here before it hands one
out, so that a hash has one holder at a time.
"""

from labkit.system.broker.dispatch.consumer import Consumer


class Holders:
    """For each hash with unacknowledged entries, the consumer that holds them, and their number."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[Consumer, int]] = {}

    def of(self, key_hash: int) -> Consumer | None:
        """The consumer that holds entries of the hash, if any."""
        consumer, _ = self._held.get(key_hash, (None, 0))
        return consumer

    def add(self, consumer: Consumer, key_hash: int) -> None:
        """Count one more entry of the hash for the consumer."""
        _, count = self._held.get(key_hash, (consumer, 0))
        self._held[key_hash] = consumer, count + 1

    def remove(self, key_hash: int) -> None:
        """Count one entry less: it was acknowledged, or its consumer no longer holds it."""
        consumer, count = self._held.pop(key_hash)
        if count > 1:
            self._held[key_hash] = consumer, count - 1
