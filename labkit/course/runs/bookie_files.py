"""What the files of one bookie contain: their bytes for a picture, and what a lesson counts."""

from dataclasses import dataclass
from itertools import pairwise

from labkit.course.runs.one_bookie import OneBookie
from labkit.system.model.byte_region import Piece
from labkit.system.storage.entry_log import LOG_HEADER, log_ids, log_name
from labkit.system.storage.index.ledger_index import DATA_OFFSET
from labkit.system.storage.journal import journal_ids
from labkit.system.storage.journal_scan import JournalScan
from labkit.system.storage.xray import entry_log_spans, journal_spans


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


def journal_order(bookie: OneBookie) -> list[str]:
    """Return the entries in the order in which they were appended to the journal, as "7/0"."""
    return _entries_of(bookie, "journal.appended")


def entry_log_order(bookie: OneBookie) -> list[str]:
    """Return the entries in the order in which they were written to the entry log, as "7/0"."""
    return _entries_of(bookie, "entry_log.written")


def _entries_of(bookie: OneBookie, kind: str) -> list[str]:
    return [f"{e.ledger}/{e.entry}" for e in bookie.trace.events if e.kind == kind]


def jumps(order: list[str], ledger_id: int) -> int:
    """Count how often another ledger's entries separate two consecutive entries of a ledger."""
    places = [at for at, entry in enumerate(order) if entry.startswith(f"{ledger_id}/")]
    return sum(after - before > 1 for before, after in pairwise(places))


def served_from(bookie: OneBookie) -> list[str]:
    """Return where the bookie found each entry that was read: "memtable" or "entry log"."""
    return [e.detail for e in bookie.trace.events if e.kind == "read.served"]


def entry_log_bytes(bookie: OneBookie) -> tuple[Piece, ...]:
    """Return the bytes of each entry log that has entries, from the first one on."""
    disk, pieces = bookie.machine.ledgers[0], list[Piece]()
    for log_id in log_ids(disk):
        path, start = f"current/{log_name(log_id)}", LOG_HEADER.size
        spans = tuple(span for span in entry_log_spans(disk, log_id) if span.offset >= start)
        if spans:
            file = disk.open(path)
            data = file.read(start, file.size() - start)
            pieces.append(Piece("entry log", path, start, data, spans, file.size()))
    return tuple(pieces)


def flush_two_ledgers(entry_log_per_ledger: bool) -> OneBookie:
    """Return a new bookie that has flushed two entries of each of two ledgers."""
    bookie = OneBookie(entry_log_per_ledger_enabled=entry_log_per_ledger)
    for entry_id in range(2):
        bookie.add((8, entry_id), (7, entry_id))
    bookie.commit()
    bookie.flush()
    return bookie


def entry_log_syncs(bookie: OneBookie) -> int:
    """Return how often the bookie has synced an entry log."""
    operations = bookie.machine.ledgers[0].fuse.operations
    return sum(each.kind == "sync" and each.path.endswith(".log") for each in operations)


def index_writes(page_limit: int, ledger_count: int = 4) -> list[list[str]]:
    """Flush one entry of each ledger; return the ledgers that each write of the index contains."""
    bookie = OneBookie(page_limit=page_limit)
    bookie.add(*((ledger_id, 0) for ledger_id in range(ledger_count)))
    bookie.commit()
    bookie.flush()
    writes: list[list[str]] = [[]]
    for each in bookie.machine.ledgers[0].fuse.operations:
        if ".idx" not in each.path:
            continue
        if each.kind == "sync" and writes[-1]:
            writes.append([])
        elif each.kind == "write" and each.offset >= DATA_OFFSET:
            writes[-1].append(each.path.rpartition("/")[2].partition(".")[0])
    return writes[:-1]
