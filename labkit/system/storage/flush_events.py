"""Records the trace events of a flush: where each entry and its location were written."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from labkit.system.storage.entry_log import log_name
from labkit.system.storage.index.ledger_index import DATA_OFFSET, index_path
from labkit.system.storage.memtable import LedgerEntries
from labkit.system.trace.recorder import Recorder


class WrittenEntry(NamedTuple):
    ledger_id: int
    entry_id: int
    location: int
    size: int


def written_entries(
    runs: Sequence[LedgerEntries], locations: Sequence[Sequence[int]]
) -> Iterator[WrittenEntry]:
    """Yield the entries of all runs with their locations; `locations` contains one sequence per
    run.
    """
    for run, run_locations in zip(runs, locations, strict=True):
        entries = zip(run.entry_ids, run.entries, run_locations, strict=True)
        for entry_id, data, location in entries:
            yield WrittenEntry(run.ledger_id, entry_id, location, len(data))


def record_flush(recorder: Recorder, written: Sequence[WrittenEntry]) -> None:
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
