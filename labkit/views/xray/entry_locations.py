"""Finds an entry in a bookie's files: its copies in the journal and in the entry log, and its slot
in the index.

This works while the bookie is running, after it was stopped in the middle of a write, and on files
that were written by Apache BookKeeper.
"""

from dataclasses import replace

from labkit.system.model.entry import ENTRY_HEADER
from labkit.system.model.layout import Layout, Span
from labkit.system.model.length_prefixed import LENGTH_SIZE
from labkit.system.storage.disk import Disk, read_if_exists
from labkit.system.storage.entry_log import LOG_ENTRY_HEADER, log_ids, log_name, scan_entry_log
from labkit.system.storage.index.ledger_index import DATA_OFFSET, INDEX_SLOT, index_path
from labkit.system.storage.journal import RECORD_HEADER, journal_ids
from labkit.system.storage.journal_scan import JournalScan
from labkit.views.xray.byte_region import Piece
from labkit.views.xray.file_spans import entry_spans, framed_spans


def locate_entry(
    journal_disk: Disk,
    ledger_disk: Disk,
    entry: bytes,
    digest_size: int = 4,
    after_power_cut: tuple[Disk, Disk] | None = None,
) -> tuple[Piece, ...]:
    """Return the entry's bytes as the client packed them, its copies in the journal and in the
    entry log, and its index slot.

    `after_power_cut` contains the two disks as they would be after a power failure: only bytes that
    are also on these disks count as synced.
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
    disks = journal_after, ledgers_after, ledgers_after
    return found[0], *map(_with_safe_size, found[1:], disks)


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
    data = len(entry).to_bytes(LENGTH_SIZE, "big") + entry
    spans = framed_spans(header, data, offset, digest_size)
    return Piece(title, path, offset, data, spans, len(data), offset + LENGTH_SIZE)


def _in_index(disk: Disk, ledger_id: int, entry_id: int) -> Piece:
    path, offset = index_path(ledger_id), DATA_OFFSET + INDEX_SLOT.size * entry_id
    data = read_if_exists(disk, path, INDEX_SLOT.size, offset)
    if data.strip(b"\0") == b"" or len(data) < INDEX_SLOT.size:
        return Piece("index", absent="no location yet")
    (location,) = INDEX_SLOT.struct.unpack(data)
    log, at = log_name(location >> 32), location & 0xFFFFFFFF
    spans = (
        Span("log id", offset, 4, str(location >> 32), f"upper half of the location: {log}"),
        Span("offset", offset + 4, 4, str(at), "lower half: where the entry starts in it"),
    )
    return Piece("index", path, offset, data, spans, len(data), offset)


def _with_safe_size(piece: Piece, after: Disk) -> Piece:
    """Set `safe_size` to the number of leading bytes that would survive a power failure.

    If only zeros would survive, set it to 0, because these zeros were probably preallocated.
    """
    if not piece.data:
        return piece
    kept = read_if_exists(after, piece.file, len(piece.data), piece.offset)
    same = 0
    while same < len(kept) and kept[same] == piece.data[same]:
        same += 1
    if not piece.data[:same].strip(b"\0"):
        same = 0
    return replace(piece, safe_size=same)
