"""The offset of a stream: the MessageID of the last message read from each lane.

In a checkpoint, `{"0": "12:345:0:-1", "1": "13:7:1:4"}` means that partition 0 has been read up to
and including all of entry 345 of ledger 12, and partition 1 up to message 4 of the batch in entry 7
of ledger 13. Entry -1 means that no entry of the ledger has been read yet, and ledger -1 means
that nothing has been read yet. A stream over several topics has one such dictionary for each
topic.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from labkit.system.model.message_id import MessageId
from labkit.views.spark.bookkeeper.options import OptionError, Options
from labkit.views.spark.bookkeeper.spans import EntrySpan, Lane

Offset = dict[Lane, MessageId]

Json = dict[str, Any]
"""A dictionary that Spark writes as JSON, to the checkpoint or to the query's progress."""

_WHOLE_ENTRY = 1 << 62


def encode_offset(offset: Offset, options: Options) -> Json:
    return by_topic({lane: str(message_id) for lane, message_id in offset.items()}, options)


def by_topic(values: Mapping[Lane, object], options: Options) -> Json:
    """Return the values by lane number or, if the query has several topics, by topic and lane
    number.
    """
    found: dict[str, Json] = {}
    for lane, value in sorted(values.items()):
        found.setdefault(lane.topic, {})[str(lane.number)] = value
    return found if options.has_several_topics else found.get(_only_topic(options), {})


def decode_offset(data: Json, options: Options) -> Offset:
    """Decode an offset. Raises `OptionError` if the checkpoint does not say which topic an id
    belongs to.
    """
    if any(isinstance(value, dict) for value in data.values()):
        return {
            Lane(topic, int(number)): parse_message_id(text)
            for topic, ids in data.items()
            for number, text in ids.items()
        }
    if data and options.has_several_topics:
        raise OptionError(
            "the checkpoint belongs to a query over one topic; use option 'topic' again, or start a"
            " query over several topics with another checkpointLocation"
        )
    topic = _only_topic(options)
    return {Lane(topic, int(number)): parse_message_id(text) for number, text in data.items()}


def _only_topic(options: Options) -> str:
    return options.topics[0] if options.topics else ""


def parse_message_id(text: str) -> MessageId:
    ledger_id, entry_id, partition, batch_index = map(int, text.split(":"))
    return MessageId(ledger_id, entry_id, partition, batch_index)


def before_first_entry(partition: int, ledger_id: int = -1) -> MessageId:
    """Return the offset before a ledger's first entry or, if no ledger is given, before all
    entries.
    """
    return MessageId(ledger_id, -1, partition, -1)


def just_before(first: MessageId) -> MessageId:
    ledger_id, partition = first.ledger_id, first.partition
    if first.batch_index > 0:
        return MessageId(ledger_id, first.entry_id, partition, first.batch_index - 1)
    return MessageId(ledger_id, first.entry_id - 1, partition, -1)


def order(message_id: MessageId) -> tuple[int, int, int]:
    """Return the sort key for ids within a lane; a whole entry sorts after its messages."""
    slot = message_id.batch_index
    return message_id.ledger_id, message_id.entry_id, _WHOLE_ENTRY if slot < 0 else slot


def after_rows(span: EntrySpan, sizes: Iterable[int], max_rows: int) -> tuple[MessageId, int]:
    """Return the offset after at most `max_rows` messages of the span, and the number of these
    messages.

    `sizes` is the number of messages in each entry; `max_rows` must be at least 1.
    """
    ledger_id, partition = span.ledger.ledger_id, span.lane.partition
    at, row_count = before_first_entry(partition, ledger_id), 0
    for entry_id, size in enumerate(sizes, span.first):
        skip = span.skip if entry_id == span.first else 0
        stop = size
        if entry_id == span.last and span.stop >= 0:
            stop = min(span.stop, size)
        count = max(stop - skip, 0)
        if row_count + count > max_rows:
            slot = skip + max_rows - row_count - 1
            return MessageId(ledger_id, entry_id, partition, slot), max_rows
        row_count += count
        at = MessageId(ledger_id, entry_id, partition, -1 if stop == size else stop - 1)
        if row_count == max_rows:
            break
    return at, row_count
