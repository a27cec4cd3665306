"""Measures a bookie's cost per entry: add, flush, read, replay and garbage collection."""

import gc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from time import process_time
from typing import TypeVar

from benchmarks.measure import proc_field
from benchmarks.workload import LEDGER_ID, MASTER_KEY, PASSWORD, open_store
from labkit.system.model.entry import DigestType, Entry, encode_entry, make_digest
from labkit.system.storage.config import MIB, StorageConfig
from labkit.system.storage.store import LedgerStore

_CONFIG = StorageConfig(skip_list_size_limit=8 * MIB, log_size_limit=2 * MIB)
"""Small limits, so that a run has many flushes and finished logs."""
_GROUP = 256
_READS = 100_000
"""Maximum number of entries to read."""
_READ_IN_TURN = 1000
"""Maximum number of consecutive entries to read from a ledger."""
AN_ENTRY = " an entry"
_ENTRY = f" µs{AN_ENTRY}"
_FILE = " µs a file"
_HELD = " µs a ledger of a log"


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shape:
    """The data to store: `entries` entries of `payload_size` bytes each, in `ledgers` ledgers."""

    ledgers: int
    entries: int
    payload_size: int

    def groups(self) -> Iterator[list[tuple[int, int, bytes]]]:
        """Yield groups of (ledger id, entry id, bytes); the entries of a group share one sync."""
        digest = make_digest(DigestType.CRC32C, PASSWORD)
        payload = bytes(self.payload_size)
        for first in range(0, self.entries, _GROUP):
            group = []
            for number in range(first, min(first + _GROUP, self.entries)):
                entry_id, ledger = divmod(number, self.ledgers)
                entry = Entry(LEDGER_ID + ledger, entry_id, entry_id - 1, 0, payload)
                group.append((entry.ledger_id, entry_id, encode_entry(entry, digest)))
            yield group


def store_costs(folder: Path, shape: Shape) -> dict[str, tuple[float, str]]:
    """Return a mapping from the name of each cost to its value and unit.

    Call this in a new process for each shape, because it measures the memory of the process.
    """
    gc.disable()
    at_start_kib = proc_field("self", "status", "VmRSS")
    costs = _write(folder / "flushed", shape)
    peak_kib = proc_field("self", "status", "VmHWM")
    costs["memory beside the program"] = (peak_kib - at_start_kib) / 1024, " MB"
    store, opened_us = _timed(lambda: open_store(folder / "flushed", _CONFIG))
    files = sum(path.is_file() for path in folder.rglob("*"))
    costs["opened"] = opened_us / files, _FILE
    costs |= _read(store, shape)
    costs |= _collect(store)
    store.close()
    costs["replayed"] = _replay(folder / "replayed", shape) / shape.entries, _ENTRY
    return costs


def _write(folder: Path, shape: Shape) -> dict[str, tuple[float, str]]:
    added_us = flushed_us = 0.0
    flushed_bytes = flush_calls = 0
    store = open_store(folder, _CONFIG)

    def add(group: list[tuple[int, int, bytes]]) -> None:
        for ledger_id, entry_id, data in group:
            store.add_entry(ledger_id, entry_id, data, MASTER_KEY)
        store.commit()

    def flush() -> None:
        nonlocal flushed_us, flushed_bytes, flush_calls
        before = _io("wchar"), _io("syscw")
        flushed_us += _timed(store.checkpoint)[1]
        flushed_bytes += _io("wchar") - before[0]
        flush_calls += _io("syscw") - before[1]

    for group in shape.groups():
        added_us += _timed(partial(add, group))[1]
        if store.needs_checkpoint:
            flush()
    flush()
    store.close()
    return {
        "added": (added_us / shape.entries, _ENTRY),
        "flushed": (flushed_us / shape.entries, _ENTRY),
        "bytes that a flush writes": (flushed_bytes / shape.entries, f" bytes{AN_ENTRY}"),
        "calls that write in a flush": (flush_calls / shape.entries, f" calls{AN_ENTRY}"),
    }


def _read(store: LedgerStore, shape: Shape) -> dict[str, tuple[float, str]]:
    """Read entries spread over all ledgers and positions, as a catch-up reader does."""
    ids = list(_ids_to_read(shape))

    def read() -> None:
        for ledger_id, entry_id in ids:
            store.read_entry(ledger_id, entry_id)

    return {"read": (_timed(read)[1] / len(ids), _ENTRY)}


def _ids_to_read(shape: Shape) -> Iterator[tuple[int, int]]:
    per_ledger = shape.entries // shape.ledgers
    length = min(_READ_IN_TURN, per_ledger)
    runs = shape.ledgers * (per_ledger // length)
    for run in range(0, runs, -(-runs * length // _READS)):
        ledger, first = divmod(run, per_ledger // length)
        for entry_id in range(first * length, (first + 1) * length):
            yield LEDGER_ID + ledger, entry_id


def _collect(store: LedgerStore) -> dict[str, tuple[float, str]]:
    """Measure a garbage collection, and then another one that finds nothing to delete."""
    first_us, later_us = (_timed(lambda: store.garbage.collect(()))[1] for _ in range(2))
    held = sum(len(log.ledger_bytes) for log in store.garbage.logs)
    return {
        "first pass of garbage collection": (first_us / max(1, held), _HELD),
        "later pass of garbage collection": (later_us / max(1, held), _HELD),
    }


def _replay(folder: Path, shape: Shape) -> float:
    """Measure how long it takes to open a store whose entries are all in the journal."""
    store = open_store(folder)
    for group in shape.groups():
        for ledger_id, entry_id, data in group:
            store.add_entry(ledger_id, entry_id, data, MASTER_KEY)
        store.commit()
    store.journals[0].close()
    del store
    store, opened_us = _timed(lambda: open_store(folder))
    store.close()
    return opened_us


def _timed(do: Callable[[], T]) -> tuple[T, float]:
    started = process_time()
    found = do()
    return found, (process_time() - started) * 1e6


def _io(field: str) -> int:
    return proc_field("self", "io", field)
