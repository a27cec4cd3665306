"""Measures how fast a bookie reads its journal at startup, and how fast it reads old entries from
its entry logs.
"""

import shutil
import subprocess
from collections import deque
from pathlib import Path
from time import perf_counter

from benchmarks.measure import Figure, drop_from_cache, in_turn, per_second, ratios
from benchmarks.workload import LEDGER_ID, MASTER_KEY, entries_of, open_store
from labkit.system.storage.config import MIB
from labkit.system.storage.journal_scan import JournalScan
from labkit.worlds.live.disk import RealDisk

_BATCH_ENTRIES = 16 * 1024
_READ_SIZE = MIB
_GROWTH = 10
"""Size of the long entry log relative to the short one."""


def replay_figures(folder: Path, journal_mib: int, repeat_count: int) -> list[Figure]:
    """Compare reading a journal with a cold cache to running `cat` on the same file."""
    record_size = 4 + len(entries_of(1)[0])
    entry_count = journal_mib * MIB // record_size
    _write_store(folder, entry_count, flushed=False)
    (journal,) = (folder / "journal").glob("current/*.txn")

    def cat() -> float:
        drop_from_cache(journal)
        started = perf_counter()
        subprocess.run(["cat", journal], stdout=subprocess.DEVNULL, check=True)
        return perf_counter() - started

    def scan() -> float:
        drop_from_cache(journal)
        started = perf_counter()
        found = JournalScan(RealDisk(folder / "journal"), 1)
        deque(found.records(), maxlen=0)
        seconds = perf_counter() - started
        if found.end_offset < entry_count * record_size:
            raise RuntimeError("the journal contains fewer records than were written")
        return seconds

    def open_bookie() -> float:
        copy = folder / "opened"
        shutil.rmtree(copy, ignore_errors=True)
        (copy / "journal" / "current").mkdir(parents=True)
        (copy / "journal" / "current" / journal.name).hardlink_to(journal)
        drop_from_cache(journal)
        started = perf_counter()
        store = open_store(copy)
        seconds = perf_counter() - started
        store.close()
        return seconds

    seconds = in_turn({"cat": cat, "scan": scan, "open": open_bookie}, repeat_count)
    behind = f"cat: {journal_mib / min(seconds['cat']):.0f} MiB/s at best"
    return [
        Figure(
            f"{journal_mib} MiB journal read record by record, time of cat",
            ratios(seconds["scan"], seconds["cat"]),
            at_most=2,
            note=f"{per_second(entry_count, seconds['scan'])}; {behind}",
        ),
        Figure(
            "a store opened over it, entries into entry log and index, time of cat",
            ratios(seconds["open"], seconds["cat"]),
            at_most=6,
            note=per_second(entry_count, seconds["open"]),
        ),
    ]


def catch_up_figures(folder: Path, log_mib: int, repeat_count: int) -> list[Figure]:
    """Measure how fast entries are read in order with a cold cache, for entry logs of two sizes."""
    entry_count = log_mib * 1024 * 1024 // (len(entries_of(1)[0]) + 4)
    counts = {"short": entry_count, "long": _GROWTH * entry_count}
    for name, count in counts.items():
        _write_store(folder / name, count, flushed=True)

    def plain() -> float:
        return _read_plainly(folder / "long")

    def short() -> float:
        return _read_by_entry(folder / "short", counts["short"])

    def long() -> float:
        return _read_by_entry(folder / "long", counts["long"])

    seconds = in_turn({"plain": plain, "short": short, "long": long}, repeat_count)
    per_entry = {name: [each / count for each in seconds[name]] for name, count in counts.items()}
    plain_rate = log_mib * _GROWTH / min(seconds["plain"])
    return [
        Figure(
            f"reads in order from a {_GROWTH * log_mib} MiB entry log, of a plain read of the file",
            ratios(seconds["plain"], seconds["long"]),
            at_least=0.1,
            note=f"{per_second(counts['long'], seconds['long'])}; plain: {plain_rate:.0f} MiB/s",
        ),
        Figure(
            f"time per entry, of that in a {log_mib} MiB log",
            ratios(per_entry["long"], per_entry["short"]),
            at_most=1.1,
            note=f"{per_second(counts['short'], seconds['short'])} in the short one",
        ),
    ]


def _write_store(folder: Path, entry_count: int, *, flushed: bool) -> None:
    """Write a bookie's files, with the entries either in an entry log or only in the journal."""
    shutil.rmtree(folder, ignore_errors=True)
    store = open_store(folder)
    for first in range(0, entry_count, _BATCH_ENTRIES):
        count = min(_BATCH_ENTRIES, entry_count - first)
        for entry_id, entry in enumerate(entries_of(count, first), first):
            store.add_entry(LEDGER_ID, entry_id, entry, MASTER_KEY)
        store.commit()
        if flushed:
            store.checkpoint()
    if flushed:
        store.close()
    else:
        store.journals[0].close()


def _read_plainly(folder: Path) -> float:
    (log,) = (path for path in folder.glob("ledgers/current/*.log") if path.stat().st_size)
    drop_from_cache(log)
    started = perf_counter()
    with log.open("rb", buffering=0) as file:
        while file.read(_READ_SIZE):
            pass
    return perf_counter() - started


def _read_by_entry(folder: Path, entry_count: int) -> float:
    """Read the entries one by one, as a reader's requests do."""
    store = open_store(folder)
    drop_from_cache(*folder.glob("ledgers/current/**/*.log"), *folder.glob("ledgers/**/*.idx"))
    started = perf_counter()
    for entry_id in range(entry_count):
        store.read_entry(LEDGER_ID, entry_id)
    seconds = perf_counter() - started
    store.close()
    return seconds
