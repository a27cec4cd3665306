"""The index: where each entry of a ledger lies in the entry logs.

One file per ledger, `<hex>/<hex>/<hex ledger id>.idx`: a 1024-byte header (master key, fenced bit,
explicit LAC), then one i64 location per entry id, 0 where this bookie has no such entry.  Locations
are read and written in pages.

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
    Field("version", "i", "1: has room for an explicit LAC; 0: has none"),
    Field("master key length", "i", "20"),
)
"""Followed by the master key and `INDEX_STATE`; zeros up to 1024."""
INDEX_STATE = Layout(
    "index state",
    Field("state bits", "i", "bit 0: fenced"),
    Field("explicit LAC length", "i", "0: none; zeros in version 0"),
)
"""Followed by the explicit LAC."""
INDEX_SLOT = Layout(
    "index slot",
    Field("location", "q", "log id << 32 | offset of the entry; 0: not here"),
)

MAGIC = b"BKLE"
VERSION = 1
DATA_OFFSET = 1024
_FENCED = 1
_SHORTEST_LAC = LAC_HEADER.size
_LOCATION = INDEX_SLOT.struct
_BYTES = frozenset(f"{byte:x}" for byte in range(256))
"""The names of folders of indexes."""
_READ_SIZE = 64 * INDEX_SLOT.size
"""Bytes of locations that are read at a time and kept: little, as there may be many ledgers."""


def index_path(ledger_id: int) -> str:
    """Where a ledger's index lies below the ledger directory."""
    return f"current/{ledger_id >> 8 & 0xFF:x}/{ledger_id & 0xFF:x}/{ledger_id:x}.idx"


class IndexHeader(NamedTuple):
    """What a ledger's index keeps beside the locations."""

    master_key: bytes
    fenced: bool = False
    explicit_lac: bytes = b""
    version: int = VERSION
    """Format version 0 has no room for an explicit LAC."""

    def encode(self) -> bytes:
        """The header's bytes, without the zeros up to `DATA_OFFSET`."""
        key, lac = self.master_key, self.explicit_lac if self.version >= 1 else b""
        head = INDEX_HEADER.struct.pack(MAGIC, self.version, len(key)) + key
        return head + INDEX_STATE.struct.pack(_FENCED if self.fenced else 0, len(lac)) + lac

    @classmethod
    def decode(cls, data: bytes) -> "IndexHeader":
        """The inverse.  Raises `ValueError` or `struct.error`."""
        magic, version, key_size = INDEX_HEADER.struct.unpack_from(data)
        if magic != MAGIC or version not in (0, VERSION) or key_size < 0:
            raise ValueError(f"magic {magic!r}, version {version}, key length {key_size}")
        at = INDEX_HEADER.size + key_size
        master_key = data[INDEX_HEADER.size : at]
        state, lac_size = INDEX_STATE.struct.unpack_from(data, at)
        at += INDEX_STATE.size
        # What follows the state bits in version 0 has no meaning.
        if version == 0:
            lac_size = 0
        if lac_size < 0 or 0 < lac_size < _SHORTEST_LAC or at + lac_size > len(data):
            raise ValueError(f"explicit LAC of {lac_size} bytes")
        return cls(master_key, bool(state & _FENCED), data[at : at + lac_size], version)

    @property
    def is_possible(self) -> bool:
        """Whether the header has room for key and explicit LAC, and could be read again."""
        size = INDEX_HEADER.size + len(self.master_key) + INDEX_STATE.size + len(self.explicit_lac)
        return size <= DATA_OFFSET and len(self.explicit_lac) not in range(1, _SHORTEST_LAC)


class WrittenIndex(NamedTuple):
    """A flush that is under way: the header that was written, and the file to sync."""

    header: bytes
    file: File


