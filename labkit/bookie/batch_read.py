"""A batch read: as many entries in a row as fit into one answer.

In BookKeeper: `proto/BatchedReadEntryProcessor.java`.
"""

from collections.abc import Callable

from labkit.bookie.refusals import REFUSALS, UNREADABLE
from labkit.model.batch_read import encode_batch_answer, room_for, room_taken
from labkit.model.wire import BatchReadRequest, Code


def read_batch(read: Callable[[int, int], bytes], request: BatchReadRequest) -> bytes:
    """The answer with at least the first entry; it ends in front of an entry that does not fit or
    cannot be read.  Raises what `read` raises for the first.
    """
    first, ledger_id = request.first_entry_id, request.ledger_id
    entries = [read(ledger_id, first)]
    room = room_for(request) - room_taken(entries[0])
    while room > 0 and not 0 < request.max_count <= len(entries):
        try:
            entry = read(ledger_id, first + len(entries))
        except (*REFUSALS, *UNREADABLE):
            break
        room -= room_taken(entry)
        if room >= 0:
            entries.append(entry)
    return encode_batch_answer(request, Code.OK, entries)
