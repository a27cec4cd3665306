"""Garbage collection and compaction, which reclaim the disk space of deleted ledgers.

Ledgers share entry logs. So garbage collection first removes the indexes of deleted ledgers, and
then deletes the logs that contain no entries of other ledgers. A log that is mostly garbage is
compacted: its live entries are appended to the current log, and the old log is deleted.

If a ledger's entries no longer belong on this bookie, they become garbage in the same way. In that
case, the ledger's index is kept, but without locations, because the ledger's fence must still stop
an old writer.

Every step is crash-safe:

- a copy is synced before the index points to it
- the index is synced before the old log is deleted
- a copy that no index points to is ordinary garbage

`bookie.garbage_collection` decides when the methods of this module are called, and by which thread.

In BookKeeper: `bookie/GarbageCollectorThread.java`, `bookie/EntryLogCompactor.java`.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from labkit.system.model.errors import StorageDamagedException
from labkit.system.model.length_prefixed import LENGTH_SIZE
from labkit.system.storage.disk import Disk, sync_file
from labkit.system.storage.entry_log import (
    EntryLogger,
    location_of,
    log_name,
    read_ledgers_map,
    scan_entry_log,
)
from labkit.system.storage.index.ledger_cache import LedgerCache
from labkit.system.storage.index.ledger_index import LedgerIndex

_BUCKETS = 10


@dataclass(frozen=True, slots=True)
class EntryLogMetadata:
    """How many bytes of a log belong to each existing ledger, including the length fields."""

    log_id: int
    total_bytes: int
    ledger_bytes: Mapping[int, int]

    @property
    def usage(self) -> float:
        """The fraction of the log that belongs to existing ledgers, from 0 to 1."""
        return sum(self.ledger_bytes.values()) / self.total_bytes if self.total_bytes else 0.0

    def without(self, deleted: Collection[int]) -> "EntryLogMetadata":
        left = {i: size for i, size in self.ledger_bytes.items() if i not in deleted}
        return EntryLogMetadata(self.log_id, self.total_bytes, left)


class Copied(NamedTuple):
    entry_count: int
    size_bytes: int


def deleted_ledgers(stored: Iterable[int], existing: Collection[int]) -> list[int]:
    """Return the stored ledgers that no longer exist.

    The caller must list `stored` before `existing`, because a ledger that is created in between
    would otherwise be treated as deleted.
    """
    return [ledger_id for ledger_id in stored if ledger_id not in existing]


def logs_to_compact(logs: Iterable[EntryLogMetadata], threshold: float) -> list[int]:
    """Return the logs whose usage is below `threshold`, ordered from low to high usage in steps of
    10 %.

    In BookKeeper: `GarbageCollectorThread.doCompactEntryLogs`.
    """
    candidates = [log for log in logs if 0 < log.usage < threshold]
    # Logs with low usage free the most space per byte copied.
    candidates.sort(key=lambda log: (min(_BUCKETS - 1, int(log.usage * _BUCKETS)), log.log_id))
    return [log.log_id for log in candidates]


def read_log_metadata(disk: Disk, log_id: int) -> EntryLogMetadata:
    """Read the log's ledgers map or, if the log has none, scan the log."""
    ledger_bytes = read_ledgers_map(disk, log_id)
    if ledger_bytes is None:
        ledger_bytes = {}
        for entry in scan_entry_log(disk, log_id):
            size = LENGTH_SIZE + len(entry.data)
            ledger_bytes[entry.ledger_id] = ledger_bytes.get(entry.ledger_id, 0) + size
    return EntryLogMetadata(log_id, sum(ledger_bytes.values()), ledger_bytes)


