"""The entries to read, and their division into tasks: pure functions.

    place     a ledger, an entry, and a slot: the index of a message in its batch
    span      consecutive entries of a ledger; of its first and last entry perhaps not all messages
    segment   a part of a ledger that lies on the same bookies
    task      the spans that a task reads: a part of a large segment, or several small ones

A task costs some 50 ms before it reads its first entry, so small pieces share a task.  Each piece
also costs some time whatever its size, so a task takes only a limited number of them.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

from labkit.system.model.ledger import LedgerMetadata
from labkit.system.model.message_id import MessageId

WHOLE = -1
"""A slot to stop at: after the entry's last message."""

_SMALL = 8
"""A task also takes the next segment while it has less than this share (1/8) of its limit."""

OPEN_COST = 96 << 10
"""The bytes that a task could read while it begins another piece: 0.9 ms at 100 MB/s.  Spark has
the same for files, `spark.sql.files.openCostInBytes`.
"""


class ReadPosition(NamedTuple):
    """As a beginning: the first message to read.  As an end: the slot before which to stop."""

    ledger_id: int
    entry_id: int
    slot: int


EARLIEST = ReadPosition(-1, 0, 0)
LATEST = ReadPosition((1 << 63) - 1, (1 << 63) - 1, WHOLE)


def beginning_at(message_id: MessageId) -> ReadPosition:
    """Begin with this message; batch index -1: with the first message of the entry."""
    return ReadPosition(message_id.ledger_id, message_id.entry_id, max(message_id.batch_index, 0))


def beginning_behind(message_id: MessageId) -> ReadPosition:
    """Begin with the next message; batch index -1: after the whole entry."""
    ledger_id, entry_id, slot = (message_id.ledger_id, message_id.entry_id, message_id.batch_index)
    return (
        ReadPosition(ledger_id, entry_id + 1, 0)
        if slot < 0
        else ReadPosition(ledger_id, entry_id, slot + 1)
    )


def ending_with(message_id: MessageId) -> ReadPosition:
    """End with this message; batch index -1: with the last message of the entry."""
    slot = WHOLE if message_id.batch_index < 0 else message_id.batch_index + 1
    return ReadPosition(message_id.ledger_id, message_id.entry_id, slot)


@dataclass(frozen=True, slots=True)
class KnownLedger:
    """A ledger as it was when the query was planned: `last_entry_id` is the last readable entry,
    and `length` the payload bytes up to it.
    """

    ledger_id: int
    metadata: LedgerMetadata
    last_entry_id: int
    length: int


@dataclass(frozen=True, slots=True)
class EntrySpan:
    """Entries `first` to `last`: the first one from slot `skip` on, the last one up to `stop`."""

    ledger: KnownLedger
    partition: int
    first: int
    last: int
    skip: int = 0
    stop: int = WHOLE

    @property
    def bytes_per_entry(self) -> int:
        """The average payload size, at least 1."""
        return max(self.ledger.length // (self.ledger.last_entry_id + 1), 1)

    @property
    def size_bytes(self) -> int:
        """The estimated size of its payloads, by the ledger's average."""
        return (self.last - self.first + 1) * self.bytes_per_entry

    def part(self, first: int, last: int) -> "EntrySpan":
        """The span's entries from `first` to `last`, at least one."""
        return replace(
            self,
            first=max(first, self.first),
            last=min(last, self.last),
            skip=self.skip if first <= self.first else 0,
            stop=self.stop if last >= self.last else WHOLE,
        )


def span_between(
    ledger: KnownLedger, partition: int, start: ReadPosition, end: ReadPosition
) -> EntrySpan | None:
    """The ledger's entries between the two places; None if there are none."""
    if not start.ledger_id <= ledger.ledger_id <= end.ledger_id:
        return None
    span = EntrySpan(ledger, partition, 0, ledger.last_entry_id)
    if ledger.ledger_id == start.ledger_id:
        span = replace(span, first=start.entry_id, skip=start.slot)
    if ledger.ledger_id == end.ledger_id and end.entry_id <= span.last:
        span = replace(span, last=end.entry_id, stop=end.slot)
    is_empty = span.first > span.last or (
        span.first == span.last and span.stop != WHOLE and span.skip >= span.stop
    )
    return None if is_empty else span


def by_segment(span: EntrySpan) -> Iterator[EntrySpan]:
    """The span, cut where the ledger changes to another ensemble."""
    firsts = [segment.first_entry_id for segment in span.ledger.metadata.segments]
    lasts = [first - 1 for first in firsts[1:]] + [span.last]
    for first, last in zip(firsts, lasts, strict=True):
        if first <= span.last and last >= span.first:
            yield span.part(first, last)


def tasks(spans: Iterable[EntrySpan], split_bytes: int) -> list[tuple[EntrySpan, ...]]:
    """The spans of each task, in order; a task never has spans of two partitions."""
    dealt: list[list[EntrySpan]] = []
    cost = 0
    for span in spans:
        for segment in by_segment(span):
            for piece in _cut(segment, split_bytes):
                fits = cost < split_bytes // _SMALL and cost + piece.size_bytes <= split_bytes
                if dealt and fits and dealt[-1][-1].partition == piece.partition:
                    dealt[-1].append(piece)
                else:
                    dealt.append([piece])
                    cost = 0
                cost += piece.size_bytes + OPEN_COST
    return [tuple(task) for task in dealt]


def _cut(span: EntrySpan, split_bytes: int) -> Iterator[EntrySpan]:
    """Equal parts, none larger than `split_bytes` unless a single entry is."""
    entry_count = span.last - span.first + 1
    part_count = min(-(-span.size_bytes // split_bytes), entry_count)
    for part in range(part_count):
        first = span.first + entry_count * part // part_count
        yield span.part(first, span.first + entry_count * (part + 1) // part_count - 1)
