"""The entry log, which stores the entries of all ledgers in the order of the flushes.

A log file is named `<hex id>.log`. It starts with a 1024-byte header, followed by the entries, each
preceded by its i32 length. A full log ends with a ledgers map, which lists how many bytes of the
log belong to each ledger. A bookie never appends to a log that an earlier process has written.

A location is an i64: the upper half is the log id, and the lower half is the offset of the entry's
first byte (after the length field). Location 0 means "no entry".

In BookKeeper: `bookie/DefaultEntryLogger.java`, `bookie/EntryLoggerAllocator.java`.
"""

import struct
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import accumulate, chain, takewhile
from typing import NamedTuple

from labkit.system.model.errors import StorageDamagedException
from labkit.system.model.layout import Field, Layout
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.disk import Disk, File, ids_in
from labkit.system.storage.last_log_id import MAX_LOG_ID, read_last_id, write_last_id
from labkit.system.storage.log_reader import EntryLogReader, zeros_to_skip

LOG_HEADER = Layout(
    "entry log header",
    Field("magic", "4s", "BKLO"),
    Field("version", "i", "1: has a ledgers map once it is full"),
    Field("ledgers map offset", "q", "0 until the log is full"),
    Field("ledgers count", "i", "ledgers in the map; 0 until the log is full"),
    Field("padding", "1004x", "zeros up to the first entry"),
)

LOG_ENTRY_HEADER = Layout(
    "entry log entry",
    Field("length", "i", "size of the entry that follows"),
    Field("ledger id", "q", "the ledger"),
    Field("entry id", "q", "position in the ledger, starting at 0"),
)
"""The two ids are the first bytes of the entry itself."""

LEDGERS_MAP_HEADER = Layout(
    "ledgers map",
    Field("size", "i", "number of bytes that follow"),
    Field("ledger id", "q", "-1: this is not an entry"),
    Field("entry id", "q", "-2: it is a ledgers map"),
    Field("count", "i", "ledgers in this batch, at most 10000"),
)

LEDGERS_MAP_ITEM = Layout(
    "ledgers map item",
    Field("ledger id", "q", "the ledger"),
    Field("bytes", "q", "size of its entries in this log, with length fields"),
)

MAGIC = b"BKLO"
VERSION = 1
MAP_LEDGER_ID = -1
MAP_ENTRY_ID = -2
_MAP_BATCH = 10_000
_LENGTH = struct.Struct(">i")
_WRITE_SIZE = 64 * 1024
_SHARED = -1
_MAX_READERS = 64
"""The maximum number of logs that are open for reading."""


class LogEntry(NamedTuple):
    """An entry in a log; `offset` is the offset of its length field."""

    offset: int
    ledger_id: int
    entry_id: int
    data: bytes


def location_of(log_id: int, offset: int) -> int:
    return log_id << 32 | offset


def log_name(log_id: int) -> str:
    return f"{log_id:x}.log"


