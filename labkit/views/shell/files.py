"""The verb `listfilesondisc`: lists journals, entry logs and indexes.

In BookKeeper: `tools/cli/commands/bookie/ListFilesOnDiscCommand.java`.
"""

from collections.abc import Iterable

from labkit.system.storage.disk import Disk
from labkit.system.storage.index.ledger_index import index_folders
from labkit.views.shell.folders import BookieFolders
from labkit.views.shell.records import FilesOnDisc


def list_files(
    folders: BookieFolders, *, journals: bool = True, entry_logs: bool = True, indexes: bool = True
) -> FilesOnDisc:
    return FilesOnDisc(
        _paths(folders.journals, ".txn") if journals else None,
        _paths(folders.ledgers, ".log") if entry_logs else None,
        _index_paths(folders.indexes) if indexes else None,
    )


def _paths(directories: Iterable[Disk], suffix: str, folder: str = "current") -> tuple[str, ...]:
    return tuple(
        directory.path(f"{folder}/{name}")
        for directory in directories
        for name in directory.files(folder, suffix)
    )


def _index_paths(directories: Iterable[Disk]) -> tuple[str, ...]:
    return tuple(
        path
        for directory in directories
        for folder in index_folders(directory)
        for path in _paths([directory], ".idx", folder)
    )
