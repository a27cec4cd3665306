"""One consumer of a subscription: its permits and its unacknowledged entries.

A permit allows the broker to send one message. Every FLOW adds permits, and an entry uses one
permit for each message that is sent with it, so the number of permits may become negative.
Acknowledgements do not return permits. A consumer also receives nothing while its connection's send
buffer is full, because permits limit the number of messages but not their size.

In Pulsar: `broker/service/Consumer.java`.
"""

from collections.abc import Callable, Sequence

from labkit.system.broker.dispatch.entry import MessageEntry
from labkit.system.broker.protocol.connection import ClientConnection
from labkit.system.broker.protocol.frames import NO_REQUEST, message_id_data
from labkit.system.broker.traffic import Traffic
from labkit.system.model.proto.pulsar_pb2 import BaseCommand
from labkit.system.topic.chain.ledger_chain import Position
from labkit.system.topic.cursors.formats import to_java_longs

MAX_UNACKED = 50_000
"""Maximum number of unacknowledged entries (Pulsar: maxUnackedMessagesPerConsumer)."""


class Consumer:
    """A client's consumer; consumers with the lowest `priority` number are preferred."""

    def __init__(
        self,
        connection: ClientConnection,
        consumer_id: int,
        name: str,
        partition: int,
        on_disconnected: Callable[[int], None],
        *,
        priority: int = 0,
        hash_ranges: Sequence[tuple[int, int]] = (),
    ) -> None:
        """`on_disconnected` is called with the consumer's id when the broker disconnects it."""
        self.consumer_id = consumer_id
        self.name = name
        self.priority = priority
        self.hash_ranges = hash_ranges
        self.permits = 0
        self.pending_acks: dict[Position, int] = {}
        """Unacknowledged entries with their groups; used only by `multiple`."""
        self.epoch = 0
        self.traffic = Traffic()
        self.accepts_any_schema = False
        """Whether the schema type is AUTO_CONSUME."""
        self.is_connected = True
        """Whether the consumer is still one of its subscription's consumers."""
        self.connection = connection
        self._on_disconnected = on_disconnected
        # Reuse one command, because creating one takes longer than the rest of `send`.
        self._command = BaseCommand(type=BaseCommand.MESSAGE)
        self._command.message.consumer_id = consumer_id
        self._command.message.message_id.CopyFrom(message_id_data((0, 0), partition))

    def can_receive(self) -> bool:
        has_room = self.permits > 0 and len(self.pending_acks) < MAX_UNACKED
        return has_room and self.connection.is_writable

    def send(
        self, entry: MessageEntry, redelivery_count: int, unacknowledged_bits: int | None
    ) -> None:
        """Send an entry, or only the messages of the batch that `unacknowledged_bits` selects."""
        message, message_id = self._command.message, self._command.message.message_id
        message_id.ledgerId, message_id.entryId = entry.position
        message.redelivery_count = redelivery_count
        count = entry.message_count
        del message.ack_set[:]
        if unacknowledged_bits is not None:
            message.ack_set.extend(to_java_longs(unacknowledged_bits))
            count = unacknowledged_bits.bit_count()
        if self.epoch:
            message.consumer_epoch = self.epoch
        self.permits -= count
        self.traffic.add(count, len(entry.data))
        self.connection.send(self._command, entry.data)

    def send_active_change(self, is_active: bool) -> None:
        command = BaseCommand(type=BaseCommand.ACTIVE_CONSUMER_CHANGE)
        command.active_consumer_change.consumer_id = self.consumer_id
        command.active_consumer_change.is_active = is_active
        self.connection.send(command)

    def send_end_of_topic(self) -> None:
        command = BaseCommand(type=BaseCommand.REACHED_END_OF_TOPIC)
        command.reachedEndOfTopic.consumer_id = self.consumer_id
        self.connection.send(command)

    def disconnect(self) -> None:
        """Disconnect the consumer; its client will subscribe again."""
        self.is_connected = False
        self._on_disconnected(self.consumer_id)
        command = BaseCommand(type=BaseCommand.CLOSE_CONSUMER)
        command.close_consumer.consumer_id = self.consumer_id
        command.close_consumer.request_id = NO_REQUEST
        self.connection.send(command)
