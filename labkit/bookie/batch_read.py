"""A batch read: as many entries in a row as fit into one answer.

In BookKeeper: `proto/BatchedReadEntryProcessor.java`.
"""

from collections.abc import Callable

from labkit.bookie.refusals import REFUSALS, UNREADABLE
from labkit.model.batch_read import room_for, room_taken
from labkit.model.wire import BatchReadRequest

MOST_ENTRIES = 1000
"""In an answer, whatever the request says: finding more would keep other clients waiting."""


def read_batch(read: Callable[[int, int], bytes], request: BatchReadRequest) -> list[bytes]:
    """At least the first entry; the batch ends in front of an entry that does not fit or cannot be
    read.  Raises what `read` raises for the first.
    """
    first, ledger_id = request.first_entry_id, request.ledger_id
    entries = [read(ledger_id, first)]
    room = room_for(request) - room_taken(entries[0])
    most = min(request.max_count, MOST_ENTRIES) if request.max_count > 0 else MOST_ENTRIES
    while room > 0 and len(entries) < most:
        try:
            entry = read(ledger_id, first + len(entries))
        except (*REFUSALS, *UNREADABLE):
            break
        room -= room_taken(entry)
        if room >= 0:
            entries.append(entry)
    return entries
