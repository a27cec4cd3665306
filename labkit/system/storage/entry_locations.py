"""The places of one entry: the same bytes in the journal and in the entry log, and where the index
says that they lie.

Reads the files only, through the `Disk` port, so it works on a bookie that runs, on one that was
stopped in the middle of a write, and on files that Apache BookKeeper wrote.
"""

from dataclasses import replace

from labkit.system.model.byte_region import Piece
from labkit.system.model.entry import ENTRY_HEADER
from labkit.system.model.layout import Layout, Span
from labkit.system.model.length_prefixed import LENGTH_SIZE
from labkit.system.storage.disk import Disk
from labkit.system.storage.entry_log import LOG_ENTRY_HEADER, log_ids, log_name, scan_entry_log
from labkit.system.storage.index.ledger_index import DATA_OFFSET, INDEX_SLOT, index_path
from labkit.system.storage.journal import RECORD_HEADER, journal_ids
from labkit.system.storage.journal_scan import JournalScan
from labkit.system.storage.xray import entry_spans, framed_spans


def entry_places(
    journal_disk: Disk,
    ledger_disk: Disk,
    entry: bytes,
    digest_size: int = 4,
    after_power_cut: tuple[Disk, Disk] | None = None,
) -> tuple[Piece, ...]:
    """The entry as its client packed it, in the journal, in the entry log, and its index slot.

    `after_power_cut`: the two disks as they would be if the power failed now; what they have is
    synced.  Without it everything that is in a file counts as synced.
    """
    ledger_id, entry_id, *_ = ENTRY_HEADER.struct.unpack_from(entry)
    spans = entry_spans(entry, 0, digest_size)
    found = (
        Piece("as the client packed it", "", 0, entry, spans, len(entry)),
        _in_journal(journal_disk, ledger_id, entry_id, digest_size),
        _in_entry_log(ledger_disk, ledger_id, entry_id, digest_size),
        _in_index(ledger_disk, ledger_id, entry_id),
    )
    if after_power_cut is None:
        return found
    journal_after, ledgers_after = after_power_cut
    packed, journal, log, index = found
    return (
        packed,
        _with_safe_size(journal, journal_after),
        _with_safe_size(log, ledgers_after),
        _with_safe_size(index, ledgers_after),
    )


def _in_journal(disk: Disk, ledger_id: int, entry_id: int, digest_size: int) -> Piece:
    for file_id in reversed(journal_ids(disk)):
        scan = JournalScan(disk, file_id)
        for record in scan.records():
            if (record.ledger_id, record.entry_id) == (ledger_id, entry_id):
                where = "journal", f"current/{scan.name}", record.offset
                return _framed(*where, RECORD_HEADER, record.body, digest_size)
    return Piece("journal", absent="not written yet")


def _in_entry_log(disk: Disk, ledger_id: int, entry_id: int, digest_size: int) -> Piece:
    for log_id in reversed(log_ids(disk)):
        for found in scan_entry_log(disk, log_id):
            if (found.ledger_id, found.entry_id) == (ledger_id, entry_id):
                where = "entry log", f"current/{log_name(log_id)}", found.offset
                return _framed(*where, LOG_ENTRY_HEADER, found.data, digest_size)
    return Piece("entry log", absent="only in the memtable")


def _framed(
    title: str, path: str, offset: int, header: Layout, entry: bytes, digest_size: int
) -> Piece:
    """An entry behind its length word, as journal and entry log keep it."""
    data = len(entry).to_bytes(LENGTH_SIZE, "big") + entry
    spans = framed_spans(header, data, offset, digest_size)
    return Piece(title, path, offset, data, spans, len(data), offset + LENGTH_SIZE)


def _in_index(disk: Disk, ledger_id: int, entry_id: int) -> Piece:
    path, offset = index_path(ledger_id), DATA_OFFSET + INDEX_SLOT.size * entry_id
    data = b""
    if disk.exists(path):
        file = disk.open(path)
        data = file.read(offset, INDEX_SLOT.size)
        file.close()
    if data.strip(b"\0") == b"" or len(data) < INDEX_SLOT.size:
        return Piece("index", absent="no location yet")
    (location,) = INDEX_SLOT.struct.unpack(data)
    log, at = log_name(location >> 32), location & 0xFFFFFFFF
    spans = (
        Span("log id", offset, 4, str(location >> 32), f"upper half of the location: {log}"),
        Span("offset", offset + 4, 4, str(at), "lower half: where the entry begins there"),
    )
    return Piece("index", path, offset, data, spans, len(data), offset)


def _with_safe_size(piece: Piece, after: Disk) -> Piece:
    """Count the bytes that the disk after a power cut has, too.

    A torn piece has a beginning.  One that was never written may agree in its leading zeros with
    the zeros that were there before; nothing of it is safe.
    """
    if not piece.data:
        return piece
    kept = b""
    if after.exists(piece.file):
        file = after.open(piece.file)
        kept = file.read(piece.offset, len(piece.data))
        file.close()
    same = 0
    while same < len(kept) and kept[same] == piece.data[same]:
        same += 1
    if not piece.data[:same].strip(b"\0"):
        same = 0
    return replace(piece, safe_size=same)
