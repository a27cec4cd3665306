"""Garbage collection and compaction: how the disk space of deleted ledgers comes back.

Ledgers are deleted one by one, but their entries lie in logs that they share.  So first the index
of a deleted ledger goes; a log in which no ledger is left goes as a whole; and a log that is mostly
garbage is compacted: what still lives in it is written again behind the newest entries, then the
log goes.

A ledger that lives on other bookies now gives its entries up in the same way, but its index stays,
empty: an old writer must still meet the fence here.

Every step is safe against a crash: a copy is synced before the index points to it, the index is
synced before the old log goes, and a copy that no index points to is garbage like any other.

In BookKeeper: `bookie/GarbageCollectorThread.java`, `bookie/EntryLogCompactor.java`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from labkit.system.storage.disk import Disk
from labkit.system.storage.entry_log import (
    EntryLogger,
    location_of,
    log_name,
    read_ledgers_map,
    scan_entry_log,
)
from labkit.system.storage.index.ledger_cache import LedgerCache
from labkit.system.storage.index.ledger_index import LedgerIndex
from labkit.system.storage.replay import sync_again

_BUCKETS = 10


@dataclass(frozen=True, slots=True)
class EntryLogMetadata:
    """What a log holds: bytes by ledger, lengths included, of ledgers that still exist."""

    log_id: int
    total_bytes: int
    ledger_bytes: Mapping[int, int]

    @property
    def usage(self) -> float:
        """The part of the log's entries that still lives, 0 to 1."""
        return sum(self.ledger_bytes.values()) / self.total_bytes if self.total_bytes else 0.0

    def without(self, deleted: Collection[int]) -> "EntryLogMetadata":
        """The same log after these ledgers were deleted."""
        left = {i: size for i, size in self.ledger_bytes.items() if i not in deleted}
        return EntryLogMetadata(self.log_id, self.total_bytes, left)


class Copied(NamedTuple):
    """What a step of a compaction wrote again."""

    entry_count: int
    size_bytes: int


def deleted_ledgers(stored: Iterable[int], existing: Collection[int]) -> list[int]:
    """Which of a bookie's ledgers the metadata store no longer has.

    `stored` must have been listed before `existing` was asked for: a ledger that is created in
    between is then in neither or in both.
    """
    return [ledger_id for ledger_id in stored if ledger_id not in existing]


def logs_to_compact(logs: Iterable[EntryLogMetadata], threshold: float) -> list[int]:
    """Logs of which less than `threshold` still lives, the emptiest first (in steps of a tenth).

    In BookKeeper: `GarbageCollectorThread.doCompactEntryLogs`.
    """
    worth = [log for log in logs if 0 < log.usage < threshold]
    # Emptiest first: they free most for what is copied.
    worth.sort(key=lambda log: (min(_BUCKETS - 1, int(log.usage * _BUCKETS)), log.log_id))
    return [log.log_id for log in worth]


def read_log_metadata(disk: Disk, log_id: int) -> EntryLogMetadata:
    """What a log holds, by its ledgers map or, where it has none, by a scan."""
    ledger_bytes = read_ledgers_map(disk, log_id)
    if ledger_bytes is None:
        ledger_bytes = {}
        for entry in scan_entry_log(disk, log_id):
            size = 4 + len(entry.data)
            ledger_bytes[entry.ledger_id] = ledger_bytes.get(entry.ledger_id, 0) + size
    return EntryLogMetadata(log_id, sum(ledger_bytes.values()), ledger_bytes)


