"""Reads the files of one bookie, both their bytes for pictures and the numbers that lessons
show.
"""

from dataclasses import dataclass
from itertools import pairwise

from labkit.course.runs.bookie.one_bookie import OneBookie
from labkit.system.model.entry import Digest
from labkit.system.model.errors import StorageDamagedException
from labkit.system.model.length_prefixed import LENGTH_SIZE
from labkit.system.storage.entry_log import LOG_HEADER, log_ids, log_name
from labkit.system.storage.index.ledger_index import DATA_OFFSET, index_path
from labkit.system.storage.journal import journal_ids
from labkit.system.storage.journal_scan import JournalScan
from labkit.views.widgets import XRay
from labkit.views.xray.byte_region import Piece
from labkit.views.xray.file_spans import entry_log_spans, entry_spans, index_spans, journal_spans
from labkit.worlds.sim.machine.disk_operation import Operation


def end_of_journal(bookie: OneBookie) -> int:
    """Return the offset at which the next record of the journal will start."""
    return bookie.store.journals[0].synced.offset


def journal_bytes(bookie: OneBookie, start: int = 0) -> Piece:
    """Return the bytes of the current journal file, from `start` up to where the next record will
    start, for the byte X-ray.
    """
    journal, end = bookie.store.journals[0], end_of_journal(bookie)
    disk, path = bookie.machine.journals[0], f"current/{journal.synced.file_name}"
    spans = journal_spans(disk, journal.synced.file_id)
    shown = tuple(span for span in spans if start <= span.offset and span.offset + span.size <= end)
    return Piece("journal", path, start, disk.open(path).read(start, end - start), shown, end)


def journal_fields(bookie: OneBookie, *names: str) -> str:
    """For each field with one of these names in the first journal file, return a line of text."""
    return "\n".join(
        f"{span.offset:>6}  {span.name:<14}{span.value:>6}  {span.meaning}"
        for span in journal_spans(bookie.machine.journals[0], 1)
        if span.name in names
    )


def journal_files(bookie: OneBookie) -> dict[str, list[str]]:
    """Return the entries in each journal file, for example `{"1.txn": ["5/0", "5/1"]}`."""
    disk = bookie.machine.journals[0]
    return {
        scan.name: [f"{r.ledger_id}/{r.entry_id}" for r in scan.records() if r.entry_id >= 0]
        for scan in (JournalScan(disk, file_id) for file_id in journal_ids(disk))
    }


@dataclass(frozen=True, slots=True)
class JournalCost:
    """The journal's disk operations while a bookie was processing some adds."""

    syncs: int
    bytes_written: int


def add_in_groups(add_count: int, group_size: int, payload_size: int = 20) -> JournalCost:
    """Add entries to a new bookie, sync after each group, and count the disk operations."""
    bookie = OneBookie()
    operations = bookie.machine.journals[0].controller.operations
    before = len(operations)
    for first in range(0, add_count, group_size):
        entry_ids = range(first, min(first + group_size, add_count))
        bookie.add(*((5, entry_id) for entry_id in entry_ids), payload_size=payload_size)
        bookie.commit()
    done = operations[before:]
    syncs = sum(operation.kind == "sync" for operation in done)
    return JournalCost(syncs, sum(each.size for each in done if each.kind == "write"))


def journal_order(bookie: OneBookie) -> list[str]:
    """Return the entries in the order in which they were appended to the journal, in the form
    "7/0".
    """
    return _entries_of(bookie, "journal.appended")


def entry_log_order(bookie: OneBookie) -> list[str]:
    """Return the entries in the order in which they were written to the entry log, in the form
    "7/0".
    """
    return _entries_of(bookie, "entry_log.written")


def _entries_of(bookie: OneBookie, kind: str) -> list[str]:
    return [f"{e.ledger}/{e.entry}" for e in bookie.trace.events if e.kind == kind]


def jumps(order: list[str], ledger_id: int) -> int:
    """Count how often two consecutive entries of the ledger are separated by entries of other
    ledgers.
    """
    places = [at for at, entry in enumerate(order) if entry.startswith(f"{ledger_id}/")]
    return sum(after - before > 1 for before, after in pairwise(places))


