"""Shared: entries are distributed round-robin among consumers that can receive more.

Consumers with the best priority (the lowest number) are served first. Other consumers get only the
entries that the preferred ones cannot receive. All chunks of a large message are sent to one
consumer, because otherwise no consumer could reassemble the message.

In Pulsar: `AbstractDispatcherMultipleConsumers.getNextConsumer`, `SharedConsumerAssignor.java`.
"""

from labkit.system.broker.dispatch.consumer import Consumer
from labkit.system.broker.dispatch.entry import bytes_of
from labkit.system.broker.dispatch.hashes import Holders, hash_of_key
from labkit.system.broker.dispatch.waiting import Receiver, Receivers
from labkit.system.model.proto.pulsar_pb2 import MessageMetadata

_NO_GROUP = -1
"""The group of all entries that are not chunks. Any consumer may receive them."""


class SharedSelector:
    keeps_order = False

    def __init__(self) -> None:
        self._round_robin: list[Consumer] = []
        self._holders = Holders()

    def add(self, consumer: Consumer) -> None:
        self._round_robin.append(consumer)

    def remove(self, consumer: Consumer) -> None:
        self._round_robin.remove(consumer)

    def group_of(self, metadata: MessageMetadata) -> int:
        """Return a hash of the large message to which a chunk belongs. Keys are ignored."""
        if metadata.num_chunks_from_msg <= 1:
            return _NO_GROUP
        return hash_of_key(bytes_of(metadata.uuid))

    def receiver_of(self, group: int) -> Receiver:
        """Return the consumer that holds other chunks of the same message, or else ANY_CONSUMER."""
        return self._holders.holder_of(group) or Receivers.ANY_CONSUMER

    def choose(self, group: int) -> Consumer | None:
        receiver = self.receiver_of(group)
        if isinstance(receiver, Consumer):
            return receiver if receiver.can_receive() else None
        ready = (consumer for consumer in self._round_robin if consumer.can_receive())
        return min(ready, key=lambda each: each.priority, default=None)

    def entry_sent(self, consumer: Consumer, group: int) -> None:
        if group != _NO_GROUP:
            self._holders.add(consumer, group)
        self._round_robin.remove(consumer)
        self._round_robin.append(consumer)

    def entry_released(self, group: int) -> None:
        if group != _NO_GROUP:
            self._holders.remove(group)
