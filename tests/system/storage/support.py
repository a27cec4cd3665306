"""What the tests of the storage share: keys, entries, stores over a folder, the golden files."""

import shutil
from pathlib import Path

from labkit.system.model.entry import DigestType, Entry, encode_entry, make_digest, make_master_key
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.disk import Disk
from labkit.system.storage.store import LedgerStore
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.disk import RealDisk

GOLDEN = Path(__file__).parent / "bookkeeper-4.17.4"
PASSWORD = b"pw"
KEY = make_master_key(PASSWORD)
OTHER_KEY = make_master_key(b"other")
CRC32C = make_digest(DigestType.CRC32C, PASSWORD)
SMALL = StorageConfig(journal_max_size_mb=1, journal_pre_alloc_size_mb=1)
"""Journals of one MiB at most, so that tests write little."""


def entry(ledger_id: int, entry_id: int, payload: bytes = b"hello") -> bytes:
    """An entry's bytes as a client would send them."""
    length = (entry_id + 1) * len(payload)
    return encode_entry(Entry(ledger_id, entry_id, entry_id - 1, length, payload), CRC32C)


def store_over(journal: Disk, ledgers: Disk, config: StorageConfig = SMALL) -> LedgerStore:
    """A store that reports to nobody; its first journal is 1.txn."""
    return LedgerStore([journal], [ledgers], config, Recorder("bookie", lambda: 0), 1)


def open_store(root: Path, config: StorageConfig = SMALL) -> LedgerStore:
    """A store over the folders j and l.  Opening again without `close` is a crash."""
    return store_over(RealDisk(root / "j"), RealDisk(root / "l"), config)


def kill(store: LedgerStore) -> None:
    """Close the store's files as the end of its process does: nothing more is written."""
    for journal in store.journals:
        journal.close()
    store.entry_logger.close()
    store.ledgers.close()


def copy_of_golden(name: str, root: Path) -> Path:
    """A copy of a bookie that Apache BookKeeper wrote, to be opened and changed."""
    shutil.copytree(GOLDEN / name, root, dirs_exist_ok=True)
    return root


def add(store: LedgerStore, ledger_id: int, *entry_ids: int, payload: bytes = b"hello") -> None:
    """Add entries and commit them."""
    for entry_id in entry_ids:
        store.add_entry(ledger_id, entry_id, entry(ledger_id, entry_id, payload), KEY)
    store.commit()