def served_from(bookie: OneBookie) -> list[str]:
    """Return where the bookie found each entry that was read, either "memtable" or "entry log"."""
    return [e.detail for e in bookie.trace.events if e.kind == "read.served"]


def entry_log_bytes(bookie: OneBookie) -> tuple[Piece, ...]:
    """Return the bytes of each non-empty entry log, starting with the log's first entry."""
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
    """Return how many times the bookie has synced an entry log."""
    operations = bookie.machine.ledgers[0].controller.operations
    return sum(each.kind == "sync" and each.path.endswith(".log") for each in operations)


def index_writes(page_limit: int) -> list[list[str]]:
    """Flush one entry of each of four ledgers; for each write of the index, return the ledgers that
    it contains.
    """
    bookie = OneBookie(page_limit=page_limit)
    bookie.add(*((ledger_id, 0) for ledger_id in range(4)))
    bookie.commit()
    bookie.flush()
    writes: list[list[str]] = [[]]
    for each in bookie.machine.ledgers[0].controller.operations:
        if ".idx" not in each.path:
            continue
        if each.kind == "sync" and writes[-1]:
            writes.append([])
        elif each.kind == "write" and each.offset >= DATA_OFFSET:
            writes[-1].append(each.path.rpartition("/")[2].partition(".")[0])
    return writes[:-1]


def index_bytes(bookie: OneBookie, ledger_id: int, size: int) -> Piece:
    """Return the first `size` bytes of a ledger's index, for the byte X-ray."""
    disk, path = bookie.machine.ledgers[0], index_path(ledger_id)
    spans = index_spans(disk, ledger_id)
    shown = tuple(span for span in spans if span.offset + span.size <= size)
    file = disk.open(path)
    return Piece("index", path, 0, file.read(0, size), shown, file.size())


def records_replayed(bookie: OneBookie) -> int:
    """Return the number of journal records that the bookie has replayed."""
    return sum(e.size for e in bookie.trace.events if e.kind == "journal.replayed")


def packed_bytes(packed: bytes, digest: Digest) -> Piece:
    """Return entry 0 in packed form, for the byte X-ray."""
    return Piece("entry 0", "", 0, packed, entry_spans(packed, 0, digest.size), len(packed))


def add_and_flush(bookie: OneBookie, ledger_id: int) -> XRay:
    """Add an entry and flush it; return the entry's bytes in all files at four moments."""
    moments = dict[str, tuple[Piece, ...]]()

    def look_before_a_sync(operation: Operation) -> None:
        if operation.kind == "sync":
            moments.setdefault("written, not synced", bookie.places(ledger_id, 0))

    bookie.add((ledger_id, 0))
    moments["after the add"] = bookie.places(ledger_id, 0)
    bookie.machine.journals[0].controller.watch = look_before_a_sync
    bookie.commit()
    bookie.machine.journals[0].controller.watch = None
    moments["after the journal's sync"] = bookie.places(ledger_id, 0)
    bookie.flush()
    moments["after the flush"] = bookie.places(ledger_id, 0)
    seen = {event.kind: event.seq for event in bookie.trace.events}
    ends = ["memtable.put", "journal.appended", "journal.synced", "mark.persisted"]
    return XRay(moments, run=bookie.trace, upto=[seen[kind] + 1 for kind in ends])


def read_with_changed_byte(bookie: OneBookie, ledger_id: int, at: int) -> bytes | Exception:
    """Change byte `at` of the first entry in the entry log, restart the bookie and read the entry.

    Return the bookie's result or error, and restore the byte afterwards.
    """
    log = bookie.machine.ledgers[0].open(f"current/{log_name(0)}")
    at += LOG_HEADER.size + LENGTH_SIZE
    byte = log.read(at, 1)
    log.write(at, bytes([byte[0] ^ 1]))
    bookie.restart()  # The restart also discards the read-ahead buffer.
    try:
        return bookie.read(ledger_id, 0)
    except StorageDamagedException as error:
        return error
    finally:
        log.write(at, byte)
