"""The indexes of all ledgers of one bookie: opened when they are needed, and written together.

In BookKeeper: `bookie/LedgerCacheImpl.java`, `bookie/IndexPersistenceMgr.java`.
"""

from collections import deque
from collections.abc import Sequence

from labkit.system.storage.config import StorageConfig
from labkit.system.storage.disk import Disk
from labkit.system.storage.index.ledger_descriptor import LedgerDescriptor
from labkit.system.storage.index.ledger_index import (
    IndexHeader,
    LedgerIndex,
    WrittenIndex,
    index_path,
    ledger_ids_on_disk,
)

_DEFAULT_PAGE_LIMIT = 32 * 1024
"""Pages with changes in memory, where the configuration leaves it to the bookie.  With a few
changes each takes about 1 KiB; many changes need many entries, which a memtable does not have.
"""
_FLUSHED_TOGETHER = 256
"""At most this many files are open, written and not synced, at the same time."""
_WORTH_A_WHOLE_SYNC = 32
"""For this many files or folders, or more, one sync of the whole disk replaces theirs."""
_MOVED = ".rloc"
"""Suffix of an index file that BookKeeper was moving to another directory."""


class LedgerCache:
    """The indexes of all ledgers of a bookie, opened as they are needed.

    A ledger's index stays in the directory in which it was made.  Of all indexes together no more
    than `page_limit` changed pages are in memory.  A subclass may exchange `index_class`.
    """

    index_class = LedgerIndex

    def __init__(self, disks: Sequence[Disk], config: StorageConfig) -> None:
        """Raises `StorageDamagedException` for a name like an index's on something else."""
        self._disks = disks
        self._page_size = config.page_size
        self._version = config.file_info_format_version_to_write
        self._open_file_limit = config.open_file_limit
        self._page_limit = config.page_limit if config.page_limit > 0 else _DEFAULT_PAGE_LIMIT
        self._changed_page_count = 0
        self._open: dict[int, LedgerDescriptor] = {}
        self._with_file: deque[LedgerIndex] = deque()
        """Indexes that opened their files, in this order: at most `open_file_limit`."""
        # As in BookKeeper a start looks at every name: what is not an index ends it now, not later.
        self.ledger_ids()

    def get(self, ledger_id: int) -> LedgerDescriptor | None:
        """The ledger; None if this bookie stores nothing of it."""
        ledger = self._open.get(ledger_id)
        if ledger is None:
            disk = self._find(ledger_id)
            if disk is None:
                return None
            index = self.index_class.load(ledger_id, disk, self._page_size)
            self._opened(index)
            ledger = self._open.setdefault(ledger_id, self._descriptor(index))
        return ledger

    def create(self, ledger_id: int, master_key: bytes) -> LedgerDescriptor:
        """A new ledger.  Its file appears with its first flush."""
        disk = self._disks[ledger_id % len(self._disks)]
        header = IndexHeader(master_key, version=self._version)
        index = self.index_class(ledger_id, header, disk, self._page_size)
        return self._open.setdefault(ledger_id, self._descriptor(index))

    def set_locations(
        self, ledger_id: int, entry_ids: Sequence[int], locations: Sequence[int]
    ) -> None:
        """Remember where entries of a ledger lie, unless it was deleted.

        The entries must be durable before: the locations are after `flush`, which this does by
        itself when too many pages have changed.
        """
        ledger = self.get(ledger_id)
        if ledger is None:
            return
        index = ledger.index
        before = index.changed_page_count
        index.set_locations(entry_ids, locations)
        self._changed_page_count += index.changed_page_count - before
        if self._changed_page_count > self._page_limit:
            self.flush()

    def remove(self, ledger_id: int) -> None:
        """Forget a ledger that was deleted.  Its entries become garbage in the entry logs."""
        ledger = self._open.pop(ledger_id, None)
        if ledger is not None:
            ledger.index.close()
        disk = self._find(ledger_id)
        if disk is not None:
            path = index_path(ledger_id)
            disk.remove(path)
            disk.sync_folder(path.rpartition("/")[0])

    def empty(self, ledger_id: int) -> LedgerIndex:
        """Forget the ledger's entries, and keep its key and its fence.

        At once in memory; on disk with the `flush` of the index that this returns.
        """
        old = self._open[ledger_id].index
        header = old.header._replace(explicit_lac=b"")
        index = self.index_class(ledger_id, header, old.disk, self._page_size)
        # Replaced as a whole: a flush in another thread has the old index or the new one.
        self._open[ledger_id] = self._descriptor(index)
        old.forget_file()
        return index

    def settled(self, ledger_ids: Sequence[int]) -> list[int]:
        """Those of the ledgers that got no entry since they were last asked about, or since the
        start.
        """
        settled = []
        for ledger_id in ledger_ids:
            ledger = self._open.get(ledger_id)
            if ledger is None or not ledger.got_entries:
                settled.append(ledger_id)
            else:
                ledger.got_entries = False
        return settled

    def ledger_ids(self) -> list[int]:
        """Every ledger that this bookie stores, ascending."""
        stored = (ledger_id for disk in self._disks for ledger_id in ledger_ids_on_disk(disk))
        return sorted({*self._open, *stored})

    def flush(self) -> None:
        """Make every change durable."""
        flushed = list[tuple[LedgerIndex, WrittenIndex]]()
        for ledger in list(self._open.values()):
            written = ledger.index.write()
            if written is not None:
                flushed.append((ledger.index, written))
            if len(flushed) == _FLUSHED_TOGETHER:
                self._make_durable(flushed)
                flushed = []
        if flushed:
            self._make_durable(flushed)
        self._changed_page_count = 0

    def _make_durable(self, flushed: list[tuple[LedgerIndex, WrittenIndex]]) -> None:
        if len(flushed) < _WORTH_A_WHOLE_SYNC or not self._sync_whole():
            for _, written in flushed:
                written.file.sync()
        folders: dict[tuple[Disk, str], None] = {}
        for index, written in flushed:
            for folder in index.put_in_place(written):
                folders[index.disk, folder] = None
        if len(folders) < _WORTH_A_WHOLE_SYNC or not self._sync_whole():
            # New ledgers share folders.  The deepest come first: a name is worth nothing before
            # the names above it.
            for disk, folder in sorted(folders, key=lambda each: -each[1].count("/")):
                disk.sync_folder(folder)
        for index, _ in flushed:
            index.mark_name_durable()

    def _sync_whole(self) -> bool:
        return all(disk.sync_whole() for disk in self._disks)

    def close(self) -> None:
        """Close all files."""
        for ledger in self._open.values():
            ledger.index.close()

    def _descriptor(self, index: LedgerIndex) -> LedgerDescriptor:
        index.on_open = self._opened
        return LedgerDescriptor(index)

    def _opened(self, index: LedgerIndex) -> None:
        """Of many files keep the last ones open, in the same time for any number of ledgers."""
        self._with_file.append(index)
        if len(self._with_file) > self._open_file_limit:
            self._with_file.popleft().forget_file()

    def _find(self, ledger_id: int) -> Disk | None:
        path = index_path(ledger_id)
        for disk in self._disks:
            if disk.exists(path):
                return disk
        for disk in self._disks:
            if disk.exists(path + _MOVED):
                disk.rename(path + _MOVED, path)
                disk.sync_folder(path.rpartition("/")[0])
                return disk
        return None
