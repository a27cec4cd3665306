"""The entry log: entries of all ledgers, one after the other, in the order of flushes.

A file is `<hex id>.log`: a 1024-byte header, then entries, each after its length (i32).  When a log
is full it gets a ledgers map (how many bytes each ledger has in it) and a new log begins.  A log of
an earlier process is never appended to.

A location is one i64: log id in the upper half, offset of the entry (behind its length) in the
lower.  0 means "no entry".

In BookKeeper: `bookie/DefaultEntryLogger.java`, `bookie/EntryLoggerAllocator.java`.
"""

import struct
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, takewhile
from typing import NamedTuple

from labkit.system.model.errors import StorageDamagedException
from labkit.system.model.layout import Field, Layout
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.disk import Disk, File, ids_in
from labkit.system.storage.last_log_id import MAX_LOG_ID, read_last_id, write_last_id
from labkit.system.storage.log_reader import LogReader, zeros_at

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
    Field("length", "i", "bytes of the entry, which follow"),
    Field("ledger id", "q", "the ledger"),
    Field("entry id", "q", "the entry's place in the ledger"),
)
"""The ids are the first fields of the entry itself."""

LEDGERS_MAP_HEADER = Layout(
    "ledgers map",
    Field("size", "i", "bytes that follow"),
    Field("ledger id", "q", "-1: this is not an entry"),
    Field("entry id", "q", "-2: it is a ledgers map"),
    Field("count", "i", "ledgers in this batch, 10000 at most"),
)

