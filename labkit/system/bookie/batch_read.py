"""Serves batch reads, which return as many consecutive entries as fit into one response.

In BookKeeper: `proto/BatchedReadEntryProcessor.java`.
"""

from collections.abc import Callable

from labkit.system.model.batch_read import encode_size, room_for, room_taken
from labkit.system.model.wire import BatchReadRequest
from labkit.system.storage.entry_batch import EntryBatch, read_entries
from labkit.system.storage.store import LedgerStore

MAX_ENTRIES = 1000
"""Limits a response, so that one client cannot stall the others."""


def read_batch(
    read: Callable[[int, int], bytes], store: LedgerStore, request: BatchReadRequest
) -> EntryBatch:
    """Read consecutive entries until one does not fit or cannot be read. The first entry is read
    with the bookie's own `read` method, so this function raises the errors of that method.
    """
    first, ledger_id = request.first_entry_id, request.ledger_id
    entry = read(ledger_id, first)
    max_count = min(request.max_count, MAX_ENTRIES) if request.max_count > 0 else MAX_ENTRIES
    room = room_for(request) - room_taken(entry)
    sources: list[str] = []
    if store.recorder.listening:
        # Look these up before the read, for the reason given in `Bookie.read`.
        sources = [source_of(store, ledger_id, first + n) for n in range(1, max_count)]
    more = read_entries(store, ledger_id, first + 1, max_count - 1, room)
    for entry_id, where in enumerate(sources[: more.entry_count], first + 1):
        store.recorder.record("read.served", ledger_id, entry_id, detail=where)
    return EntryBatch([encode_size(entry), entry, *more.pieces], 1 + more.entry_count)


def source_of(store: LedgerStore, ledger_id: int, entry_id: int) -> str:
    return "memtable" if store.is_in_memory(ledger_id, entry_id) else "entry log"
