"""Generates the data of the storage benchmarks: entries of 1 KiB, as bytes and as add requests."""

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
"""Configures a memtable that never fills, so that only the journal is measured."""


def entries_of(entry_count: int, first_entry_id: int = 0, *, ledger_count: int = 1) -> list[bytes]:
    """Return entries in the form in which a bookie stores them. They cycle through the ledgers."""
    digest = make_digest(DigestType.CRC32C, PASSWORD)
    entries = []
    for number in range(first_entry_id, first_entry_id + entry_count):
        entry_id, ledger = divmod(number, ledger_count)
        entry = Entry(LEDGER_ID + ledger, entry_id, entry_id - 1, 0, PAYLOAD)
        entries.append(encode_entry(entry, digest))
    return entries


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def add_frames(entries: list[bytes]) -> bytes:
    """Return the frames of add requests for these entries, concatenated."""
    return b"".join(frame(encode_add(MASTER_KEY, entry)) for entry in entries)


def open_store(
    folder: Path, config: StorageConfig = NO_FLUSH, recorder: Recorder | None = None
) -> LedgerStore:
    disks = [RealDisk(folder / "journal")], [RealDisk(folder / "ledgers")]
    return LedgerStore(*disks, config, recorder or silent_recorder(), first_journal_id=1)


def silent_recorder() -> Recorder:
    return Recorder("benchmark", lambda: 0)
