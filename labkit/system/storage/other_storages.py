"""Rejects directories that were written by another storage implementation.

A DbLedgerStorage directory contains the same journals and entry logs, but its index is a database.
If labkit served such a directory, it would respond "no such ledger" to every read, and its garbage
collection would delete the entry logs, because no index points to them.

In BookKeeper: `bookie/storage/ldb/DbLedgerStorage.java`, `bookie/BookieImpl.java`
(checkDirectoryStructure).
"""

from collections.abc import Iterable

from labkit.system.model.errors import OtherStorageException
from labkit.system.storage.disk import Disk

_FOLDER = "current"
_DB_LEDGER_STORAGE_NAMES = ("ledgers", "locations")
_OLD_LAYOUT_SUFFIXES = (".txn", ".log", ".idx")
"""The oldest layouts keep these files outside `current`, next to `VERSION`."""


def reject_other_storages(disks: Iterable[Disk]) -> None:
    """Raise `OtherStorageException` if a directory belongs to another storage implementation, or
    has a layout older than version 3.
    """
    for disk in disks:
        names = disk.names(_FOLDER)
        for name in _DB_LEDGER_STORAGE_NAMES:
            if name in names:
                raise OtherStorageException(
                    f"{disk.path(f'{_FOLDER}/{name}')} belongs to BookKeeper's DbLedgerStorage, but"
                    " labkit reads only SortedLedgerStorage and InterleavedLedgerStorage; serve"
                    " this directory with Apache BookKeeper, or convert it with `bookkeeper shell"
                    " convert-to-interleaved-storage`"
                )
        for name in disk.names("") if not names else ():
            if name == "VERSION" or name.endswith(_OLD_LAYOUT_SUFFIXES):
                raise OtherStorageException(
                    f"{disk.path(name)} belongs to a directory layout before version 3, which keeps"
                    f" its files outside `{_FOLDER}`; upgrade the directory with `bookkeeper"
                    " upgrade` from a BookKeeper release that supports this layout"
                )
