"""The verb `listfilesondisc`: which journals, entry logs and indexes there are.

In BookKeeper: `tools/cli/commands/bookie/ListFilesOnDiscCommand.java`.
"""

from collections.abc import Iterable, Iterator

from labkit.shell.folders import BookieFolders, Directory
from labkit.shell.records import FilesOnDisc


def list_files(
    folders: BookieFolders, *, journals: bool = True, entry_logs: bool = True, indexes: bool = True
) -> FilesOnDisc:
    """Paths of the files of each kind asked for, sorted within a directory."""
    return FilesOnDisc(
        _paths(folders.journals, ".txn") if journals else None,
        _paths(folders.ledgers, ".log") if entry_logs else None,
        _paths(folders.indexes, ".idx") if indexes else None,
    )


def _paths(directories: Iterable[Directory], suffix: str) -> tuple[str, ...]:
    return tuple(
        directory.path(path)
        for directory in directories
        for path in _walk(directory, "current")
        if path.endswith(suffix)
    )


def _walk(directory: Directory, folder: str) -> Iterator[str]:
    for name in directory.disk.names(folder):
        path = f"{folder}/{name}"
        if directory.disk.exists(path):
            yield path
        else:
            yield from _walk(directory, path)
