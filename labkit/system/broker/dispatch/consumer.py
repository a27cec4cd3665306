"""One consumer of a subscription: its permits, and the entries that it has not acknowledged.

A permit is one message.  Every FLOW adds permits, and every entry sent takes one for each of its
messages for the consumer, so a large batch may push the number below zero; the consumer then gets
nothing until FLOWs have brought it above zero.  Acknowledging gives no permit back: the client does
that with FLOW.  A consumer gets nothing while its connection is full either: permits limit the
number of messages, not their size.

In Pulsar: `broker/service/Consumer.java`.
"""

from collections.abc import Callable, Sequence

from labkit.system.broker.dispatch.entry import MessageEntry
from labkit.system.broker.protocol.connection import ClientConnection
from labkit.system.broker.protocol.frames import NO_REQUEST, message_id_data
from labkit.system.broker.traffic import Traffic
from labkit.system.model.proto.pulsar_pb2 import BaseCommand
from labkit.system.topic.chain.chain import Position
from labkit.system.topic.chain.formats import words_of

MOST_PENDING = 50_000
"""Unacknowledged entries, in Shared and Key_Shared (Pulsar: maxUnackedMessagesPerConsumer)."""


class Consumer:
    """A client's consumer, on its connection, of a topic with partition index `partition`.

    The lowest `priority` comes first.
    """

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
        """`on_disconnected` gets the consumer's id when `disconnect` sends the client away."""
        self.consumer_id = consumer_id
        self.name = name
        self.priority = priority
        self.hash_ranges = hash_ranges
        self.permits = 0
        self.pending: dict[Position, int] = {}
        """The entries that it has and has not acknowledged, with their keys' hashes."""
        self.epoch = 0
        self.traffic = Traffic()
        self.takes_any_schema = False
        """Whether it reads whatever schema the topic has (AUTO_CONSUME)."""
        self.is_connected = True
        self._connection = connection
        self._on_disconnected = on_disconnected
        # One command, refilled for each entry: creating one takes longer than everything else.
        self._command = BaseCommand(type=BaseCommand.MESSAGE)
        self._command.message.consumer_id = consumer_id
        self._command.message.message_id.CopyFrom(message_id_data((0, 0), partition))

    def can_take(self) -> bool:
        """Whether the consumer has permits, its client reads, and it has fewer unacknowledged
        entries than the limit.
        """
        return (
            self.permits > 0 and len(self.pending) < MOST_PENDING and self._connection.is_writable
        )

    def send(self, entry: MessageEntry, redelivery_count: int, left: int | None) -> None:
        """Deliver an entry.  Of a batch, `left` selects messages by its bits; None: all."""
        message, message_id = self._command.message, self._command.message.message_id
        message_id.ledgerId, message_id.entryId = entry.position
        message.redelivery_count = redelivery_count
        count = entry.message_count
        del message.ack_set[:]
        if left is not None:
            message.ack_set.extend(words_of(left))
            count = left.bit_count()
        if self.epoch:
            message.consumer_epoch = self.epoch
        self.permits -= count
        self.traffic.add(count, len(entry.data))
        self._connection.send(self._command, entry.data)

    def announce_active(self, is_active: bool) -> None:
        """Send whether this is the consumer that gets the entries of a Failover subscription."""
        command = BaseCommand(type=BaseCommand.ACTIVE_CONSUMER_CHANGE)
        command.active_consumer_change.consumer_id = self.consumer_id
        command.active_consumer_change.is_active = is_active
        self._connection.send(command)

    def announce_end(self) -> None:
        """Send that no message will follow: the topic is terminated, and all is acknowledged."""
        command = BaseCommand(type=BaseCommand.REACHED_END_OF_TOPIC)
        command.reachedEndOfTopic.consumer_id = self.consumer_id
        self._connection.send(command)

    def probe(self) -> None:
        """Another consumer wants its place: check that its client is alive."""
        self._connection.probe()

    def disconnect(self) -> None:
        """Close the consumer: its client looks the topic up and subscribes again."""
        self.is_connected = False
        self._on_disconnected(self.consumer_id)
        command = BaseCommand(type=BaseCommand.CLOSE_CONSUMER)
        command.close_consumer.consumer_id = self.consumer_id
        command.close_consumer.request_id = NO_REQUEST
        self._connection.send(command)
