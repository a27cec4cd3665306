"""Shared: entries are distributed round-robin over the consumers that can receive more.

Consumers with the best priority (the lowest number) come first; the others get only the entries
that these consumers cannot receive. All chunks of a large message go to one consumer, because
otherwise no consumer could reassemble the message.

In Pulsar: `AbstractDispatcherMultipleConsumers.getNextConsumer`, `SharedConsumerAssignor.java`.
"""

from labkit.system.broker.dispatch.consumer import Consumer
from labkit.system.broker.dispatch.entry import bytes_of
from labkit.system.broker.dispatch.hashes import Holders, hash_of_key
from labkit.system.broker.dispatch.waiting import Receiver, Receivers
from labkit.system.model.proto.pulsar_pb2 import MessageMetadata

_ANY = -1


class SharedSelector:
    keeps_order = False

    def __init__(self) -> None:
        self._round_robin: list[Consumer] = []
        self._holders = Holders()

    def add(self, consumer: Consumer) -> None:
        self._round_robin.append(consumer)

    def remove(self, consumer: Consumer) -> None:
        self._round_robin.remove(consumer)

    def hash_of(self, metadata: MessageMetadata) -> int:
        """Return the hash of the message that a chunk belongs to; keys are ignored."""
        return hash_of_key(bytes_of(metadata.uuid)) if metadata.num_chunks_from_msg > 1 else _ANY

    def receiver_of(self, key_hash: int) -> Receiver:
        """Return the consumer that holds other chunks of the same message, or else ANY_CONSUMER."""
        return self._holders.holder_of(key_hash) or Receivers.ANY_CONSUMER

    def choose(self, key_hash: int) -> Consumer | None:
        receiver = self.receiver_of(key_hash)
        if isinstance(receiver, Consumer):
            return receiver if receiver.can_receive() else None
        ready = (consumer for consumer in self._round_robin if consumer.can_receive())
        return min(ready, key=lambda each: each.priority, default=None)

    def entry_sent(self, consumer: Consumer, key_hash: int) -> None:
        if key_hash != _ANY:
            self._holders.add(consumer, key_hash)
        self._round_robin.remove(consumer)
        self._round_robin.append(consumer)

    def entry_released(self, key_hash: int) -> None:
        if key_hash != _ANY:
            self._holders.remove(key_hash)
