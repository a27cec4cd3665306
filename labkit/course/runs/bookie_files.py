"""What the files of one bookie contain: their bytes for a picture, and what a lesson counts."""

from dataclasses import dataclass

from labkit.course.runs.one_bookie import OneBookie
from labkit.system.model.byte_region import Piece
from labkit.system.storage.journal import journal_ids
from labkit.system.storage.journal_scan import JournalScan
from labkit.system.storage.xray import journal_spans


def end_of_journal(bookie: OneBookie) -> int:
    """Return the offset at which the next record of the journal will start."""
    return bookie.store.journals[0].synced.offset


def journal_bytes(bookie: OneBookie, start: int = 0) -> Piece:
    """Return the journal file in use, from `start` up to the next record, for the byte X-ray."""
    journal, end = bookie.store.journals[0], end_of_journal(bookie)
    disk, path = bookie.machine.journals[0], f"current/{journal.synced.file_name}"
    spans = journal_spans(disk, journal.synced.file_id)
    shown = tuple(span for span in spans if start <= span.offset and span.offset + span.size <= end)
    return Piece("journal", path, start, disk.open(path).read(start, end - start), shown, end)


def journal_fields(bookie: OneBookie, *names: str) -> str:
    """Return a line for each field with one of these names in the first journal file."""
    return "\n".join(
        f"{span.offset:>6}  {span.name:<14}{span.value:>6}  {span.meaning}"
        for span in journal_spans(bookie.machine.journals[0], 1)
        if span.name in names
    )


def journal_files(bookie: OneBookie) -> dict[str, list[str]]:
    """Return the entries in each journal file, such as `{"1.txn": ["5/0", "5/1"]}`."""
    disk = bookie.machine.journals[0]
    return {
        scan.name: [f"{r.ledger_id}/{r.entry_id}" for r in scan.records() if r.entry_id >= 0]
        for scan in (JournalScan(disk, file_id) for file_id in journal_ids(disk))
    }


@dataclass(frozen=True, slots=True)
class JournalCost:
    """The journal's disk operations for some adds."""

    syncs: int
    bytes_written: int


def add_in_groups(add_count: int, group_size: int, payload_size: int = 20) -> JournalCost:
    """Add entries to a new bookie, sync after each group, and count the disk operations."""
    bookie = OneBookie()
    operations = bookie.machine.journals[0].fuse.operations
    before = len(operations)
    for first in range(0, add_count, group_size):
        entry_ids = range(first, min(first + group_size, add_count))
        bookie.add(*((5, entry_id) for entry_id in entry_ids), payload_size=payload_size)
        bookie.commit()
    done = operations[before:]
    syncs = sum(operation.kind == "sync" for operation in done)
    return JournalCost(syncs, sum(each.size for each in done if each.kind == "write"))