class GarbageCollector:
    """Collects the garbage of a bookie's ledger directories.  One call at a time.

    Invariants: an entry of a ledger that exists is readable at any moment; no log goes that an
    index on disk points to.
    """

    def __init__(self, entry_logger: EntryLogger, ledgers: LedgerCache) -> None:
        self.entry_logger = entry_logger
        self.ledgers = ledgers
        self._logs: dict[int, EntryLogMetadata] = {}
        self._emptied: dict[int, LedgerIndex] = {}
        """Ledgers whose entries are forgotten in memory, and on disk not yet."""

    @property
    def logs(self) -> list[EntryLogMetadata]:
        """The finished logs, as of the last `collect`."""
        return list(self._logs.values())

    def settled(self, ledger_ids: Sequence[int]) -> list[int]:
        """Those of the ledgers that got no entry since the last call: no worker is just copying
        them here.
        """
        return self.ledgers.settled(ledger_ids)

    def drop_entries(self, ledger_id: int) -> bool:
        """Forget what this bookie stores of a ledger, unless entries of it have come since it was
        `settled`, or none are left; returns whether it did.  Their space is garbage after
        `collect`.
        """
        ledger = self.ledgers.get(ledger_id)
        if ledger is None or ledger.got_entries or ledger.index.last_entry_id() < 0:
            return False
        self._emptied[ledger_id] = self.ledgers.empty(ledger_id)
        return True

    def collect(self, deleted: Iterable[int]) -> list[int]:
        """Drop these ledgers; returns the ids of the logs that are empty now.

        Remove those with `remove_log`.
        """
        for ledger_id in deleted:
            # Or the loop below would flush the index of a ledger that is gone.
            self._emptied.pop(ledger_id, None)
            self.ledgers.remove(ledger_id)
        # On disk before their logs go: an index must not point into a log that is gone.
        while self._emptied:
            ledger_id, index = next(iter(self._emptied.items()))
            index.flush()
            # After the flush: if that fails, the next collection tries it again.
            del self._emptied[ledger_id]
        for log_id in self.entry_logger.finished_log_ids():
            # A finished log never changes, so it is read once.
            known = self._logs.get(log_id) or read_log_metadata(
                self.entry_logger.disk_of(log_id), log_id
            )
            # By entries, not by the index file: a fenced ledger without entries keeps that.
            gone = [i for i in known.ledger_bytes if not self._has_entries(i)]
            self._logs[log_id] = known.without(gone)
        return [log.log_id for log in self._logs.values() if not log.ledger_bytes]

    def compact(self, log_id: int, batch_entries: int) -> Iterator[Copied]:
        """Copy what lives in a log to the current one, `batch_entries` at a time.

        Yields after each batch what was copied, so that the caller can slow it down; when it is
        exhausted, nothing points into the log any more and `remove_log` may be called.
        """
        moved: list[tuple[int, int, int, int]] = []
        copied_bytes = 0
        later_logs: dict[int, None] = {}
        for entry in scan_entry_log(self.entry_logger.disk_of(log_id), log_id):
            old = location_of(log_id, entry.offset + 4)
            ledger = self.ledgers.get(entry.ledger_id)
            location = 0 if ledger is None else ledger.index.location(entry.entry_id)
            if location == old:
                [new] = self.entry_logger.append(entry.ledger_id, [entry.data])
                moved.append((entry.ledger_id, entry.entry_id, old, new))
                copied_bytes += len(entry.data)
            elif ledger is not None and location:
                # Replaced by a later copy, perhaps of a process that did not live to sync it, or
                # could not: its location is written again.
                ledger.index.set_locations([entry.entry_id], [location])
                later_logs[location >> 32] = None
            if len(moved) >= batch_entries:
                self.point_to_copies(moved)
                yield Copied(len(moved), copied_bytes)
                moved, copied_bytes = [], 0
        # Before this log goes the later copies must be durable: a killed process may have left
        # them.
        for other in self.entry_logger.finished_log_ids():
            if other in later_logs:
                sync_again(self.entry_logger.disk_of(other), log_name(other))
        self.point_to_copies(moved)
        yield Copied(len(moved), copied_bytes)

    def remove_log(self, log_id: int) -> None:
        """Give a log's space back."""
        self.entry_logger.remove(log_id)
        self._logs.pop(log_id, None)

    # Rules, which a subclass may change

    def point_to_copies(self, moved: list[tuple[int, int, int, int]]) -> None:
        """Let the index name the copies: they are durable first, or a crash takes both."""
        self.entry_logger.sync()
        for ledger_id, entry_id, old, new in moved:
            ledger = self.ledgers.get(ledger_id)
            # Compared again: an add or a deletion may have come since the scan.
            if ledger is not None and ledger.index.location(entry_id) == old:
                ledger.index.set_locations([entry_id], [new])
        self.ledgers.flush()

    # Inside

    def _has_entries(self, ledger_id: int) -> bool:
        ledger = self.ledgers.get(ledger_id)
        return ledger is not None and ledger.index.last_entry_id() >= 0
