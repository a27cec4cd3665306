"""Pure functions that divide the entries to read into tasks.

    lane      a sequence of entries: a partition of a topic, or one of the listed ledgers
    position  a ledger id, an entry id, and a slot (the index of a message in its batch)
    span      consecutive entries of a ledger, possibly without some messages of the first and the
              last entry
    task      the spans that a Spark task reads: part of a large ledger, or several small ledgers

A task needs about 50 ms before it reads its first entry, so small ledgers share a task. Each ledger
adds some fixed cost, so the number of ledgers in a task is limited.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from labkit.system.model.message_id import MessageId

WHOLE = -1
"""The slot at which to stop in order to read the whole entry."""

_SMALL = 8
"""Another ledger is added to a task only if the task is below 1/8 of its size limit."""

OPEN_COST = 96 << 10
"""The fixed cost of a ledger, as the number of bytes that could be read in the same time: 0.9 ms
at 100 MB/s. It corresponds to Spark's `spark.sql.files.openCostInBytes` for files.
"""


class Lane(NamedTuple):
    """A partition of a topic, or a ledger. `number` is the partition's index or the ledger's id;
    for a ledger, `topic` is "".
    """

    topic: str
    number: int

    @property
    def partition(self) -> int:
        """The partition that appears in this lane's MessageIDs."""
        return self.number if self.topic else -1


class ReadPosition(NamedTuple):
    """A bound of the messages to read. A start is the first message to read, and an end is the
    first slot that is not read.
    """

    ledger_id: int
    entry_id: int
    slot: int


EARLIEST = ReadPosition(-1, 0, 0)
LATEST = ReadPosition((1 << 63) - 1, (1 << 63) - 1, WHOLE)


def starting_at(message_id: MessageId) -> ReadPosition:
    """Start with this message, or with the entry's first message if the batch index is -1."""
    return ReadPosition(message_id.ledger_id, message_id.entry_id, max(message_id.batch_index, 0))


def starting_after(message_id: MessageId) -> ReadPosition:
    """Start after this message, or after the whole entry if the batch index is -1."""
    ledger_id, entry_id, slot = (message_id.ledger_id, message_id.entry_id, message_id.batch_index)
    return (
        ReadPosition(ledger_id, entry_id + 1, 0)
        if slot < 0
        else ReadPosition(ledger_id, entry_id, slot + 1)
    )


def ending_with(message_id: MessageId) -> ReadPosition:
    """End with this message, or with the entry's last message if the batch index is -1."""
    slot = WHOLE if message_id.batch_index < 0 else message_id.batch_index + 1
    return ReadPosition(message_id.ledger_id, message_id.entry_id, slot)


@dataclass(frozen=True, slots=True)
class LedgerSnapshot:
    """The state of a ledger when the query was planned.

    `last_entry_id` is the last readable entry, and `length` is the number of payload bytes up to
    and including that entry.
    """

    ledger_id: int
    last_entry_id: int
    length: int


@dataclass(frozen=True, slots=True)
class EntrySpan:
    """The entries from `first` to `last`, without the first entry's slots before `skip` and the
    last entry's slots from `stop` on.
    """

    ledger: LedgerSnapshot
    lane: Lane
    first: int
    last: int
    skip: int = 0
    stop: int = WHOLE

    @property
    def bytes_per_entry(self) -> int:
        """The ledger's average payload size, at least 1."""
        return max(self.ledger.length // (self.ledger.last_entry_id + 1), 1)

    @property
    def size_bytes(self) -> int:
        """The estimated total payload size, based on the ledger's average entry size."""
        return (self.last - self.first + 1) * self.bytes_per_entry

    def part(self, first: int, last: int) -> "EntrySpan":
        """Return the part of the span from entry `first` to `last`; it must not be empty."""
        return replace(
            self,
            first=max(first, self.first),
            last=min(last, self.last),
            skip=self.skip if first <= self.first else 0,
            stop=self.stop if last >= self.last else WHOLE,
        )


def span_between(
    ledger: LedgerSnapshot, lane: Lane, start: ReadPosition, end: ReadPosition
) -> EntrySpan | None:
    """Return the ledger's entries between two positions, or None if there are none."""
    if not start.ledger_id <= ledger.ledger_id <= end.ledger_id:
        return None
    span = EntrySpan(ledger, lane, 0, ledger.last_entry_id)
    if ledger.ledger_id == start.ledger_id:
        span = replace(span, first=start.entry_id, skip=start.slot)
    if ledger.ledger_id == end.ledger_id and end.entry_id <= span.last:
        span = replace(span, last=end.entry_id, stop=end.slot)
    is_empty = span.first > span.last or (
        span.first == span.last and span.stop != WHOLE and span.skip >= span.stop
    )
    return None if is_empty else span


def tasks(
    spans: Sequence[EntrySpan], split_bytes: int, min_count: int = 1
) -> list[tuple[EntrySpan, ...]]:
    """Return the spans of each task, in order; the spans of a task belong to the same partition.

    There are at least `min_count` tasks if there are enough entries of about the same size.
    """
    if min_count > 1:
        total_bytes = sum(span.size_bytes for span in spans)
        split_bytes = max(min(split_bytes, total_bytes // min_count), 1)
    task_spans: list[list[EntrySpan]] = []
    cost = 0
    before = None
    for span in spans:
        partition = span.lane.topic, span.lane.partition
        for piece in _split(span, split_bytes):
            fits = cost < split_bytes // _SMALL and cost + piece.size_bytes <= split_bytes
            if fits and partition == before:
                task_spans[-1].append(piece)
            else:
                task_spans.append([piece])
                cost = 0
            cost += piece.size_bytes + OPEN_COST
            before = partition
    return [tuple(task) for task in task_spans]


def _split(span: EntrySpan, split_bytes: int) -> Iterator[EntrySpan]:
    """Split the span into equal parts of at most `split_bytes`, unless a single entry is larger."""
    entry_count = span.last - span.first + 1
    part_count = min(-(-span.size_bytes // split_bytes), entry_count)
    for part in range(part_count):
        first = span.first + entry_count * part // part_count
        yield span.part(first, span.first + entry_count * (part + 1) // part_count - 1)