class GarbageCollector:
    """Collects the garbage in a bookie's ledger directories. Only one of the methods may run at a
    time.

    Invariants: every entry of an existing ledger is readable at all times; a log is never deleted
    while an index on disk points to it.
    """

    def __init__(self, entry_logger: EntryLogger, ledgers: LedgerCache) -> None:
        self.entry_logger = entry_logger
        self.ledgers = ledgers
        self._logs: dict[int, EntryLogMetadata] = {}
        self._emptied: dict[int, LedgerIndex] = {}
        """Ledgers whose entries have been dropped in memory but not yet on disk."""
        self.skipped_logs: dict[int, StorageDamagedException] = {}
        """Logs that the last `collect` kept because of a damaged file."""

    @property
    def logs(self) -> list[EntryLogMetadata]:
        """The logs that were finished at the time of the last `collect`."""
        return list(self._logs.values())

    def drop_entries(self, ledger_id: int) -> bool:
        """Drop all entries of a ledger, so that the next `collect` treats them as garbage. Return
        False if the ledger has no entries, or if it has received new entries since `take_settled`.
        """
        ledger = self.ledgers.get(ledger_id)
        if ledger is None or ledger.has_new_entries or ledger.index.last_entry_id() < 0:
            return False
        self._emptied[ledger_id] = self.ledgers.empty(ledger_id)
        return True

    def collect(self, deleted: Iterable[int]) -> list[int]:
        """Drop these ledgers. Return the logs without live entries, which the caller must delete
        with `remove_log`.
        """
        for ledger_id in deleted:
            # Otherwise, the loop below would flush the index of a deleted ledger.
            self._emptied.pop(ledger_id, None)
            self.ledgers.remove(ledger_id)
        # Write these indexes before any log is deleted, because an index must not point into a
        # deleted log.
        while self._emptied:
            ledger_id, index = next(iter(self._emptied.items()))
            index.flush()
            # Remove the index from `_emptied` only after the flush, so that the next collection
            # retries a failed flush.
            del self._emptied[ledger_id]
        self.skipped_logs.clear()
        for log_id in self.entry_logger.finished_log_ids():
            try:
                # Read the metadata only once, because a finished log never changes.
                metadata = self._logs.get(log_id) or read_log_metadata(
                    self.entry_logger.disk_of(log_id), log_id
                )
                # A ledger whose entries were dropped still has an index.
                dropped = [i for i in metadata.ledger_bytes if not self._has_entries(i)]
            except StorageDamagedException as error:
                self.skipped_logs[log_id] = error
            else:
                self._logs[log_id] = metadata.without(dropped)
        return [log.log_id for log in self._logs.values() if not log.ledger_bytes]

    def compact(self, log_id: int, batch_entries: int) -> Iterator[Copied]:
        """Copy the live entries of a log to the current log. Yield after each batch, so that the
        caller can limit the rate.

        Once the iterator is exhausted, no index points into the log, so the caller can call
        `remove_log`.
        """
        moved: list[tuple[int, int, int, int]] = []
        copied_bytes = 0
        newer_logs: dict[int, None] = {}
        for entry in scan_entry_log(self.entry_logger.disk_of(log_id), log_id):
            old = location_of(log_id, entry.offset + LENGTH_SIZE)
            ledger = self.ledgers.get(entry.ledger_id)
            location = 0 if ledger is None else ledger.index.location(entry.entry_id)
            if location == old:
                [new] = self.entry_logger.append(entry.ledger_id, [entry.data])
                moved.append((entry.ledger_id, entry.entry_id, old, new))
                copied_bytes += len(entry.data)
            elif ledger is not None and location:
                # A newer copy has replaced this one. Write its location again, because an earlier
                # process may not have synced the index (the failed-sync rule, see `disk`).
                ledger.index.set_locations([entry.entry_id], [location])
                newer_logs[location >> 32] = None
            if len(moved) >= batch_entries:
                self.point_to_copies(moved)
                yield Copied(len(moved), copied_bytes)
                moved, copied_bytes = [], 0
        # Sync the newer copies, because a killed process may have left them unsynced.
        for other in self.entry_logger.finished_log_ids():
            if other in newer_logs:
                sync_file(self.entry_logger.disk_of(other), log_name(other))
        self.point_to_copies(moved)
        yield Copied(len(moved), copied_bytes)

    def remove_log(self, log_id: int) -> None:
        """Delete a log that was emptied by `collect` or `compact`, once all earlier reads have
        ended.
        """
        self.entry_logger.remove(log_id)
        self._logs.pop(log_id, None)

    # Rules that a subclass may change

    def point_to_copies(self, moved: list[tuple[int, int, int, int]]) -> None:
        """Make the indexes point to the copies. Sync the copies first, so that a crash cannot lose
        both an entry and its copy.
        """
        self.entry_logger.sync()
        for ledger_id, entry_id, old, new in moved:
            ledger = self.ledgers.get(ledger_id)
            # Since the scan, the entry may have been added again, or its ledger may have been
            # deleted.
            if ledger is not None and ledger.index.location(entry_id) == old:
                ledger.index.set_locations([entry_id], [new])
        self.ledgers.flush()

    # Internals

    def _has_entries(self, ledger_id: int) -> bool:
        ledger = self.ledgers.get(ledger_id)
        return ledger is not None and ledger.index.last_entry_id() >= 0
