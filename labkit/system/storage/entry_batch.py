"""A run: entries of one ledger in a row, in the form of the entry log, each behind its length.

An answer to a batch read has the same form.  So what lies in the entry log one entry behind the
other goes out as one piece, with one look into the index for all of it.

BookKeeper reads entry by entry: `proto/BatchedReadEntryProcessor.java`.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple

from labkit.system.model.errors import StorageDamagedException
from labkit.system.storage.store import LedgerStore

_LENGTH = struct.Struct(">i")


class EntryBatch(NamedTuple):
    """Entries in a row: `pieces` are each one's length and bytes, joined where they lie so."""

    pieces: list[bytes]
    entry_count: int


def read_entries(
    store: LedgerStore, ledger_id: int, first: int, most: int, room: int
) -> EntryBatch:
    """Entries from `first` on: at most `most`, and with their lengths at most `room` bytes.

    It ends, perhaps at once, in front of an entry that is missing, cannot be read or does not fit.
    """
    pieces: list[bytes] = []
    entry_id, end = first, first + most
    while entry_id < end and room > 0:
        more = _from_memory(store, ledger_id, entry_id, end, room)
        if not more.entry_count:
            more = _from_log(store, ledger_id, entry_id, end, room)
        if not more.entry_count:
            break
        pieces += more.pieces
        room -= sum(map(len, more.pieces))
        entry_id += more.entry_count
    return EntryBatch(pieces, entry_id - first)


def _from_memory(store: LedgerStore, ledger_id: int, first: int, end: int, room: int) -> EntryBatch:
    pieces: list[bytes] = []
    # A flush may end meanwhile: the two are looked up once.
    newer, older = store.memtable, store.flushing
    for entry_id in range(first, end):
        data = newer.get(ledger_id, entry_id)
        if data is None and older is not None:
            data = older.get(ledger_id, entry_id)
        if data is None or (room := room - _LENGTH.size - len(data)) < 0:
            break
        pieces += (_LENGTH.pack(len(data)), data)
    return EntryBatch(pieces, len(pieces) // 2)


def _from_log(store: LedgerStore, ledger_id: int, first: int, end: int, room: int) -> EntryBatch:
    ledger = store.ledgers.get(ledger_id)
    locations: Sequence[int] = ledger.index.locations_from(first, end - first) if ledger else ()
    if not locations or not locations[0]:
        return EntryBatch([], 0)
    try:
        pieces, count = store.entry_logger.read_all(locations, ledger_id, first, room)
        if not count:
            # A large one, perhaps.
            data = store.entry_logger.read(locations[0], ledger_id, first)
            pieces, count = [_LENGTH.pack(len(data)) + data], 1
    except (StorageDamagedException, OSError):
        return EntryBatch([], 0)
    return EntryBatch(pieces, count) if sum(map(len, pieces)) <= room else EntryBatch([], 0)