class EntryLogger:
    """All entry logs in a bookie's ledger directories.

    All ledgers share one active log, so that disk writes are sequential. Optionally, each ledger
    gets its own logs, which are deleted as a whole when the ledger is deleted. New logs are
    distributed round-robin over the directories.

    A log goes through these states: created in advance (an empty file), active, ended (complete,
    but its last sync is pending), and finished (never written to again).

    Invariants: `sync` makes all entries appended so far durable. After a failed write or sync, the
    log is never written to again, because the contents of the device are unknown. Its unsynced
    entries must be appended again.
    """

    def __init__(self, disks: Sequence[Disk], config: StorageConfig) -> None:
        self._disks = disks
        self._disk_of = {log_id: disk for disk in disks for log_id in log_ids(disk)}
        self._full_directories: set[int] = set()
        """Indices into `_disks`."""
        self._limit = config.log_size_limit
        self._readers: dict[int, EntryLogReader] = {}
        self._per_ledger = config.entry_log_per_ledger_enabled
        self._max_active = config.maximum_number_of_active_entry_logs
        self._active: dict[int, OpenLog] = {}
        """The active logs, keyed by ledger id or `_SHARED`."""
        self._ended: list[OpenLog] = []
        # Do not reuse the id of a deleted log, because an index may still point to that log.
        self._last_id = max(-1, *self._disk_of, *(read_last_id(disk) for disk in disks))
        self._created_ahead: int | None = None

    def append(self, ledger_id: int, entries: Sequence[bytes]) -> list[int]:
        """Append entries and return their locations; the entries are durable only after `sync`."""
        owner = ledger_id if self._per_ledger else _SHARED
        log = self._active.get(owner)
        try:
            if log is None or (self._full_directories and self._is_on_full_directory(log.log_id)):
                log = self._begin_log(owner)
            return log.append(ledger_id, entries)
        except OSError:
            self._abandon_logs()
            raise

    def sync(self) -> None:
        """Make everything appended so far durable. Also end logs that exceed the size limit, and
        the oldest logs if too many are active.
        """
        try:
            self._sync_logs()
        except OSError:
            self._abandon_logs()
            raise

    def read(self, location: int, ledger_id: int, entry_id: int) -> bytes:
        """Return the entry at that location. Raise `StorageDamagedException` if the entry is
        missing or incomplete.
        """
        log_id, offset = location >> 32, location & 0xFFFFFFFF
        # If only the upper half of a location was written, the offset is 0, which is inside the
        # header.
        if offset > LOG_HEADER.size:
            data = self._reader(log_id).entry(offset, ledger_id, entry_id)
            if data is not None:
                return data
        raise StorageDamagedException(
            f"entry log {self.disk_of(log_id).path('current')}/{log_name(log_id)}, offset {offset}:"
            f" entry {entry_id} of ledger {ledger_id} is missing here, but the index points to it"
        )

    def read_all(
        self, locations: Sequence[int], ledger_id: int, first: int, max_bytes: int
    ) -> tuple[list[bytes], int]:
        """Read entries that are close together in one log; see `EntryLogReader.entries`."""
        log_id = locations[0] >> 32
        in_same_log = takewhile(lambda location: location >> 32 == log_id, locations)
        offsets = [location & 0xFFFFFFFF for location in in_same_log]
        return self._reader(log_id).entries(offsets, ledger_id, first, max_bytes)

    def has_entry(self, location: int, ledger_id: int, entry_id: int) -> bool:
        """Return whether the complete entry is at that location. After a crash, an entry can be
        missing if the bookie syncs its indexes before its logs.
        """
        try:
            self.read(location, ledger_id, entry_id)
        except StorageDamagedException:
            return False
        return True

    def finished_log_ids(self) -> list[int]:
        """Return the sorted ids of the finished logs, which are never written to again."""
        open_ids = {self._created_ahead, *(log.log_id for log in self._active.values())}
        open_ids.update(log.log_id for log in self._ended)
        return [log_id for log_id in sorted(self._disk_of) if log_id not in open_ids]

    def set_full_directories(self, directories: set[int]) -> None:
        """Stop writing entries to the directories with these indices, unless all directories are
        full.
        """
        self._full_directories = directories if len(directories) < len(self._disks) else set()

    def disk_of(self, log_id: int) -> Disk:
        """Raise `StorageDamagedException` if no disk contains the log."""
        disk = self._disk_of.get(log_id)
        if disk is None:
            folders = ", ".join(each.path("current") for each in self._disks)
            raise StorageDamagedException(
                f"entry log {log_name(log_id)} is missing in {folders}, but an index points to it"
            )
        return disk

    def remove(self, log_id: int) -> None:
        """Delete a log that no index points to."""
        # A read in another thread may still be using the reader, so do not close it.
        self._readers.pop(log_id, None)
        disk = self._disk_of.pop(log_id)
        disk.remove(f"current/{log_name(log_id)}")
        disk.sync_folder("current")

    def close(self) -> None:
        """Close all files. As in BookKeeper, no ledgers map is appended to the active logs."""
        for reader in self._readers.values():
            reader.close()
        for log in self._active.values():
            log.file.close()

    def open_log(self, file: File, log_id: int) -> "OpenLog":
        """Create an `OpenLog`; a subclass may override this."""
        return OpenLog(log_id, file)

    def _sync_logs(self) -> None:
        over_limit = [owner for owner, log in self._active.items() if log.end > self._limit]
        surplus = list(self._active)[: max(0, len(self._active) - self._max_active)]
        for owner in {**dict.fromkeys(over_limit), **dict.fromkeys(surplus)}:
            self._end_log(owner)
        for ended in self._ended:
            ended.sync()
            ended.file.close()
        self._ended = []
        for log in self._active.values():
            log.sync()

    def _abandon_logs(self) -> None:
        """Stop writing to all open logs, and delete those without durable entries."""
        abandoned, self._active, self._ended = (*self._active.values(), *self._ended), {}, []
        for log in abandoned:
            log.file.close()
            # No index points into this log, because locations are set only after a sync.
            if not log.has_durable_entries:
                self.remove(log.log_id)

    def _reader(self, log_id: int) -> EntryLogReader:
        reader = self._readers.get(log_id)
        if reader is None:
            if len(self._readers) >= _MAX_READERS:
                # A read in another thread may still be using the reader, so do not close it.
                del self._readers[next(iter(self._readers))]
            reader = self._readers[log_id] = EntryLogReader(_open(self.disk_of(log_id), log_id))
        return reader

    def _begin_log(self, owner: int) -> "OpenLog":
        """Activate the log that was created in advance, unless its directory is full, and create
        the next log.
        """
        log_id = self._created_ahead
        if log_id is None or self._is_on_full_directory(log_id):
            log_id = self._allocate()
        self._created_ahead = self._allocate()
        if owner in self._active:
            self._end_log(owner)
        self._active[owner] = self.open_log(_open(self._disk_of[log_id], log_id), log_id)
        return self._active[owner]

    def _end_log(self, owner: int) -> None:
        """Append the ledgers map to the log, which must then be synced one last time."""
        log = self._active.pop(owner)
        self._ended.append(log)
        log.append_ledgers_map()

    def _is_on_full_directory(self, log_id: int) -> bool:
        disk = self._disk_of[log_id]
        return any(disk is self._disks[index] for index in self._full_directories)

    def _disk_for(self, log_id: int) -> Disk:
        full = self._full_directories  # Read this only once, because another thread may replace it.
        writable = [disk for index, disk in enumerate(self._disks) if index not in full]
        return writable[log_id % len(writable)]

    def _allocate(self) -> int:
        log_id = (self._last_id + 1) & MAX_LOG_ID
        while log_id in self._disk_of:
            log_id = (log_id + 1) & MAX_LOG_ID
        self._last_id = log_id
        disk = self._disk_for(log_id)
        disk.create(f"current/{log_name(log_id)}").close()
        self._disk_of[log_id] = disk
        for each in self._disks:  # The next start uses the highest of the ids.
            write_last_id(each, log_id)
        return log_id


