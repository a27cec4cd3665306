"""The index file of a ledger, which maps each entry id to a location in the entry logs.

The file `<hex>/<hex>/<hex ledger id>.idx` has a 1024-byte header (master key, fenced bit, explicit
LAC), followed by one i64 location per entry id. Location 0 means that this bookie does not have the
entry.

In BookKeeper: `bookie/FileInfo.java`.
"""

import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from labkit.system.model.entry import LAC_HEADER
from labkit.system.model.errors import StorageDamagedException
from labkit.system.model.layout import Field, Layout
from labkit.system.storage.disk import Disk, File, ids_in
from labkit.system.storage.index.changed_locations import ChangedLocations

INDEX_HEADER = Layout(
    "index header",
    Field("magic", "4s", "BKLE"),
    Field("version", "i", "1: can store an explicit LAC; 0: cannot"),
    Field("master key length", "i", "20"),
)
"""The header is followed by the master key, `INDEX_STATE`, and zeros up to offset 1024."""
INDEX_STATE = Layout(
    "index state",
    Field("state bits", "i", "bit 0: fenced"),
    Field("explicit LAC length", "i", "0: no explicit LAC"),
)
"""The state is followed by the explicit LAC."""
INDEX_SLOT = Layout(
    "index slot",
    Field("location", "q", "log id << 32 | offset of the entry; 0: no entry"),
)

MAGIC = b"BKLE"
VERSION = 1
DATA_OFFSET = 1024
_FENCED = 1
_LONGEST_KEY = DATA_OFFSET - INDEX_HEADER.size - INDEX_STATE.size
_SHORTEST_LAC = LAC_HEADER.size
_LOCATION = INDEX_SLOT.struct
_BYTES = frozenset(f"{byte:x}" for byte in range(256))
"""The names of the folders that contain indexes."""
_READ_SIZE = 64 * INDEX_SLOT.size
"""How many bytes of locations are read at a time, and cached for each ledger."""


def index_path(ledger_id: int) -> str:
    return f"current/{ledger_id >> 8 & 0xFF:x}/{ledger_id & 0xFF:x}/{ledger_id:x}.idx"


class IndexHeader(NamedTuple):
    master_key: bytes
    fenced: bool = False
    explicit_lac: bytes = b""
    version: int = VERSION
    """Version 0 has no room for an explicit LAC."""

    def encode(self) -> bytes:
        """Return the encoded header, without the zeros that pad it to `DATA_OFFSET` bytes."""
        key, lac = self.master_key, self.explicit_lac if self.version >= 1 else b""
        head = INDEX_HEADER.struct.pack(MAGIC, self.version, len(key)) + key
        return head + INDEX_STATE.struct.pack(_FENCED if self.fenced else 0, len(lac)) + lac

    @classmethod
    def decode(cls, data: bytes) -> "IndexHeader":
        """Decode a header. Raises `ValueError` if the header is invalid. `data` must have
        `DATA_OFFSET` bytes.
        """
        magic, version, key_size = INDEX_HEADER.struct.unpack_from(data)
        if magic != MAGIC or version not in (0, VERSION) or not 0 <= key_size <= _LONGEST_KEY:
            raise ValueError(
                f"magic {magic!r}, version {version}, key length {key_size}; expected magic"
                f" {MAGIC!r}, version 0 or {VERSION}, key length 0 to {_LONGEST_KEY}"
            )
        at = INDEX_HEADER.size + key_size
        master_key = data[INDEX_HEADER.size : at]
        state, lac_size = INDEX_STATE.struct.unpack_from(data, at)
        at += INDEX_STATE.size
        # In version 0, the bytes after the state bits are meaningless.
        if version == 0:
            lac_size = 0
        if lac_size < 0 or 0 < lac_size < _SHORTEST_LAC or at + lac_size > len(data):
            raise ValueError(f"invalid explicit LAC length {lac_size}")
        return cls(master_key, bool(state & _FENCED), data[at : at + lac_size], version)

    @property
    def is_encodable(self) -> bool:
        """Whether the master key and the explicit LAC fit into the header and can be read back."""
        size = INDEX_HEADER.size + len(self.master_key) + INDEX_STATE.size + len(self.explicit_lac)
        return size <= DATA_OFFSET and len(self.explicit_lac) not in range(1, _SHORTEST_LAC)


class WrittenIndex(NamedTuple):
    """The header that was written, and the file that must be synced."""

    header: bytes
    file: File


