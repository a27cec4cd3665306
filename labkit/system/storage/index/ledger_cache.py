"""The indexes of all ledgers of a bookie. They are opened on demand and flushed together.

Despite its name, which comes from BookKeeper, `LedgerCache` is not a cache: a ledger that has been
used stays in memory. If more than `open_file_limit` files are open, only the ledger's file is
closed.

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
"""A page with few changes takes about 1 KiB of memory. The size of the memtable limits how many
pages can have more changes.
"""
_FLUSHED_TOGETHER = 256
"""The maximum number of files that are synced together."""
_WORTH_A_WHOLE_SYNC = 32
"""If there are at least this many files or folders to sync, the whole disk is synced instead."""
_MOVED = ".rloc"
"""Suffix of an index file that BookKeeper was moving to another directory when it stopped."""


class LedgerCache:
    """Opens, creates, flushes and removes the ledgers of a bookie.

    An index file is created in a directory that is not full, if there is one, and stays in that
    directory. If more than `page_limit` pages have unwritten changes, all indexes are flushed. A
    subclass may replace `index_class`.
    """

    index_class = LedgerIndex

    def __init__(self, disks: Sequence[Disk], config: StorageConfig) -> None:
        """Raise `StorageDamagedException` if a file is named like an index file but is something
        else.
        """
        self._disks = disks
        self._full_directories: set[int] = set()
        """Indices into `_disks`."""
        self._page_size = config.page_size
        self._version = config.file_info_format_version_to_write
        self._open_file_limit = config.open_file_limit
        self._page_limit = config.page_limit if config.page_limit > 0 else _DEFAULT_PAGE_LIMIT
        self._changed_page_count = 0
        self._ledgers: dict[int, LedgerDescriptor] = {}
        self._with_open_file: deque[LedgerIndex] = deque()
        """At most `open_file_limit` indexes, in the order in which they were opened."""
        self._found_at_start = {i for disk in disks for i in ledger_ids_on_disk(disk)}
        """Kept so that `ledger_ids` does not have to list the directories, which can take a second.
        """

    def get(self, ledger_id: int) -> LedgerDescriptor | None:
        ledger = self._ledgers.get(ledger_id)
        if ledger is None:
            disk = self._find(ledger_id)
            if disk is None:
                return None
            index = self.index_class.load(ledger_id, disk, self._page_size)
            self._on_file_opened(index)
            ledger = self._ledgers.setdefault(ledger_id, self._descriptor(index))
        return ledger

    def create(self, ledger_id: int, master_key: bytes) -> LedgerDescriptor:
        """Create a ledger. Its index file is created by the first flush."""
        disk = self._disk_for_new_file(ledger_id)
        header = IndexHeader(master_key, version=self._version)
        index = self.index_class(ledger_id, header, disk, self._page_size)
        return self._ledgers.setdefault(ledger_id, self._descriptor(index))

    def set_locations(
        self, ledger_id: int, entry_ids: Sequence[int], locations: Sequence[int]
    ) -> None:
        """Set the locations of durable entries, unless their ledger has been deleted.

        The locations become durable with the next `flush`, which runs immediately if too many pages
        have changed.
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
        disk = self._find(ledger_id)
        if disk is not None:
            path = index_path(ledger_id)
            disk.remove(path)
            disk.sync_folder(path.rpartition("/")[0])
        # Forget the ledger only now. Otherwise, a read in another thread could load it again.
        self._found_at_start.discard(ledger_id)
        ledger = self._ledgers.pop(ledger_id, None)
        if ledger is not None:
            ledger.index.forget_file()

    def empty(self, ledger_id: int) -> LedgerIndex:
        """Drop the ledger's entries but keep its master key and fence. The entries are dropped from
        disk once the returned index has been flushed.
        """
        old = self._ledgers[ledger_id].index
        header = old.header._replace(explicit_lac=b"")
        index = self.index_class(ledger_id, header, old.disk, self._page_size)
        # A flush in another thread must see either the old or the new index.
        self._ledgers[ledger_id] = self._descriptor(index)
        old.forget_file()
        return index

    def take_settled(self, ledger_ids: Sequence[int]) -> list[int]:
        """Return the given ledgers that have received no entries since the previous call.

        A replication worker may be copying the other ledgers to this bookie, so they must not be
        dropped as over-replicated.
        """
        settled = []
        for ledger_id in ledger_ids:
            ledger = self._ledgers.get(ledger_id)
            if ledger is None or not ledger.has_new_entries:
                settled.append(ledger_id)
            else:
                ledger.has_new_entries = False
        return settled

    def set_full_directories(self, directories: set[int]) -> None:
        """Stop creating index files in the directories with these indices, unless all directories
        are full.
        """
        self._full_directories = directories if len(directories) < len(self._disks) else set()

    def ledger_ids(self) -> list[int]:
        return sorted({*self._ledgers, *self._found_at_start})

    def flush(self) -> None:
        flushed = list[tuple[LedgerIndex, WrittenIndex]]()
        for ledger in list(self._ledgers.values()):
            index = ledger.index
            if self._full_directories and not index.has_file:
                # The directory may have become full since the ledger was created.
                index.disk = self._disk_for_new_file(index.ledger_id)
            written = index.write()
            if written is not None:
                flushed.append((index, written))
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
            for folder in index.after_sync(written):
                folders[index.disk, folder] = None
        if len(folders) < _WORTH_A_WHOLE_SYNC or not self._sync_whole():
            # New ledgers share folders. Sync the deepest folders first: a file's name must be
            # durable before the names of its parent folders.
            for disk, folder in sorted(folders, key=lambda each: -each[1].count("/")):
                disk.sync_folder(folder)
        for index, _ in flushed:
            index.note_folders_synced()

    def _sync_whole(self) -> bool:
        return all(disk.sync_whole() for disk in self._disks)

    def close(self) -> None:
        for ledger in self._ledgers.values():
            ledger.index.close()

    def _descriptor(self, index: LedgerIndex) -> LedgerDescriptor:
        index.on_open = self._on_file_opened
        return LedgerDescriptor(index)

    def _on_file_opened(self, index: LedgerIndex) -> None:
        """If too many files are open, close the one that was opened first."""
        self._with_open_file.append(index)
        if len(self._with_open_file) > self._open_file_limit:
            self._with_open_file.popleft().forget_file()

    def _disk_for_new_file(self, ledger_id: int) -> Disk:
        full = self._full_directories  # Read this only once, because another thread may replace it.
        writable = [disk for index, disk in enumerate(self._disks) if index not in full]
        return writable[ledger_id % len(writable)]

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