class OpenLog:
    """A log that is being written. Entries are buffered, so they can be read only after `sync`."""

    def __init__(self, log_id: int, file: File) -> None:
        self.log_id = log_id
        self.file = file
        self.end = LOG_HEADER.size
        self.has_durable_entries = False
        """Whether an index may point into the log."""
        self._buffer = [LOG_HEADER.struct.pack(MAGIC, VERSION, 0, 0)]
        self._written = self._synced_to = 0
        self._ledger_bytes: dict[int, int] = {}

    def append(self, ledger_id: int, entries: Sequence[bytes]) -> list[int]:
        sizes = [*map(len, entries)]
        framed_sizes = (_LENGTH.size + size for size in sizes)
        first = location_of(self.log_id, self.end + _LENGTH.size)
        # The last element is the location that the next entry would have.
        *locations, end = accumulate(framed_sizes, initial=first)
        self._buffer += chain.from_iterable(zip(map(_LENGTH.pack, sizes), entries, strict=True))
        self.end += end - first
        self._ledger_bytes[ledger_id] = self._ledger_bytes.get(ledger_id, 0) + end - first
        if self.end - self._written >= _WRITE_SIZE:
            self._write()
        return locations

    def append_ledgers_map(self) -> None:
        map_offset = self.end
        items = sorted(self._ledger_bytes.items())
        for first in range(0, len(items), _MAP_BATCH):
            batch = items[first : first + _MAP_BATCH]
            size = LEDGERS_MAP_HEADER.size - 4 + LEDGERS_MAP_ITEM.size * len(batch)
            self._buffer.append(
                LEDGERS_MAP_HEADER.struct.pack(size, MAP_LEDGER_ID, MAP_ENTRY_ID, len(batch))
            )
            self._buffer += (LEDGERS_MAP_ITEM.struct.pack(*item) for item in batch)
            self.end += 4 + size
        self._write()
        # Write the header last, because it must not point to a map that has not been written.
        self.file.write(0, LOG_HEADER.struct.pack(MAGIC, VERSION, map_offset, len(items)))

    def sync(self) -> None:
        if self._synced_to < self.end:
            self._write()
            self.file.sync()
            self._synced_to = self.end
        self.has_durable_entries = True

    def _write(self) -> None:
        pieces, self._buffer = self._buffer, []
        # Join the pieces into chunks that fit into the processor's caches.
        at_a_time = max(1, len(pieces) * _WRITE_SIZE // (self.end - self._written or 1))
        for first in range(0, len(pieces), at_a_time):
            joined = b"".join(pieces[first : first + at_a_time])
            self.file.write(self._written, joined)
            self._written += len(joined)


def _open(disk: Disk, log_id: int) -> File:
    return disk.open(f"current/{log_name(log_id)}")


def log_ids(disk: Disk) -> list[int]:
    return ids_in(disk, "current", ".log")


def scan_entry_log(disk: Disk, log_id: int) -> Iterator[LogEntry]:
    """Yield every entry in a log. A truncated entry ends the scan without an error.

    In BookKeeper: `DefaultEntryLogger.scanEntryLog`.
    """
    with closing(_open(disk, log_id)) as file:
        position, end, head = LOG_HEADER.size, file.size(), LOG_ENTRY_HEADER.struct
        while position + head.size <= end:
            size, ledger_id, entry_id = head.unpack(file.read(position, head.size))
            if size <= 0:
                # Skip zeros, and filler left by direct I/O, to find the next entry.
                position += 1 if size else zeros_to_skip(file, position)
                continue
            if position + 4 + size > end:
                break
            if ledger_id != MAP_LEDGER_ID:
                yield LogEntry(position, ledger_id, entry_id, file.read(position + 4, size))
            position += 4 + size


def read_ledgers_map(disk: Disk, log_id: int) -> dict[int, int] | None:
    """Return the number of bytes that belong to each ledger, or None if the log has no complete
    ledgers map.
    In BookKeeper: `DefaultEntryLogger.extractEntryLogMetadataFromIndex`.
    """
    with closing(_open(disk, log_id)) as file:
        header, at, end, ledger_count = file.read(0, LOG_HEADER.size), 0, 0, 0
        if len(header) == LOG_HEADER.size:
            _, version, at, ledger_count = LOG_HEADER.struct.unpack(header)
            end = file.size() if version >= 1 else 0  # Version 0 has no ledgers map.
        found: dict[int, int] = {}
        while LOG_HEADER.size <= at <= end - LEDGERS_MAP_HEADER.size:
            head = file.read(at, LEDGERS_MAP_HEADER.size)
            size, *ids, count = LEDGERS_MAP_HEADER.struct.unpack(head)
            is_map = ids == [MAP_LEDGER_ID, MAP_ENTRY_ID] and 1 <= count <= _MAP_BATCH
            batch_size = LEDGERS_MAP_ITEM.size * count
            if not is_map or LEDGERS_MAP_HEADER.size + batch_size != _LENGTH.size + size:
                return None
            batch = file.read(at + LEDGERS_MAP_HEADER.size, batch_size)
            if len(batch) < batch_size:
                return None
            found.update(LEDGERS_MAP_ITEM.struct.iter_unpack(batch))
            at += _LENGTH.size + size
    return found if found and len(found) == ledger_count else None
