"""A stream's offset: for each lane the last message that was read, as a MessageID.

A checkpoint contains it as `{"0": "12:345:0:-1", "1": "13:7:1:4"}`: partition 0 up to and including
all of entry 345 of ledger 12, partition 1 up to message 4 of the batch in entry 7 of ledger 13.
Entry -1: no entry of the ledger yet; ledger -1: no ledger yet.
"""

from collections.abc import Iterable, Mapping

from labkit.system.model.message_id import MessageId
from labkit.views.spark.bookkeeper.spans import EntrySpan

Offset = dict[int, MessageId]

_WHOLE_ENTRY = 1 << 62


def encode_offset(offset: Offset) -> dict[str, str]:
    """The offset as a dictionary, which Spark writes as JSON."""
    return {str(lane): str(message_id) for lane, message_id in sorted(offset.items())}


def decode_offset(data: Mapping[str, str]) -> Offset:
    """The inverse."""
    return {int(lane): _parse(text) for lane, text in data.items()}


def _parse(text: str) -> MessageId:
    ledger_id, entry_id, partition, batch_index = map(int, text.split(":"))
    return MessageId(ledger_id, entry_id, partition, batch_index)


def nothing_of(partition: int, ledger_id: int = -1) -> MessageId:
    """The offset before a ledger's first entry; without a ledger, before everything."""
    return MessageId(ledger_id, -1, partition, -1)


def just_before(first: MessageId) -> MessageId:
    """The offset just before this message."""
    ledger_id, partition = first.ledger_id, first.partition
    if first.batch_index > 0:
        return MessageId(ledger_id, first.entry_id, partition, first.batch_index - 1)
    return MessageId(ledger_id, first.entry_id - 1, partition, -1)


def order(message_id: MessageId) -> tuple[int, int, int]:
    """The sort key for ids of one lane: a whole entry comes after each of its messages."""
    slot = message_id.batch_index
    return message_id.ledger_id, message_id.entry_id, _WHOLE_ENTRY if slot < 0 else slot


def later(one: MessageId, other: MessageId) -> MessageId:
    """The later of two ids of one lane."""
    return max(one, other, key=order)


def earlier(one: MessageId, other: MessageId) -> MessageId:
    """The earlier of two ids of one lane."""
    return min(one, other, key=order)


def after_rows(span: EntrySpan, sizes: Iterable[int], max_rows: int) -> tuple[MessageId, int]:
    """The offset after at most `max_rows` (at least 1) messages of the span, and their number;
    `sizes` has the number of messages in each entry.
    """
    ledger_id, partition = span.ledger.ledger_id, span.partition
    at, taken = nothing_of(partition, ledger_id), 0
    for entry_id, size in enumerate(sizes, span.first):
        skip = span.skip if entry_id == span.first else 0
        stop = size
        if entry_id == span.last and span.stop >= 0:
            stop = min(span.stop, size)
        count = max(stop - skip, 0)
        if taken + count > max_rows:
            slot = skip + max_rows - taken - 1
            return MessageId(ledger_id, entry_id, partition, slot), max_rows
        taken += count
        at = MessageId(ledger_id, entry_id, partition, -1 if stop == size else stop - 1)
        if taken == max_rows:
            break
    return at, taken
