"""Shared: entries go round among the consumers that can take more.

Consumers of the best priority (the lowest number) come first; the others get the entries that those
cannot take.  All chunks of a large message go to one consumer: otherwise no consumer could put them
together.

In Pulsar: `AbstractDispatcherMultipleConsumers.getNextConsumer`, `SharedConsumerAssignor.java`.
"""

from labkit.system.broker.dispatch.consumer import Consumer
from labkit.system.broker.dispatch.hashes import Holders, hash_of_key
from labkit.system.broker.dispatch.waiting import Receiver, Receivers
from labkit.system.model.proto.pulsar_pb2 import MessageMetadata

_ANY = -1


class Shared:
    """Chooses in turn."""

    keeps_order = False

    def __init__(self) -> None:
        self._in_turn: list[Consumer] = []
        self._holders = Holders()

    def add(self, consumer: Consumer) -> None:
        """The new consumer's turn comes last."""
        self._in_turn.append(consumer)

    def remove(self, consumer: Consumer) -> None:
        self._in_turn.remove(consumer)

    def hash_of(self, metadata: MessageMetadata) -> int:
        """The message that a chunk belongs to; keys do not matter here."""
        return hash_of_key(metadata.uuid.encode()) if metadata.num_chunks_from_msg > 1 else _ANY

    def receiver_of(self, key_hash: int) -> Receiver:
        """The consumer that has other chunks of the same message, or any consumer."""
        return self._holders.of(key_hash) or Receivers.ANY_CONSUMER

    def choose(self, key_hash: int) -> Consumer | None:
        """The consumer that may get an entry now; None: none can take it."""
        receiver = self.receiver_of(key_hash)
        if isinstance(receiver, Consumer):
            return receiver if receiver.can_take() else None
        able = (consumer for consumer in self._in_turn if consumer.can_take())
        return min(able, key=lambda each: each.priority, default=None)

    def handed_out(self, consumer: Consumer, key_hash: int) -> None:
        """Note that the consumer got an entry: its turn comes last now."""
        if key_hash != _ANY:
            self._holders.add(consumer, key_hash)
        self._in_turn.remove(consumer)
        self._in_turn.append(consumer)

    def given_back(self, key_hash: int) -> None:
        """One of the chunks was acknowledged, or its consumer no longer holds it."""
        if key_hash != _ANY:
            self._holders.remove(key_hash)
