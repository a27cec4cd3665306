"""Helpers for the storage tests, with keys, entries, stores in a directory, and the golden
files.
"""

import shutil
from pathlib import Path
from typing import TypeVar

import psutil

from labkit.system.model.entry import DigestType, Entry, encode_entry, make_digest, make_master_key
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.disk import Disk
from labkit.system.storage.store import LedgerStore
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.disk import RealDisk

T = TypeVar("T")

GOLDEN = Path(__file__).parent / "bookkeeper-4.17.4"
PASSWORD = b"pw"
KEY = make_master_key(PASSWORD)
OTHER_KEY = make_master_key(b"other")
CRC32C = make_digest(DigestType.CRC32C, PASSWORD)
SMALL = StorageConfig(journal_max_size_mb=1, journal_pre_alloc_size_mb=1)
"""Limits journals to 1 MiB, so that tests write little."""


def entry(ledger_id: int, entry_id: int, payload: bytes = b"hello") -> bytes:
    """Return the bytes of an entry as a client would send them."""
    length = (entry_id + 1) * len(payload)
    return encode_entry(Entry(ledger_id, entry_id, entry_id - 1, length, payload), CRC32C)


def store_over(journal: Disk, ledgers: Disk, config: StorageConfig = SMALL) -> LedgerStore:
    """Open a store that has no trace listeners, and whose first journal is 1.txn."""
    return LedgerStore([journal], [ledgers], config, Recorder("bookie", lambda: 0), 1)


def open_store(root: Path, config: StorageConfig = SMALL) -> LedgerStore:
    """Open a store in the directories j and l. Opening another store without calling `close`
    simulates a crash.
    """
    return store_over(RealDisk(root / "j"), RealDisk(root / "l"), config)


def kill(store: LedgerStore) -> None:
    """Close the store's files without writing anything more, as happens when its process dies."""
    for journal in store.journals:
        journal.close()
    store.entry_logger.close()
    store.ledgers.close()


def copy_of_golden(name: str, root: Path) -> Path:
    """Copy the files of a bookie that Apache BookKeeper wrote, so that a test can change them."""
    shutil.copytree(GOLDEN / name, root, dirs_exist_ok=True)
    return root


def add(store: LedgerStore, ledger_id: int, *entry_ids: int, payload: bytes = b"hello") -> None:
    """Add entries and commit them."""
    for entry_id in entry_ids:
        store.add_entry(ledger_id, entry_id, entry(ledger_id, entry_id, payload), KEY)
    store.commit()


def open_files(folder: Path) -> list[str]:
    """Return the names of the files in the folder that this process has open."""
    paths = [Path(file.path) for file in psutil.Process().open_files()]
    return sorted(path.name for path in paths if folder in path.parents)


def present(value: T | None) -> T:
    """Return a value that must not be None."""
    assert value is not None
    return value
