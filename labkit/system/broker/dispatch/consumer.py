"""One consumer of a subscription: its permits and its unacknowledged entries.

A permit allows the broker to send one message. Every FLOW command adds permits. Sending an entry
uses one permit for each message that is sent, so the number of permits may become negative.
Acknowledgements do not return permits. Permits limit the number of messages, but not their size.
Therefore, a consumer also receives nothing while its connection's send buffer is full.

In Pulsar: `broker/service/Consumer.java`.
"""

from collections.abc import Callable, Sequence
from dataclasses import InitVar, dataclass, field

from labkit.system.broker.dispatch.entry import MessageEntry
from labkit.system.broker.protocol.connection import ClientConnection
from labkit.system.broker.protocol.frames import NO_REQUEST, message_id_data
from labkit.system.broker.traffic import Traffic
from labkit.system.model.proto.pulsar_pb2 import BaseCommand
from labkit.system.topic.chain.ledger_chain import Position
from labkit.system.topic.cursors.formats import to_java_longs

MAX_UNACKED = 50_000
"""The maximum number of unacknowledged entries (Pulsar: maxUnackedMessagesPerConsumer)."""


@dataclass(slots=True, eq=False)
class Consumer:
    """A client's consumer. Consumers with the lowest `priority` number are preferred."""

    connection: ClientConnection
    consumer_id: int
    name: str
    partition: InitVar[int]
    on_disconnected: Callable[[int], None]
    """Called with the consumer's id when the broker disconnects it."""
    priority: int = 0
    hash_ranges: Sequence[tuple[int, int]] = ()
    permits: int = field(default=0, init=False)
    pending_acks: dict[Position, int] = field(default_factory=dict, init=False)
    """The unacknowledged entries, with their groups; used only by `multiple`."""
    epoch: int = field(default=0, init=False)
    traffic: Traffic = field(default_factory=Traffic, init=False)
    accepts_any_schema: bool = field(default=False, init=False)
    """Whether the schema type is AUTO_CONSUME."""
    is_connected: bool = field(default=True, init=False)
    """Whether the consumer still belongs to its subscription."""
    _command: BaseCommand = field(init=False)
    """Reused, because creating a command takes longer than the rest of `send`."""

    def __post_init__(self, partition: int) -> None:
        self._command = BaseCommand(type=BaseCommand.MESSAGE)
        self._command.message.consumer_id = self.consumer_id
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
        """Disconnect the consumer. Its client will subscribe again."""
        self.is_connected = False
        self.on_disconnected(self.consumer_id)
        command = BaseCommand(type=BaseCommand.CLOSE_CONSUMER)
        command.close_consumer.consumer_id = self.consumer_id
        command.close_consumer.request_id = NO_REQUEST
        self.connection.send(command)
