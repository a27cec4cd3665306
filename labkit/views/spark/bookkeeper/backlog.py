"""Counts the entries and bytes in a lane that have not yet been read by a stream.

The chain of a topic contains the number of entries and the size of each closed ledger, so counting
needs no ledger metadata. The size of a part of a ledger is estimated from the ledger's average
entry size.
"""

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

from labkit.system.model.message_id import MessageId
from labkit.system.topic.chain.ledger_chain import LedgerInfo


class Backlog(NamedTuple):
    """The number of unread entries, and the number of their payload bytes."""

    entry_count: int
    size_bytes: int


def backlog(chain: Sequence[LedgerInfo], read: MessageId, newest: MessageId) -> Backlog:
    """Count the entries after `read`, up to and including `newest`.

    An entry counts as unread until all its messages have been read.
    """
    next_entry_id = read.entry_id + 1 if read.batch_index < 0 else read.entry_id
    entry_count = size_bytes = 0
    for info in chain[bisect_left(chain, read.ledger_id, key=lambda info: info.ledger_id) :]:
        if info.ledger_id > newest.ledger_id:
            break
        first = next_entry_id if info.ledger_id == read.ledger_id else 0
        end = newest.entry_id + 1 if info.ledger_id == newest.ledger_id else info.entry_count
        count = max(end - first, 0)
        entry_count += count
        size_bytes += count * info.size_bytes // max(info.entry_count, 1)
    return Backlog(entry_count, size_bytes)
