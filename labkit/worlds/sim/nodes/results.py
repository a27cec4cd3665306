"""Records the results of the workload's calls."""

import zlib
from collections.abc import Iterable, Sequence

from labkit.system.model.entry import Entry
from labkit.system.topic.chain.ledger_chain import Position
from labkit.system.topic.messages import Message
from labkit.system.trace.answers import (
    AddReturned,
    AllAcknowledged,
    Answer,
    Content,
    EntriesRead,
    EntryAcknowledged,
    MarksFound,
    MessageContent,
    MessageDelivered,
    MessageGiven,
    MessageRead,
    MessageReceived,
    StartedOver,
    StepOutlastedRun,
    TopicUnloaded,
    Trimmed,
)
from labkit.system.trace.events import Event


class ResultRecorder:
    """All results of a run, in order. A step records each result as soon as the result is
    available.
    """

    def __init__(self, rows: Sequence[Event]) -> None:
        """`rows` contains the events of the run so far."""
        self.recorded: list[Answer] = []
        self._rows = rows

    def added(self, node: str, ledger_id: int, entry_id: int, payload: bytes) -> None:
        content = _content(entry_id, payload)
        self.recorded.append(AddReturned(len(self._rows), node, ledger_id, content))

    def read(
        self, node: str, ledger_id: int, first: int, last: int, entries: Iterable[Entry]
    ) -> None:
        """Record that a read of entries `first` to `last` returned these entries."""
        contents = tuple(_content(entry.entry_id, entry.payload) for entry in entries)
        self.recorded.append(EntriesRead(len(self._rows), node, ledger_id, first, last, contents))

    def message_given(self, topic: str, producer: str, sequence_id: int, payload: bytes) -> None:
        message = _message(topic, producer, sequence_id, payload)
        self.recorded.append(MessageGiven(len(self._rows), message))

    def message_read(self, topic: str, message: Message) -> None:
        message_id = message.message_id
        content = _message(topic, message.producer_name, message.sequence_id, message.payload)
        at = len(self._rows)
        self.recorded.append(MessageRead(at, content, message_id.ledger_id, message_id.entry_id))

    def message_received(self, consumer: str, since: int, topic: str, message: Message) -> None:
        """Record a message that was received by a consumer in the owner's process.

        `since` is the number of events that were recorded before the consumer started.
        """
        message_id, at = message.message_id, len(self._rows)
        content = _message(topic, message.producer_name, message.sequence_id, message.payload)
        self.recorded.append(
            MessageReceived(at, consumer, since, content, message_id.ledger_id, message_id.entry_id)
        )

    def message_delivered(
        self,
        arrived_at: int,
        consumer: str,
        broker: str,
        subscription: str,
        topic: str,
        message: Message,
        *,
        in_order: bool,
        durable: bool,
        keeps_keys: bool,
        connection: int,
    ) -> None:
        """Record that a consumer of the subscription received the message from this broker.

        `arrived_at` is the number of results that were recorded before the message arrived.
        """
        message_id = message.message_id
        content = _message(topic, message.producer_name, message.sequence_id, message.payload)
        who = consumer, broker, subscription, in_order, durable
        stream = message.key if keeps_keys else "", connection
        where = message_id.ledger_id, message_id.entry_id, message_id.batch_index
        self.recorded.append(
            MessageDelivered(len(self._rows), arrived_at, *who, *stream, content, *where)
        )

    def entry_acknowledged(
        self,
        consumer: str,
        broker: str,
        topic: str,
        subscription: str,
        requested_at: int,
        position: Position,
        batch_index: int,
    ) -> None:
        """Record that a broker confirmed the acknowledgement of an entry, or of a message in a
        batch.

        `requested_at` is the number of events that were recorded before the acknowledgement was
        sent.
        """
        who, where = (consumer, broker, topic, subscription), (*position, batch_index)
        self.recorded.append(EntryAcknowledged(len(self._rows), requested_at, *who, *where))

    def started_over(self, topic: str, subscription: str, *, is_done: bool) -> None:
        """Record that a subscription will be reset to its start or, if `is_done` is set, that it
        has been reset.
        """
        self.recorded.append(StartedOver(len(self._rows), topic, subscription, is_done))

    @property
    def event_count(self) -> int:
        return len(self._rows)

    def all_acknowledged(
        self, broker: str, topic: str, subscription: str, requested_at: int, position: Position
    ) -> None:
        """Record that the broker reported all messages up to this entry as acknowledged.

        `requested_at` is the number of events that were recorded before the request.
        """
        at = len(self._rows)
        self.recorded.append(
            AllAcknowledged(at, requested_at, broker, topic, subscription, *position)
        )

    def trimmed(self, topic: str, ledgers: Sequence[int]) -> None:
        """Record that the topic's ledger list was stored without these ledgers, which had been the
        first ones in the list.
        """
        self.recorded.append(Trimmed(len(self._rows), topic, tuple(ledgers)))

    def unloaded(self, broker: str, topic: str) -> None:
        self.recorded.append(TopicUnloaded(len(self._rows), broker, topic))

    def outlasted(self, node: str, step: str, waited_s: float, *, has_ended: bool) -> None:
        """Record that a step was still running at the end of the run, and whether the step ended in
        time afterwards.
        """
        at = len(self._rows)
        self.recorded.append(StepOutlastedRun(at, node, step, waited_s, has_ended))

    def marks_found(self, waited_s: float, ledgers: Sequence[int]) -> None:
        """Record the ledgers that are still marked as under-replicated at the end."""
        self.recorded.append(MarksFound(len(self._rows), waited_s, tuple(ledgers)))


def _content(entry_id: int, payload: bytes) -> Content:
    return Content(entry_id, len(payload), _checksum(payload))


def _message(topic: str, producer: str, sequence_id: int, payload: bytes) -> MessageContent:
    return MessageContent(topic, producer, sequence_id, len(payload), _checksum(payload))


def _checksum(payload: bytes) -> str:
    return f"{zlib.crc32(payload):08x}"
