"""What all runs write: one ledger's entries of 1 KiB, as frames for a bookie and as plain bytes."""

from pathlib import Path

from labkit.system.model.entry import DigestType, Entry, encode_entry, make_digest, make_master_key
from labkit.system.model.wire import encode_add
from labkit.system.storage.config import MIB, StorageConfig
from labkit.system.storage.store import LedgerStore
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.disk import RealDisk

LEDGER_ID = 1
PASSWORD = b"benchmark"
MASTER_KEY = make_master_key(PASSWORD)
PAYLOAD = bytes(range(256)) * 4
NO_FLUSH = StorageConfig(skip_list_size_limit=1024 * MIB)
"""A memtable that never fills: what is measured then is the journal's way alone."""


def entries_of(entry_count: int, first_entry_id: int = 0, *, ledger_count: int = 1) -> list[bytes]:
    """Entries as a bookie stores them, of `ledger_count` ledgers in turn."""
    digest = make_digest(DigestType.CRC32C, PASSWORD)
    entries = []
    for number in range(first_entry_id, first_entry_id + entry_count):
        entry_id, ledger = divmod(number, ledger_count)
        entry = Entry(LEDGER_ID + ledger, entry_id, entry_id - 1, 0, PAYLOAD)
        entries.append(encode_entry(entry, digest))
    return entries


def frame(body: bytes) -> bytes:
    """A frame as it goes over the wire."""
    return len(body).to_bytes(4, "big") + body


def add_frames(entries: list[bytes]) -> bytes:
    """Add requests for these entries, as one receive brings them."""
    return b"".join(frame(encode_add(MASTER_KEY, entry)) for entry in entries)


def open_store(
    folder: Path, config: StorageConfig = NO_FLUSH, recorder: Recorder | None = None
) -> LedgerStore:
    """A store over real files."""
    disks = [RealDisk(folder / "journal")], [RealDisk(folder / "ledgers")]
    return LedgerStore(*disks, config, recorder or silent_recorder(), first_journal_id=1)


def silent_recorder() -> Recorder:
    """A recorder without a listener."""
    return Recorder("benchmark", lambda: 0)
