"""What the trace learns of a flush: where each entry lies now, and where its location does."""

from collections.abc import Sequence
from typing import NamedTuple

from labkit.system.storage.entry_log import log_name
from labkit.system.storage.index.ledger_index import DATA_OFFSET, index_path
from labkit.system.trace.recorder import Recorder


class WrittenEntry(NamedTuple):
    """An entry of `size` bytes, which a flush has put at `location` of the entry logs."""

    ledger_id: int
    entry_id: int
    location: int
    size: int


def record_flush(recorder: Recorder, written: Sequence[WrittenEntry]) -> None:
    """Report a flush that is done: entry log and index are synced."""
    for each in written:
        log, offset = log_name(each.location >> 32), each.location & 0xFFFFFFFF
        ids = each.ledger_id, each.entry_id
        recorder.record("entry_log.written", *ids, file=log, offset=offset, size=each.size)
    for each in written:
        file = index_path(each.ledger_id).removeprefix("current/")
        offset = DATA_OFFSET + 8 * each.entry_id
        ids = each.ledger_id, each.entry_id
        recorder.record("index.written", *ids, file=file, offset=offset, size=8)
    recorder.record("memtable.flushed", size=len(written))
