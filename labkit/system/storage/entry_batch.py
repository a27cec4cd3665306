"""Reads batches of consecutive entries of one ledger, each preceded by its length.

The entry log and the response to a batch read use the same format, so consecutive entries of the
log are sent as one slice of the file.

In BookKeeper: `proto/BatchedReadEntryProcessor.java`, which reads the entries one at a time.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from labkit.system.model.errors import StorageDamagedException
from labkit.system.storage.store import LedgerStore

_LENGTH = struct.Struct(">i")


class EntryBatch(NamedTuple):
    """A batch of entries, each preceded by its length. A piece contains one or more entries, or
    part of an entry.
    """

    pieces: list[bytes]
    entry_count: int


def read_entries(
    store: LedgerStore, ledger_id: int, first: int, max_entries: int, max_bytes: int
) -> EntryBatch:
    """Read entries, starting with `first`, until one is missing, unreadable or too large.

    `max_bytes` limits the size of the result, including the length fields.
    """
    pieces: list[bytes] = []
    entry_id, end = first, first + max_entries
    while entry_id < end and max_bytes > 0:
        more = _from_memory(store, ledger_id, entry_id, end, max_bytes)
        if not more.entry_count:
            more = _from_log(store, ledger_id, entry_id, end, max_bytes)
        if not more.entry_count:
            break
        pieces += more.pieces
        max_bytes -= sum(map(len, more.pieces))
        entry_id += more.entry_count
    return EntryBatch(pieces, entry_id - first)


def _from_memory(
    store: LedgerStore, ledger_id: int, first: int, end: int, max_bytes: int
) -> EntryBatch:
    pieces: list[bytes] = []
    for entry_id in range(first, end):
        data = store.entry_in_memory(ledger_id, entry_id)
        if data is None or (max_bytes := max_bytes - _LENGTH.size - len(data)) < 0:
            break
        pieces += (_LENGTH.pack(len(data)), data)
    return EntryBatch(pieces, len(pieces) // 2)


def _from_log(
    store: LedgerStore, ledger_id: int, first: int, end: int, max_bytes: int
) -> EntryBatch:
    ledger = store.ledgers.get(ledger_id)
    locations: Sequence[int] = ledger.index.locations_from(first, end - first) if ledger else ()
    if not locations or not locations[0]:
        return EntryBatch([], 0)
    try:
        pieces, count = store.entry_logger.read_all(locations, ledger_id, first, max_bytes)
        if not count:
            # The first entry may be larger than the part of the log that was read, so read it
            # separately.
            data = store.entry_logger.read(locations[0], ledger_id, first)
            pieces, count = [_LENGTH.pack(len(data)) + data], 1
    except (StorageDamagedException, OSError):
        return EntryBatch([], 0)
    return EntryBatch(pieces, count) if sum(map(len, pieces)) <= max_bytes else EntryBatch([], 0)