class LedgerIndex:
    """A ledger's index file, and the changes that are not in the file yet.

    Changed locations stay in memory until the next flush; other locations are read when needed.

    Invariants: the master key in the header never changes; a location is set only after the entry
    was written to the entry log.
    """

    __slots__ = (
        "_ahead",
        "_changed",
        "_file",
        "_flush_count",
        "_last_set",
        "_last_stored",
        "_may_be_unsynced",
        "_page_count",
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
        """The header as the next flush writes it."""
        self.disk = disk
        self.page_size = page_size
        self._file: File | None = None
        self.on_open: Callable[[LedgerIndex], None] | None = None
        """Called when the index has opened its file, which stays open until `forget_file`."""
        self._stored_header = b""
        """The file's header without its padding; empty while there is no file."""
        self._page_count = 0
        self._whole_page_count = 0
        """Pages that the file has to their ends."""
        self._changed = ChangedLocations(page_size)
        self._flush_count = 0
        self._ahead = -1, 0, b""
        """Read-ahead: flush count it is valid for, start offset, bytes."""
        self._last_stored: int | None = None
        """The last entry in the index at the first query."""
        self._last_set = -1
        self._may_be_unsynced = False

    @classmethod
    def load(cls, ledger_id: int, disk: Disk, page_size: int) -> "LedgerIndex":
        """Open the ledger's file.

        Raises `FileNotFoundError`, and `StorageDamagedException` for a header that makes no sense
        or is cut: no crash cuts it, as `put_in_place` renames a file that is synced.
        """
        file = disk.open(index_path(ledger_id))
        size = file.size() - DATA_OFFSET
        try:
            if size < 0:
                raise ValueError(f"{file.size()} of its {DATA_OFFSET} bytes")
            header = IndexHeader.decode(file.read(0, DATA_OFFSET))
        except (struct.error, ValueError) as error:
            raise StorageDamagedException(
                f"index {disk.path(index_path(ledger_id))}: unreadable header ({error})"
            ) from None
        index = cls(ledger_id, header, disk, page_size)
        index._file = file
        index._stored_header = header.encode()
        index._page_count = -(-size // page_size)
        index._whole_page_count = size // page_size
        return index

    def mark_unsynced(self) -> None:
        """The file's content may be unsynced, left by an earlier process: the next `flush` writes
        the header again, changed or not.  A sync alone would not do: where one has failed, the
        operating system still shows the bytes, and never writes them.  Locations are written again
        when they are set again.
        """
        self._may_be_unsynced = bool(self._stored_header)

    @property
    def changed_page_count(self) -> int:
        """Pages with changes in memory."""
        return len(self._changed.pages)

    def set_locations(self, entry_ids: Sequence[int], locations: Sequence[int]) -> None:
        """Remember where these entries are.  Durable after `flush`."""
        self._changed.set(entry_ids, locations)
        self._last_set = max(self._last_set, *entry_ids)
        last_page = self._last_set * _LOCATION.size // self.page_size
        self._page_count = max(self._page_count, last_page + 1)

    def location(self, entry_id: int) -> int:
        """Where the entry lies; 0 if this bookie does not have it."""
        changed = self._changed.get(entry_id)
        if changed is not None:
            return changed
        page_id = entry_id * _LOCATION.size // self.page_size
        if page_id >= self._page_count or not self._stored_header:
            return 0
        return self._stored_location(entry_id * _LOCATION.size)

    def locations_from(self, entry_id: int, count: int) -> Sequence[int]:
        """Where that entry and those behind it lie, not further than its page goes; 0: not here."""
        page_id, at = divmod(entry_id * _LOCATION.size, self.page_size)
        count = min(count, (self.page_size - at) // _LOCATION.size)
        return struct.unpack_from(f">{count}q", self._page(page_id), at)

    def _stored_location(self, offset: int) -> int:
        """From the file, with its neighbours: a reader that catches up wants those next."""
        start, (flush_count, known, stored) = offset - offset % _READ_SIZE, self._ahead
        if (flush_count, known) != (self._flush_count, start):
            flush_count = self._flush_count
            stored = self._open_file().read(DATA_OFFSET + start, _READ_SIZE)
            self._ahead = flush_count, start, stored
        # A location that the file ends in the middle of was never synced.
        if len(stored) < offset - start + _LOCATION.size:
            return 0
        found: int = _LOCATION.unpack_from(stored, offset - start)[0]
        return found

    def last_entry_id(self) -> int:
        """The highest entry id that has a location; -1 if there is none."""
        if self._last_stored is None:
            self._last_stored = self._find_last_entry_id()
        return max(self._last_stored, self._last_set)

    def _find_last_entry_id(self) -> int:
        # Nearly always it is in the last page.
        for start in (max(0, self._page_count - 1), 0):
            for page_id in reversed([*self._pages(start)]):
                slots = [location for (location,) in _LOCATION.iter_unpack(self._page(page_id))]
                for slot in range(len(slots) - 1, -1, -1):
                    if slots[slot]:
                        return page_id * len(slots) + slot
        return -1

    def _pages(self, start: int = 0) -> Iterator[int]:
        """The pages from there on that may hold a location, ascending.

        A ledger may begin late on a bookie, and a client may add entry 2**40 - 1 alone: such an
        index is mostly a hole, and scanning terabytes of zeros would take forever.
        """
        changed, page_id = sorted(self._changed.pages), start
        while page_id < self._page_count:
            stored = self._next_stored_page(page_id)
            yield from changed[bisect_left(changed, page_id) : bisect_left(changed, stored)]
            if stored < self._page_count:
                yield stored
            page_id = stored + 1

    def _next_stored_page(self, page_id: int) -> int:
        """This one, or the next that may have bytes in the file; else the number of pages."""
        if not self._stored_header:
            return self._page_count
        offset = self._open_file().next_data(DATA_OFFSET + page_id * self.page_size)
        return min(self._page_count, max(page_id, (offset - DATA_OFFSET) // self.page_size))

    def locations(self) -> Iterator[tuple[int, int]]:
        """(entry id, location) of every entry, ascending."""
        for page_id in self._pages():
            first = page_id * self.page_size // _LOCATION.size
            for slot, (location,) in enumerate(_LOCATION.iter_unpack(self._page(page_id))):
                if location:
                    yield first + slot, location

    def flush(self) -> None:
        """Make key, fence, explicit LAC and locations durable."""
        written = self.write()
        if written is not None:
            written.file.sync()
            for folder in self.put_in_place(written):
                self.disk.sync_folder(folder)
            self.mark_name_durable()

    # The steps of a flush: those of many ledgers are taken together.

    def write(self) -> WrittenIndex | None:
        """Write what has changed, if anything has; sync its file before `put_in_place`.

        A new file is written aside: a ledger has a whole header or no file.
        """
        # Encoded once: a fence that comes while this writes differs from it the next time.
        header = self.header.encode()
        if header == self._stored_header and not self._changed.pages and not self._may_be_unsynced:
            return None
        is_new = not self._stored_header
        file = self.disk.create(_path_aside(self.ledger_id)) if is_new else self._open_file()
        if header != self._stored_header or self._may_be_unsynced:
            file.write(0, header.ljust(DATA_OFFSET, b"\0"))
        for offset, slots in self._changed.pieces(self._whole_page_count, self._stored_page):
            file.write(DATA_OFFSET + offset, slots)
        return WrittenIndex(header, file)

    def put_in_place(self, written: WrittenIndex) -> Sequence[str]:
        """The file is synced.  Returns the folders, the deepest first, that must be synced before
        `mark_name_durable`.
        """
        path = index_path(self.ledger_id)
        if not self._stored_header:
            self.disk.rename(_path_aside(self.ledger_id), path)
            self._keep_open(written.file)
            self._may_be_unsynced = True
        self._stored_header = written.header
        # Before the changes go: what was read ahead until now is old.
        self._flush_count += 1
        last_page = max(self._changed.pages, default=-1)
        self._whole_page_count = max(self._whole_page_count, last_page + 1)
        self._changed = ChangedLocations(self.page_size)
        return _folders_of(path) if self._may_be_unsynced else ()

    def mark_name_durable(self) -> None:
        """The folders are synced."""
        self._may_be_unsynced = False

    def forget_file(self) -> None:
        """Keep the file open only for its current readers; the next use opens it again."""
        self._file = None

    def close(self) -> None:
        """Close the file."""
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
        """A page as it is now, from memory or from the file."""
        # Taken first: a flush meanwhile moves them to the file.
        changed = self._changed
        return changed.put_into(page_id, self._stored_page(page_id))

    def _stored_page(self, page_id: int) -> bytes:
        offset = DATA_OFFSET + page_id * self.page_size
        stored = self._open_file().read(offset, self.page_size) if self._stored_header else b""
        # A location that the file ends in the middle of was never synced: it counts as 0.
        whole = stored[: len(stored) // _LOCATION.size * _LOCATION.size]
        return whole.ljust(self.page_size, b"\0")


def _path_aside(ledger_id: int) -> str:
    return index_path(ledger_id) + ".new"


def _folders_of(path: str) -> list[str]:
    # The deepest first.
    parts = path.split("/")[:-1]
    return ["/".join(parts[:depth]) for depth in range(len(parts), 0, -1)]


def ledger_ids_on_disk(disk: Disk) -> list[int]:
    """Ids of the ledgers that have an index file, ascending.

    Raises `StorageDamagedException` for what is named like an index, or its folder, and is none.
    """
    return sorted(
        ledger_id for folder in index_folders(disk) for ledger_id in ids_in(disk, folder, ".idx")
    )


def index_folders(disk: Disk) -> Iterator[str]:
    """Where `index_path` puts indexes, as far as there are such folders."""
    for high in disk.names("current"):
        if high in _BYTES:
            names = disk.names(f"current/{high}")
            yield from (f"current/{high}/{low}" for low in names if low in _BYTES)
