"""Whose a bookie's directories are: this storage serves only what it knows how to read.

A directory of another storage looks half familiar: journals and entry logs are the same, but what
says where the entries lie is not.  A bookie that served it would answer "no such ledger" for every
entry, and garbage collection would remove logs to which no index points.

In BookKeeper: `bookie/storage/ldb/DbLedgerStorage.java`, `bookie/BookieImpl.java`
(checkDirectoryStructure).
"""

from collections.abc import Iterable

from labkit.system.model.errors import OtherStorageException
from labkit.system.storage.disk import Disk

_FOLDER = "current"
_OF_DB_LEDGER_STORAGE = ("ledgers", "locations")
"""Its two databases."""
_WITHOUT_FOLDER = (".txn", ".log", ".idx")
"""What a bookie of the first layouts keeps outside `current`, beside its `VERSION`."""


def refuse_other_storages(disks: Iterable[Disk]) -> None:
    """Raise `OtherStorageException` for a directory that another storage, or a layout before
    version 3, has left its files in.
    """
    for disk in disks:
        inside = disk.names(_FOLDER)
        for name in _OF_DB_LEDGER_STORAGE:
            if name in inside:
                raise OtherStorageException(
                    f"{disk.path(f'{_FOLDER}/{name}')} belongs to BookKeeper's DbLedgerStorage, and"
                    " labkit reads only SortedLedgerStorage and InterleavedLedgerStorage; serve"
                    " this directory with Apache BookKeeper, or convert it there with `bookkeeper"
                    " shell convert-to-interleaved-storage`"
                )
        if not inside:
            _refuse_old_layout(disk)


def _refuse_old_layout(disk: Disk) -> None:
    for name in disk.names(""):
        if name == "VERSION" or name.endswith(_WITHOUT_FOLDER):
            raise OtherStorageException(
                f"{disk.path(name)} belongs to a directory layout before version 3, which keeps its"
                f" files outside `{_FOLDER}`; upgrade it with `bookkeeper upgrade` of an Apache"
                " BookKeeper that still reads it"
            )
