"""The notes of a run's workload: what its calls returned."""

import zlib
from collections.abc import Iterable, Sequence

from labkit.system.model.entry import Entry
from labkit.system.topic.chain.chain import Position
from labkit.system.topic.messages import Message
from labkit.system.trace.answers import (
    AddAnswered,
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
from labkit.system.trace.recorder import Row


class ClientAnswers:
    """All answers of a run, in order; a step notes each as soon as it has it."""

    def __init__(self, rows: Sequence[Row]) -> None:
        """`rows` are the run's events so far."""
        self.noted: list[Answer] = []
        self._rows = rows

    def added(self, node: str, ledger_id: int, entry_id: int, payload: bytes) -> None:
        """An add of the payload returned that entry id."""
        content = _content(entry_id, payload)
        self.noted.append(AddAnswered(len(self._rows), node, ledger_id, content))

    def read(
        self, node: str, ledger_id: int, first: int, last: int, entries: Iterable[Entry]
    ) -> None:
        """A read of entries `first` to `last` returned these."""
        contents = tuple(_content(entry.entry_id, entry.payload) for entry in entries)
        self.noted.append(EntriesRead(len(self._rows), node, ledger_id, first, last, contents))

    def message_given(self, topic: str, producer: str, sequence_id: int, payload: bytes) -> None:
        """A producer is to send this message."""
        message = _message(topic, producer, sequence_id, payload)
        self.noted.append(MessageGiven(len(self._rows), message))

    def message_read(self, topic: str, message: Message) -> None:
        """The reader at the end got this message."""
        place = message.message_id
        content = _message(topic, message.producer_name, message.sequence_id, message.payload)
        at = len(self._rows)
        self.noted.append(MessageRead(at, content, place.ledger_id, place.entry_id))

    def message_received(self, consumer: str, since: int, topic: str, message: Message) -> None:
        """A consumer in the owner's process, begun after that many events, got the message."""
        place, at = message.message_id, len(self._rows)
        content = _message(topic, message.producer_name, message.sequence_id, message.payload)
        self.noted.append(
            MessageReceived(at, consumer, since, content, place.ledger_id, place.entry_id)
        )

    def message_delivered(
        self,
        came: int,
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
        """A consumer of the subscription got this message from that broker; `came`: the number of
        answers before it arrived.
        """
        place = message.message_id
        content = _message(topic, message.producer_name, message.sequence_id, message.payload)
        who = consumer, broker, subscription, in_order, durable
        line = message.key if keeps_keys else "", connection
        where = place.ledger_id, place.entry_id, place.batch_index
        self.noted.append(MessageDelivered(len(self._rows), came, *who, *line, content, *where))

    def entry_acknowledged(
        self,
        consumer: str,
        broker: str,
        topic: str,
        subscription: str,
        asked: int,
        position: Position,
        batch_index: int,
    ) -> None:
        """A broker took a consumer's acknowledgement of an entry, or of one message of a batch,
        which was sent after that many events.
        """
        who, where = (consumer, broker, topic, subscription), (*position, batch_index)
        self.noted.append(EntryAcknowledged(len(self._rows), asked, *who, *where))

    def started_over(self, topic: str, subscription: str, *, is_done: bool) -> None:
        """A consumer asks that the subscription goes back to the first message, or it is done."""
        self.noted.append(StartedOver(len(self._rows), topic, subscription, is_done))

    @property
    def event_count(self) -> int:
        return len(self._rows)

    def up_to_here(
        self, broker: str, topic: str, subscription: str, asked: int, position: Position
    ) -> None:
        """A broker says that the subscription has acknowledged all messages up to this entry; it
        was asked after that many events.
        """
        at = len(self._rows)
        self.noted.append(AllAcknowledged(at, asked, broker, topic, subscription, *position))

    def trimmed(self, topic: str, ledgers: Sequence[int]) -> None:
        """The topic's chain was stored without these ledgers, its first ones."""
        self.noted.append(Trimmed(len(self._rows), topic, tuple(ledgers)))

    def unloaded(self, broker: str, topic: str) -> None:
        """The broker says that it has unloaded the topic."""
        self.noted.append(TopicUnloaded(len(self._rows), broker, topic))

    def outlasted(self, node: str, step: str, waited_s: float, *, has_ended: bool) -> None:
        """A step was still under way at the end of the run."""
        at = len(self._rows)
        self.noted.append(StepOutlastedRun(at, node, step, waited_s, has_ended))

    def marked(self, waited_s: float, ledgers: Sequence[int]) -> None:
        """These ledgers are marked as short of copies, at the end."""
        self.noted.append(MarksFound(len(self._rows), waited_s, tuple(ledgers)))


def _content(entry_id: int, payload: bytes) -> Content:
    return Content(entry_id, len(payload), _checksum(payload))


def _message(topic: str, producer: str, sequence_id: int, payload: bytes) -> MessageContent:
    return MessageContent(topic, producer, sequence_id, len(payload), _checksum(payload))


def _checksum(payload: bytes) -> str:
    return f"{zlib.crc32(payload):08x}"