LEDGERS_MAP_ITEM = Layout(
    "ledgers map item",
    Field("ledger id", "q", "the ledger"),
    Field("bytes", "q", "what its entries take in this log, lengths included"),
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
"""Logs that are kept open for reading."""


class LogEntry(NamedTuple):
    """An entry as a scan finds it; `offset` is that of its length word."""

    offset: int
    ledger_id: int
    entry_id: int
    data: bytes


def location_of(log_id: int, offset: int) -> int:
    """The location of the entry whose bytes begin at `offset` of that log."""
    return log_id << 32 | offset


def log_name(log_id: int) -> str:
    """The file name of a log."""
    return f"{log_id:x}.log"


class EntryLogger:
    """All entry logs of a bookie's ledger directories, and those that are being written.

    All ledgers share one log, so that the disk writes in one place; optionally each ledger has its
    own log, which goes as a whole with its ledger.  New logs go to the directories in turn.

    Invariant: `sync` makes every entry appended before it durable, also those of logs that were
    filled since.  A log of which a write or a sync failed is never written to again: how much of
    it is on the device is unknown.  What was appended and not synced must be appended again.
    """

    def __init__(self, disks: Sequence[Disk], config: StorageConfig) -> None:
        self._disks = disks
        self._disk_of = {log_id: disk for disk in disks for log_id in log_ids(disk)}
        self._full_disks: set[int] = set()
        self._limit = config.log_size_limit
        self._readers: dict[int, LogReader] = {}
        self._per_ledger = config.entry_log_per_ledger_enabled
        self._max_active = config.maximum_number_of_active_entry_logs
        self._active: dict[int, OpenLog] = {}
        """By ledger id; with a shared log there is one key only."""
        self._full: list[OpenLog] = []
        # After every id ever given: an index that points to a removed log must not meet a new one.
        self._last_id = max(-1, *self._disk_of, *(read_last_id(disk) for disk in disks))
        self._preallocated: int | None = None

    def append(self, ledger_id: int, entries: Sequence[bytes]) -> list[int]:
        """Write entries of a ledger behind the others; returns their locations.

        They are durable after `sync`.  Raises `OSError`.
        """
        owner = ledger_id if self._per_ledger else _SHARED
        log = self._active.get(owner)
        try:
            if log is None or (self._full_disks and self._is_on_full_directory(log.log_id)):
                log = self._begin_log(owner)
            return log.append(ledger_id, entries)
        except OSError:
            self._abandon_logs()
            raise

    def sync(self) -> None:
        """Make durable what was appended.

        A log that is over the size limit ends here, and so do the oldest of too many active ones.
        """
        try:
            self._sync_logs()
        except OSError:
            self._abandon_logs()
            raise

    def read(self, location: int, ledger_id: int, entry_id: int) -> bytes:
        """The entry at a location.

        Raises `StorageDamagedException` when another entry, or none, lies there.
        """
        log_id, offset = location >> 32, location & 0xFFFFFFFF
        # A location of which only the upper half was written points into the header.
        if offset > LOG_HEADER.size:
            data = self._reader(log_id).entry(offset, ledger_id, entry_id)
            if data is not None:
                return data
        raise StorageDamagedException(
            f"entry log {self.disk_of(log_id).path('current')}/{log_name(log_id)}, offset {offset}:"
            f" entry {entry_id} of ledger {ledger_id} should lie here and does not"
        )

    def read_all(
        self, locations: Sequence[int], ledger_id: int, first: int, room: int
    ) -> tuple[list[bytes], int]:
        """Entries that lie near each other in one log, as `LogReader.entries` reads them."""
        log_id = locations[0] >> 32
        here = takewhile(lambda location: location >> 32 == log_id, locations)
        offsets = [location & 0xFFFFFFFF for location in here]
        return self._reader(log_id).entries(offsets, ledger_id, first, room)

    def holds(self, location: int, ledger_id: int, entry_id: int) -> bool:
        """Whether the entry lies whole at that location.

        A bookie that syncs its index before its logs leaves locations of which this is not true.
        """
        try:
            self.read(location, ledger_id, entry_id)
        except StorageDamagedException:
            return False
        return True

    def finished_log_ids(self) -> list[int]:
        """Logs that nothing is written to any more, ascending."""
        open_ids = {self._preallocated, *(log.log_id for log in self._active.values())}
        open_ids.update(log.log_id for log in self._full)
        return [log_id for log_id in sorted(self._disk_of) if log_id not in open_ids]

    def set_full_directories(self, places: set[int]) -> None:
        """Append no more to logs in these directories, unless all are full."""
        self._full_disks = places if len(places) < len(self._disks) else set()

    def disk_of(self, log_id: int) -> Disk:
        """The directory that holds a log.

        Raises `StorageDamagedException` when there is no such log.
        """
        disk = self._disk_of.get(log_id)
        if disk is None:
            folders = ", ".join(each.path("current") for each in self._disks)
            raise StorageDamagedException(
                f"entry log {log_name(log_id)} is missing in {folders}, and an index points to it"
            )
        return disk

    def remove(self, log_id: int) -> None:
        """Remove a finished log.  Nothing may point to it, and no read of it may be under way."""
        reader = self._readers.pop(log_id, None)
        if reader is not None:
            reader.close()
        disk = self._disk_of.pop(log_id)
        disk.remove(f"current/{log_name(log_id)}")
        disk.sync_folder("current")

    def close(self) -> None:
        """Close all files.  Active logs keep an empty map, as BookKeeper leaves them."""
        for reader in self._readers.values():
            reader.close()
        for log in self._active.values():
            log.file.close()

    def open_log(self, file: File, log_id: int) -> "OpenLog":
        """Begin a log in its empty file.  A subclass may exchange this part."""
        return OpenLog(log_id, file)

    def _sync_logs(self) -> None:
        over_limit = [owner for owner, log in self._active.items() if log.end > self._limit]
        surplus = list(self._active)[: max(0, len(self._active) - self._max_active)]
        for owner in {**dict.fromkeys(over_limit), **dict.fromkeys(surplus)}:
            self._end_log(owner)
        for full in self._full:
            full.sync()
            full.file.close()
        self._full = []
        for log in self._active.values():
            log.sync()

    def _abandon_logs(self) -> None:
        """Write no more to what is being written; give back the space of what has no entry yet."""
        abandoned, self._active, self._full = (*self._active.values(), *self._full), {}, []
        for log in abandoned:
            log.file.close()
            # No index points into it: locations are set after a log's first sync.
            if not log.is_synced:
                self.remove(log.log_id)

    def _reader(self, log_id: int) -> LogReader:
        reader = self._readers.get(log_id)
        if reader is None:
            if len(self._readers) >= _MAX_READERS:
                # Not closed here: a read in another thread may still use it.
                del self._readers[next(iter(self._readers))]
            reader = self._readers[log_id] = LogReader(_open(self.disk_of(log_id), log_id))
        return reader

    def _begin_log(self, owner: int) -> "OpenLog":
        """Take the log that was created ahead, if it will do, and create the next one."""
        log_id = self._preallocated
        if log_id is None or self._is_on_full_directory(log_id):
            log_id = self._allocate()
        self._preallocated = self._allocate()
        if owner in self._active:
            self._end_log(owner)
        self._active[owner] = self.open_log(_open(self._disk_of[log_id], log_id), log_id)
        return self._active[owner]

    def _end_log(self, owner: int) -> None:
        """Nothing more goes into the owner's log; its last sync is still to come."""
        log = self._active.pop(owner)
        self._full.append(log)
        log.append_ledgers_map()

    def _is_on_full_directory(self, log_id: int) -> bool:
        disk = self._disk_of[log_id]
        return any(disk is self._disks[place] for place in self._full_disks)

    def _disk_for(self, log_id: int) -> Disk:
        full = self._full_disks  # another thread may exchange it
        writable = [disk for place, disk in enumerate(self._disks) if place not in full]
        return writable[log_id % len(writable)]

    def _allocate(self) -> int:
        log_id = self._last_id + 1 & MAX_LOG_ID
        while log_id in self._disk_of:
            log_id = log_id + 1 & MAX_LOG_ID
        self._last_id = log_id
        disk = self._disk_for(log_id)
        disk.create(f"current/{log_name(log_id)}").close()
        self._disk_of[log_id] = disk
        for each in self._disks:  # the highest id that survives in any counts
            write_last_id(each, log_id)
        return log_id


class OpenLog:
    """A log that is being written."""

    def __init__(self, log_id: int, file: File) -> None:
        self.log_id = log_id
        self.file = file
        self.end = LOG_HEADER.size
        self.is_synced = False
        """Whether entries of it are durable: indexes may point to them."""
        self._buffer = [LOG_HEADER.struct.pack(MAGIC, VERSION, 0, 0)]
        self._written = self._synced = 0
        self._ledger_bytes: dict[int, int] = {}

    def append(self, ledger_id: int, entries: Sequence[bytes]) -> list[int]:
        sizes = [*map(len, entries)]
        framed = (_LENGTH.size + size for size in sizes)
        first = location_of(self.log_id, self.end + _LENGTH.size)
        # The last one is where an entry behind these would lie.
        *locations, behind = accumulate(framed, initial=first)
        self._buffer += chain.from_iterable(zip(map(_LENGTH.pack, sizes), entries, strict=True))
        self.end += behind - first
        self._ledger_bytes[ledger_id] = self._ledger_bytes.get(ledger_id, 0) + behind - first
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
        # The header last: it must not name a map that is not written.
        self.file.write(0, LOG_HEADER.struct.pack(MAGIC, VERSION, map_offset, len(items)))

    def sync(self) -> None:
        if self._synced < self.end:
            self._write()
            self.file.sync()
            self._synced = self.end
        self.is_synced = True

    def _write(self) -> None:
        pieces, self._buffer = self._buffer, []
        # Joined some at a time, in memory that the processor's caches hold.
        at_a_time = max(1, len(pieces) * _WRITE_SIZE // (self.end - self._written or 1))
        for first in range(0, len(pieces), at_a_time):
            joined = b"".join(pieces[first : first + at_a_time])
            self.file.write(self._written, joined)
            self._written += len(joined)


def _open(disk: Disk, log_id: int) -> File:
    return disk.open(f"current/{log_name(log_id)}")


def log_ids(disk: Disk) -> list[int]:
    """Ids of the entry logs in a ledger directory, ascending."""
    return ids_in(disk, "current", ".log")


def scan_entry_log(disk: Disk, log_id: int) -> Iterator[LogEntry]:
    """Every entry in a log; stops quietly where the file is cut short.

    In BookKeeper: `DefaultEntryLogger.scanEntryLog`.
    """
    file = _open(disk, log_id)
    position, end, head = LOG_HEADER.size, file.size(), LOG_ENTRY_HEADER.struct
    while position + head.size <= end:
        size, ledger_id, entry_id = head.unpack(file.read(position, head.size))
        if size <= 0:
            # Zeros and the filler of direct I/O: no length to skip by.
            position += 1 if size else zeros_at(file, position)
            continue
        if position + 4 + size > end:
            break
        if ledger_id != MAP_LEDGER_ID:
            yield LogEntry(position, ledger_id, entry_id, file.read(position + 4, size))
        position += 4 + size
    file.close()


def read_ledgers_map(disk: Disk, log_id: int) -> dict[int, int] | None:
    """Bytes per ledger as the log's own map says; None if the log has no (whole) map.

    In BookKeeper: `DefaultEntryLogger.extractEntryLogMetadataFromIndex`.
    """
    file = _open(disk, log_id)
    header, at, end, ledger_count = file.read(0, LOG_HEADER.size), 0, 0, 0
    if len(header) == LOG_HEADER.size:
        _, version, at, ledger_count = LOG_HEADER.struct.unpack(header)
        end = file.size() if version >= 1 else 0  # version 0 has no map
    found: dict[int, int] = {}
    while LOG_HEADER.size <= at <= end - LEDGERS_MAP_HEADER.size:
        size, *ids, count = LEDGERS_MAP_HEADER.struct.unpack(file.read(at, LEDGERS_MAP_HEADER.size))
        is_map = ids == [MAP_LEDGER_ID, MAP_ENTRY_ID] and 1 <= count <= _MAP_BATCH
        batch_size = LEDGERS_MAP_ITEM.size * count
        if not is_map or LEDGERS_MAP_HEADER.size + batch_size != _LENGTH.size + size:
            return None
        batch = file.read(at + LEDGERS_MAP_HEADER.size, batch_size)
        if len(batch) < batch_size:
            return None
        found.update(LEDGERS_MAP_ITEM.struct.iter_unpack(batch))
        at += _LENGTH.size + size
    file.close()
    return found if found and len(found) == ledger_count else None
