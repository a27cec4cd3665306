"""A batch read: as many entries in a row as fit into one answer.

In BookKeeper: `proto/BatchedReadEntryProcessor.java`.
"""

from collections.abc import Callable

from labkit.system.model.batch_read import encode_size, room_for, room_taken
from labkit.system.model.wire import BatchReadRequest
from labkit.system.storage.entry_batch import EntryBatch, read_entries
from labkit.system.storage.store import LedgerStore

MOST_ENTRIES = 1000
"""In an answer, whatever the request says: finding more would keep other clients waiting."""


def read_batch(
    read: Callable[[int, int], bytes], store: LedgerStore, request: BatchReadRequest
) -> EntryBatch:
    """At least the first entry; the batch ends in front of an entry that does not fit or cannot be
    read.  Raises what `read`, the bookie's own, raises for the first.
    """
    first, ledger_id = request.first_entry_id, request.ledger_id
    entry = read(ledger_id, first)
    most = min(request.max_count, MOST_ENTRIES) if request.max_count > 0 else MOST_ENTRIES
    room = room_for(request) - room_taken(entry)
    more = read_entries(store, ledger_id, first + 1, most - 1, room)
    if store.recorder.listening:
        for entry_id in range(first + 1, first + 1 + more.entry_count):
            where = place_of(store, ledger_id, entry_id)
            store.recorder.record("read.served", ledger_id, entry_id, note=where)
    return EntryBatch([encode_size(entry), entry, *more.pieces], 1 + more.entry_count)


def place_of(store: LedgerStore, ledger_id: int, entry_id: int) -> str:
    """Where a read finds the entry, for the trace."""
    in_memory = store.is_in_memory(ledger_id, entry_id)
    return "in the memtable" if in_memory else "in the entry log"
