"""Records the results of the workload's calls."""

import zlib
from collections.abc import Callable, Iterable, Sequence
from typing import Concatenate, ParamSpec

from labkit.system.model.entry import Entry
from labkit.system.topic.messages import Message
from labkit.system.trace.answers import AddReturned, Answer, Content, EntriesRead, MessageContent
from labkit.system.trace.events import Event

P = ParamSpec("P")


class ResultRecorder:
    """All results of a run, in order. A step records each result as soon as the result is
    available.
    """

    def __init__(self, rows: Sequence[Event]) -> None:
        """`rows` contains the events of the run so far."""
        self.recorded: list[Answer] = []
        self._rows = rows

    @property
    def event_count(self) -> int:
        return len(self._rows)

    def record(
        self, kind: Callable[Concatenate[int, P], Answer], *fields: P.args, **named: P.kwargs
    ) -> None:
        """Record a result, given its class and its fields except `at`."""
        self.recorded.append(kind(len(self._rows), *fields, **named))

    def added(self, node: str, ledger_id: int, entry_id: int, payload: bytes) -> None:
        self.record(AddReturned, node, ledger_id, _content(entry_id, payload))

    def read(
        self, node: str, ledger_id: int, first: int, last: int, entries: Iterable[Entry]
    ) -> None:
        """Record that a read of entries `first` to `last` returned these entries."""
        contents = tuple(_content(entry.entry_id, entry.payload) for entry in entries)
        self.record(EntriesRead, node, ledger_id, first, last, contents)


def _content(entry_id: int, payload: bytes) -> Content:
    return Content(entry_id, len(payload), _checksum(payload))


def message_content(topic: str, producer: str, sequence_id: int, payload: bytes) -> MessageContent:
    return MessageContent(topic, producer, sequence_id, len(payload), _checksum(payload))


def content_of(topic: str, message: Message) -> MessageContent:
    """Return the content of a message that was read from its topic."""
    return message_content(topic, message.producer_name, message.sequence_id, message.payload)


def _checksum(payload: bytes) -> str:
    return f"{zlib.crc32(payload):08x}"
