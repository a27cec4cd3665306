"""A bookie's directories as the shell sees them, and the search for a file by id or name.

The rule: reading changes nothing.  Directories are not created, files are opened read-only, and a
name that does not exist is an error that says how it was understood.
"""

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from labkit.system.model.errors import LabkitError
from labkit.system.storage.disk import Disk, File
from labkit.worlds.live.disk import OpenFile
from labkit.worlds.live.host.posix import try_lock
from labkit.worlds.live.host.regular_files import files_in, is_regular, names_in, open_regular

_CURRENT = "current"


class ShellError(LabkitError):
    """The request names something that does not exist, or is impossible; the message says what to
    do.
    """


class ReadOnlyFile(OpenFile):
    """An open file that cannot be changed."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, os.O_RDONLY)

    def write(self, offset: int, data: bytes) -> None:
        raise io.UnsupportedOperation("the shell only reads")

    def sync(self) -> None:
        raise io.UnsupportedOperation("the shell only reads")


class ReadOnlyDisk:
    """One directory behind the `Disk` port, read-only.

    Raises `ShellError` when there is no such directory, `StorageDamagedException` for a name that
    is not a regular file's, such as a FIFO's, and the system's `OSError`.
    """

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise ShellError(f"there is no directory {root}")
        self._root = root

    def open(self, path: str) -> File:
        return ReadOnlyFile(self._root / path)

    def exists(self, path: str) -> bool:
        return is_regular(self._root / path)

    def names(self, folder: str) -> list[str]:
        return names_in(self._root / folder)

    def files(self, folder: str, suffix: str) -> list[str]:
        return files_in(self._root / folder, suffix)

    def path(self, name: str) -> str:
        """The full path of a file or folder of this directory."""
        return str(self._root / name)

    def create(self, path: str) -> File:
        raise io.UnsupportedOperation("the shell only reads")

    def rename(self, old: str, new: str) -> None:
        raise io.UnsupportedOperation("the shell only reads")

    def remove(self, path: str) -> None:
        raise io.UnsupportedOperation("the shell only reads")

    def sync_folder(self, folder: str) -> None:
        raise io.UnsupportedOperation("the shell only reads")

    def sync_whole(self) -> bool:
        raise io.UnsupportedOperation("the shell only reads")


@dataclass(frozen=True, slots=True)
class Directory:
    """One configured directory, and the path by which the user named it."""

    name: str
    disk: Disk

    def path(self, file: str) -> str:
        """The path of a file in it, for messages."""
        return f"{self.name}/{file}"


@dataclass(frozen=True, slots=True)
class BookieFolders:
    """A bookie's directories, each kind in the order of the bookie's configuration."""

    journals: tuple[Directory, ...]
    ledgers: tuple[Directory, ...]
    indexes: tuple[Directory, ...]


def open_folders(
    journals: Sequence[Path], ledgers: Sequence[Path], indexes: Sequence[Path] = ()
) -> BookieFolders:
    """The directories of a bookie as configured; each contains `current`.

    Without `indexes` the indexes are in the ledger directories.  Raises `ShellError`.
    """
    return BookieFolders(
        _directories(journals), _directories(ledgers), _directories(indexes or ledgers)
    )


def open_data_folder(data: Path) -> BookieFolders:
    """The folder that `labkit bookie --data` keeps.  Raises `ShellError`."""
    if not (data / "journal").is_dir() or not (data / "ledgers").is_dir():
        raise ShellError(
            f"{data} has no journal and ledgers in it; name the directories with --journal and"
            " --ledgers"
        )
    return open_folders([data / "journal"], [data / "ledgers"])


def _directories(paths: Sequence[Path]) -> tuple[Directory, ...]:
    return tuple(Directory(str(path), ReadOnlyDisk(path)) for path in paths)


@dataclass(frozen=True, slots=True)
class FileId:
    """A file's id and how it was read, for the message when there is no such file."""

    number: int
    name: str
    understood: str


def parse_file_id(text: str, suffix: str, base: int) -> FileId:
    """Parse `1a.log`, a path to it, or a bare id in `base` (10 or 16).  Raises `ShellError`."""
    named = text.endswith(suffix)
    stem = text.rpartition("/")[2].removesuffix(suffix)
    digits, word = (16, "hexadecimal") if named or base == 16 else (10, "decimal")
    if not stem.isascii() or not stem.isalnum():
        raise ShellError(f"{text!r} is neither an id nor a name like 1a{suffix}")
    try:
        number = int(stem, digits)
    except ValueError:
        raise ShellError(
            f"{text!r} is not a {word} number; a file's name, like 1a{suffix}, is hexadecimal"
        ) from None
    return FileId(number, f"{number:x}{suffix}", f"{text!r} read as {word}: id {number}")


def find_file(directories: Sequence[Directory], kind: str, wanted: FileId) -> Directory:
    """The directory that has the file.  Raises `ShellError`, which names the files that exist."""
    if not directories:
        raise ShellError(
            f"no directory with {kind} files was named: use --data, or --journal and --ledgers"
        )
    for directory in directories:
        if directory.disk.exists(f"{_CURRENT}/{wanted.name}"):
            return directory
    suffix = "." + wanted.name.rpartition(".")[2]
    there = [n for d in directories for n in d.disk.names(_CURRENT) if n.endswith(suffix)]
    listed = ", ".join(there[:5]) + (f" and {len(there) - 5} more" if len(there) > 5 else "")
    raise ShellError(
        f"there is no {kind} {wanted.name} ({wanted.understood}) in"
        f" {', '.join(d.name for d in directories)}; there is {listed or 'none at all'}"
    )


@contextmanager
def sole_use(roots: Sequence[Path], *, even_if_dirty: bool) -> Iterator[None]:
    """Keep bookies away from these directories inside the block.

    labkit's bookie locks the file `lock` in each of its directories; BookKeeper's bookie has a file
    `DIRTY` in its ledger directories while it runs and after it was killed.  Raises `ShellError`.
    """
    for root in roots:
        if not even_if_dirty and (root / _CURRENT / "DIRTY").exists():
            raise ShellError(
                f"{root}/current/DIRTY: a bookie of Apache BookKeeper runs here or was killed; if"
                " it surely does not run, pass --force"
            )
    with ExitStack() as held:
        for lock in sorted({root.absolute() / "lock" for root in roots}):
            if is_regular(lock):
                file = open_regular(lock, os.O_RDONLY)
                held.callback(os.close, file)
                if not try_lock(file):
                    raise ShellError(f"{lock.parent} is in use by a bookie; stop it first")
        yield
