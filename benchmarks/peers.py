"""Other durable stores for Python programs. Each of them writes a group in a single transaction.

Each store receives prepared keys and values, sorted by key, and writes a batch with its fastest
call. Like a bookie, it guarantees that the group survives a power failure once the call returns.
"""

import importlib
import importlib.metadata
import importlib.util
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

_MAP_SIZE = 4 * 1024**3

Items = list[list[tuple[bytes, bytes]]]
"""The keys and values of each group."""


@dataclass(frozen=True, slots=True)
class Peer:
    """A store for comparison; `target` is the goal for the bookie's speed relative to it."""

    name: str
    target: float
    seconds: Callable[[Path, Items], float]
    package: str = ""

    @property
    def missing(self) -> str:
        """The reason why the store cannot be measured, or ""."""
        if not self.package or importlib.util.find_spec(self.package):
            return ""
        return f"skipped: `pip install {self.package}`"

    @property
    def version(self) -> str:
        if not self.package:
            return f"{self.name} {sqlite3.sqlite_version}"
        return f"{self.name} ({self.package} {importlib.metadata.version(self.package)})"


def _rocksdb_seconds(folder: Path, groups: Items) -> float:
    rocksdict = importlib.import_module("rocksdict")

    store = rocksdict.Rdict(str(folder), rocksdict.Options(raw_mode=True))
    synced = rocksdict.WriteOptions()
    synced.sync = True
    started = perf_counter()
    for group in groups:
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key, value in group:
            batch.put(key, value)
        store.write(batch, synced)
    seconds = perf_counter() - started
    store.close()
    return seconds


def _lmdb_seconds(folder: Path, groups: Items) -> float:
    lmdb = importlib.import_module("lmdb")

    store = lmdb.open(str(folder), map_size=_MAP_SIZE)
    started = perf_counter()
    for group in groups:
        with store.begin(write=True) as transaction:
            transaction.cursor().putmulti(group, append=True)
    seconds = perf_counter() - started
    store.close()
    return seconds


def _sqlite_seconds(folder: Path, groups: Items) -> float:
    store = sqlite3.connect(folder / "entries.db", isolation_level=None)
    store.execute("PRAGMA journal_mode = WAL")
    store.execute("PRAGMA synchronous = FULL")
    store.execute("CREATE TABLE entries (id BLOB PRIMARY KEY, data BLOB) WITHOUT ROWID")
    started = perf_counter()
    for group in groups:
        store.execute("BEGIN")
        store.executemany("INSERT INTO entries VALUES (?, ?)", group)
        store.execute("COMMIT")
    seconds = perf_counter() - started
    store.close()
    return seconds


PEERS = (
    Peer("RocksDB, synced WAL", 2, _rocksdb_seconds, "rocksdict"),
    Peer("LMDB", 2, _lmdb_seconds, "lmdb"),
    Peer("SQLite, WAL, synchronous=FULL", 10, _sqlite_seconds),
)