class LedgerIndex:
    """The index of one ledger. New locations stay in memory until the next flush; all other
    locations are read from the file on demand.

    Invariants: the master key in the header never changes; a location is set only after the entry
    has been synced in the entry log.
    """

    __slots__ = (
        "_changed",
        "_file",
        "_flush_count",
        "_last_set",
        "_last_stored",
        "_needs_sync",
        "_page_count",
        "_read_ahead",
        "_stored_header",
        "_whole_page_count",
        "disk",
        "header",
        "ledger_id",
        "on_open",
        "page_size",
    )

    def __init__(self, ledger_id: int, header: IndexHeader, disk: Disk, page_size: int) -> None:
        self.ledger_id = ledger_id
        self.header = header
        """The header that the next flush writes."""
        self.disk = disk
        self.page_size = page_size
        self._file: File | None = None
        self.on_open: Callable[[LedgerIndex], None] | None = None
        """Called when the index opens its file, which stays open until `forget_file`."""
        self._stored_header = b""
        """The header in the file, without its padding; empty if no file exists yet."""
        self._page_count = 0
        """The number of pages that the file will have once the changes have been written."""
        self._whole_page_count = 0
        """The number of complete pages in the file."""
        self._changed = ChangedLocations(page_size)
        self._flush_count = 0
        self._read_ahead = -1, 0, b""
        """The last chunk that was read from the file: the flush count at that time, the offset, and
        the bytes.
        """
        self._last_stored: int | None = None
        """The highest entry id in the file, once `last_entry_id` has determined it."""
        self._last_set = -1
        """The highest entry id passed to `set_locations`, or -1."""
        self._needs_sync = False
        """Whether `assume_unsynced` has been called since the last flush, or the folders of a new
        file still have to be synced.
        """

    @classmethod
    def load(cls, ledger_id: int, disk: Disk, page_size: int) -> "LedgerIndex":
        """Load an existing index. Raises `FileNotFoundError`, or `StorageDamagedException` if the
        header is invalid or truncated, which a crash cannot cause (see `write`).
        """
        file = disk.open(index_path(ledger_id))
        size = file.size() - DATA_OFFSET
        try:
            if size < 0:
                raise ValueError(f"{file.size()} bytes, expected {DATA_OFFSET}")
            header = IndexHeader.decode(file.read(0, DATA_OFFSET))
        except ValueError as error:
            file.close()
            raise StorageDamagedException(
                f"index {disk.path(index_path(ledger_id))}: unreadable header ({error})"
            ) from None
        index = cls(ledger_id, header, disk, page_size)
        index._file = file
        index._stored_header = header.encode()
        index._page_count = -(-size // page_size)
        index._whole_page_count = size // page_size
        return index

    def assume_unsynced(self) -> None:
        """Make the next flush rewrite the header and sync the file even if nothing has changed (the
        failed-sync rule, see `disk`). A location is written again only if it is set again.
        """
        self._needs_sync = bool(self._stored_header)

    @property
    def has_file(self) -> bool:
        return bool(self._stored_header) or self.disk.exists(index_path(self.ledger_id))

    @property
    def changed_page_count(self) -> int:
        return len(self._changed.pages)

    def set_locations(self, entry_ids: Sequence[int], locations: Sequence[int]) -> None:
        self._changed.set(entry_ids, locations)
        self._last_set = max(self._last_set, *entry_ids)
        last_page = self._last_set * _LOCATION.size // self.page_size
        self._page_count = max(self._page_count, last_page + 1)

    def location(self, entry_id: int) -> int:
        """Return the entry's location, or 0 if this bookie does not have the entry."""
        changed = self._changed.get(entry_id)
        if changed is not None:
            return changed
        page_id = entry_id * _LOCATION.size // self.page_size
        if page_id >= self._page_count or not self._stored_header:
            return 0
        return self._stored_location(entry_id * _LOCATION.size)

    def locations_from(self, entry_id: int, count: int) -> Sequence[int]:
        """Return the locations of up to `count` entries, starting with this entry. The result
        contains only locations on the same page, some of which may be 0.
        """
        page_id, at = divmod(entry_id * _LOCATION.size, self.page_size)
        count = min(count, (self.page_size - at) // _LOCATION.size)
        return struct.unpack_from(f">{count}q", self._page(page_id), at)

    def _stored_location(self, offset: int) -> int:
        """Read a location from the file, together with its neighbours."""
        start, (flush_count, known_start, stored) = offset - offset % _READ_SIZE, self._read_ahead
        if (flush_count, known_start) != (self._flush_count, start):
            flush_count = self._flush_count
            stored = self._open_file().read(DATA_OFFSET + start, _READ_SIZE)
            self._read_ahead = flush_count, start, stored
        # A location that is cut off by the end of the file was never synced.
        if len(stored) < offset - start + _LOCATION.size:
            return 0
        found: int = _LOCATION.unpack_from(stored, offset - start)[0]
        return found

    def last_entry_id(self) -> int:
        """Return the highest entry id that has a location, or -1."""
        if self._last_stored is None:
            self._last_stored = self._find_last_entry_id()
        return max(self._last_stored, self._last_set)

    def _find_last_entry_id(self) -> int:
        # The last location is nearly always in the last page.
        for start in (max(0, self._page_count - 1), 0):
            for page_id in reversed([*self._pages(start)]):
                slots = [location for (location,) in _LOCATION.iter_unpack(self._page(page_id))]
                for slot in range(len(slots) - 1, -1, -1):
                    if slots[slot]:
                        return page_id * len(slots) + slot
        return -1

    def _pages(self, start: int = 0) -> Iterator[int]:
        """Yield, in order, the pages from `start` on that may contain a location.

        Skip holes, because a client that adds only entry 2**40 - 1 creates a hole of 8 TiB.
        """
        changed, page_id = sorted(self._changed.pages), start
        while page_id < self._page_count:
            stored = self._next_stored_page(page_id)
            # Before page `stored`, only changed pages can contain a location.
            yield from changed[bisect_left(changed, page_id) : bisect_left(changed, stored)]
            if stored < self._page_count:
                yield stored
            page_id = stored + 1

    def _next_stored_page(self, page_id: int) -> int:
        """Return the first page at or after `page_id` that is not in a hole, or the page count."""
        if not self._stored_header:
            return self._page_count
        offset = self._open_file().next_data(DATA_OFFSET + page_id * self.page_size)
        return min(self._page_count, max(page_id, (offset - DATA_OFFSET) // self.page_size))

    def locations(self) -> Iterator[tuple[int, int]]:
        """Yield (entry id, location) in ascending order."""
        for page_id in self._pages():
            first = page_id * self.page_size // _LOCATION.size
            for slot, (location,) in enumerate(_LOCATION.iter_unpack(self._page(page_id))):
                if location:
                    yield first + slot, location

    def flush(self) -> None:
        written = self.write()
        if written is not None:
            written.file.sync()
            for folder in self.after_sync(written):
                self.disk.sync_folder(folder)
            self.note_folders_synced()

    # The following methods are the steps of `flush`; `LedgerCache.flush` runs each step for many
    # ledgers together.

    def write(self) -> WrittenIndex | None:
        """Write the changes, if any; the caller must sync the file and then call `after_sync`.

        A new file is written under a temporary name, so it always has a complete header.
        """
        # Encode the header only once. If a fence is set during the write, the next flush then
        # notices the difference.
        header = self.header.encode()
        if header == self._stored_header and not self._changed.pages and not self._needs_sync:
            return None
        is_new = not self._stored_header
        file = self.disk.create(_temporary_path(self.ledger_id)) if is_new else self._open_file()
        if header != self._stored_header or self._needs_sync:
            file.write(0, header.ljust(DATA_OFFSET, b"\0"))
        for offset, slots in self._changed.writes(self._whole_page_count, self._stored_page):
            file.write(DATA_OFFSET + offset, slots)
        return WrittenIndex(header, file)

    def after_sync(self, written: WrittenIndex) -> Sequence[str]:
        """If the file is new, give it its final name. Return the folders to sync, deepest first."""
        path = index_path(self.ledger_id)
        if not self._stored_header:
            self.disk.rename(_temporary_path(self.ledger_id), path)
            self._keep_open(written.file)
            self._needs_sync = True
        self._stored_header = written.header
        # Invalidate the read-ahead, which does not contain the changes, before dropping the
        # changes.
        self._flush_count += 1
        last_page = max(self._changed.pages, default=-1)
        self._whole_page_count = max(self._whole_page_count, last_page + 1)
        self._changed = ChangedLocations(self.page_size)
        return _folders_of(path) if self._needs_sync else ()

    def note_folders_synced(self) -> None:
        self._needs_sync = False

    def forget_file(self) -> None:
        """Close the file once the current reads have ended; it is reopened when needed."""
        self._file = None

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def _open_file(self) -> File:
        file = self._file
        if file is None:
            file = self.disk.open(index_path(self.ledger_id))
            self._keep_open(file)
        return file

    def _keep_open(self, file: File) -> None:
        self._file = file
        if self.on_open is not None:
            self.on_open(self)

    def _page(self, page_id: int) -> bytes:
        # Get the changes before reading the file, because a concurrent flush moves them to the
        # file.
        changed = self._changed
        return changed.put_into(page_id, self._stored_page(page_id))

    def _stored_page(self, page_id: int) -> bytes:
        offset = DATA_OFFSET + page_id * self.page_size
        stored = self._open_file().read(offset, self.page_size) if self._stored_header else b""
        # A location that is cut off by the end of the file was never synced and counts as 0.
        whole = stored[: len(stored) // _LOCATION.size * _LOCATION.size]
        return whole.ljust(self.page_size, b"\0")


def _temporary_path(ledger_id: int) -> str:
    return index_path(ledger_id) + ".new"


def _folders_of(path: str) -> list[str]:
    # Deepest first.
    parts = path.split("/")[:-1]
    return ["/".join(parts[:depth]) for depth in range(len(parts), 0, -1)]


def ledger_ids_on_disk(disk: Disk) -> list[int]:
    """Return the ids of all ledgers with an index file. Raises `StorageDamagedException` if a file
    is named like an index file but is something else.
    """
    return sorted(
        ledger_id for folder in index_folders(disk) for ledger_id in ids_in(disk, folder, ".idx")
    )


def index_folders(disk: Disk) -> Iterator[str]:
    for high in disk.names("current"):
        if high in _BYTES:
            names = disk.names(f"current/{high}")
            yield from (f"current/{high}/{low}" for low in names if low in _BYTES)
