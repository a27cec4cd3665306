"""Finds positions in a topic by message id, publish time or number of entries.

In Pulsar: `broker/service/persistent/PersistentMessageFinder.java`,
`ServerCnx.handleGetLastMessageId`.
"""

from itertools import accumulate

from labkit.system.broker.dispatch.entry import read_entry
from labkit.system.broker.protocol.frames import message_id_data
from labkit.system.model.proto.pulsar_pb2 import MessageIdData
from labkit.system.topic.chain.ledger_chain import NOWHERE, Position
from labkit.system.topic.cursors.cursor import ManagedCursor
from labkit.system.topic.managed_ledger import ManagedLedger

EARLIEST: Position = NOWHERE
LATEST: Position = (2**63 - 1, 2**63 - 1)
"""The message id that clients send for the end of the topic; `EARLIEST` stands for its start."""


def first_or_next_free(ledger: ManagedLedger, position: Position) -> Position:
    """Return the first entry at or after the position, or else the next free position."""
    ledger_id, entry_id = position
    return ledger.chain.next_position((ledger_id, entry_id - 1))


def nth_unacknowledged(ledger: ManagedLedger, cursor: ManagedCursor, count: int) -> Position | None:
    """Return the `count`-th unacknowledged entry of the cursor, or None if there are fewer."""
    after = cursor.mark_delete
    for each in cursor.state.ranges:
        between = ledger.chain.entry_count(after, each.lower)
        if count <= between:
            break
        count -= between
        after = each.upper
    return ledger.chain.nth_after(after, count)


async def first_published_from(ledger: ManagedLedger, publish_time_ms: int) -> Position:
    """Return the first entry published at or after the given time, or else the next free position.

    This assumes that producers have accurate clocks, so that entries are sorted by publish time.
    """
    ledgers = ledger.ledgers
    ends = list(accumulate(link.entry_count for link in ledgers))
    # Use binary search: a topic may have millions of entries, and each step requires a read.
    low, high = 0, ends[-1] if ends else 0
    # Do not use LATEST, because it would skip entries that are stored during the search.
    position = (ledgers[-1].ledger_id, ledgers[-1].entry_count) if ledgers else EARLIEST
    while low < high:
        middle = (low + high) // 2
        index = next(i for i, end in enumerate(ends) if middle < end)
        probe = (ledgers[index].ledger_id, middle - ends[index] + ledgers[index].entry_count)
        entries = await ledger.read(probe, 1, 1)
        if entries and read_entry(entries[0]).metadata.publish_time < publish_time_ms:
            low = middle + 1
        else:
            high, position = middle, probe
    return first_or_next_free(ledger, position)


async def last_message_id(ledger: ManagedLedger, partition: int) -> MessageIdData:
    """Return the id of the topic's last message, with its batch index, or (-1, -1) if empty."""
    last = ledger.last_confirmed
    if last[1] < 0:
        return message_id_data(NOWHERE, partition)
    stored = await ledger.read(last, 1, 1)
    if not stored or stored[0].position != last:
        # The entry has been trimmed, so its batch size is unknown.
        return message_id_data(last, partition)
    entry = read_entry(stored[0])
    # Even a message that is alone in its batch has a batch index.
    is_batch = entry.metadata.HasField("num_messages_in_batch")
    batch_index = entry.message_count - 1 if is_batch else -1
    return message_id_data(last, partition, batch_index)
