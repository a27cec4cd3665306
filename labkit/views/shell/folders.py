"""Opens a bookie's directories read-only, and finds files by id or name.

Nothing is modified: directories are never created, and files are opened read-only. If a file does
not exist, the error message shows how its id was interpreted.
"""

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from labkit.system.model.errors import LabkitError
from labkit.system.storage.disk import Disk, File
from labkit.worlds.live.disk import DiskListing, OpenFile
from labkit.worlds.live.host.posix import try_lock
from labkit.worlds.live.host.regular_files import is_regular, open_regular

_CURRENT = "current"


class ShellError(LabkitError):
    """The command is invalid, or refers to something that does not exist."""


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise io.UnsupportedOperation("the shell is read-only")


class ReadOnlyFile(OpenFile):
    def __init__(self, path: Path) -> None:
        super().__init__(path, os.O_RDONLY)

    write = sync = _refuse


class ReadOnlyDisk(DiskListing):
    """A read-only `Disk`. Raises `ShellError` if its directory does not exist."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise ShellError(f"directory {root} does not exist")
        super().__init__(root)

    def open(self, path: str) -> File:
        return ReadOnlyFile(self.root / path)

    create = rename = remove = sync_folder = sync_whole = _refuse


@dataclass(frozen=True, slots=True)
class BookieFolders:
    """A bookie's directories, in the order in which they are configured."""

    journals: tuple[Disk, ...]
    ledgers: tuple[Disk, ...]
    indexes: tuple[Disk, ...]


def open_folders(
    journals: Sequence[Path], ledgers: Sequence[Path], indexes: Sequence[Path] = ()
) -> BookieFolders:
    """Open the configured directories of a bookie, each of which contains `current`.

    By default, the indexes are in the ledger directories. Raises `ShellError` if a directory does
    not exist.
    """
    return BookieFolders(
        tuple(map(ReadOnlyDisk, journals)),
        tuple(map(ReadOnlyDisk, ledgers)),
        tuple(map(ReadOnlyDisk, indexes or ledgers)),
    )


def open_data_folder(data: Path) -> BookieFolders:
    """Open the data folder of `labkit bookie --data`. Raises `ShellError` if it is incomplete."""
    if not (data / "journal").is_dir() or not (data / "ledgers").is_dir():
        raise ShellError(
            f"{data} does not contain the folders 'journal' and 'ledgers'; if they are elsewhere,"
            " use --journal and --ledgers"
        )
    return open_folders([data / "journal"], [data / "ledgers"])


@dataclass(frozen=True, slots=True)
class FileId:
    """A file's id and how it was interpreted; the error message for a missing file shows both."""

    number: int
    name: str
    interpretation: str


def parse_file_id(text: str, suffix: str, base: int) -> FileId:
    """Parse `1a.log`, a path to it, or a bare id in `base` (10 or 16). Raises `ShellError` if the
    text has none of these forms.
    """
    named = text.endswith(suffix)
    stem = text.rpartition("/")[2].removesuffix(suffix)
    digits, word = (16, "hexadecimal") if named or base == 16 else (10, "decimal")
    if not stem.isascii() or not stem.isalnum():
        raise ShellError(f"{text!r} is neither an id nor a file name such as 1a{suffix}")
    try:
        number = int(stem, digits)
    except ValueError:
        raise ShellError(
            f"{text!r} is not a {word} number; file names such as 1a{suffix} are hexadecimal"
        ) from None
    return FileId(number, f"{number:x}{suffix}", f"{text!r} read as {word}: id {number}")


def find_file(directories: Sequence[Disk], kind: str, file_id: FileId) -> Disk:
    """Return the directory that contains the file; raise `ShellError` if none does."""
    if not directories:
        raise ShellError(
            f"no directory with {kind} files was given: use --data, or --journal and --ledgers"
        )
    for directory in directories:
        if directory.exists(f"{_CURRENT}/{file_id.name}"):
            return directory
    suffix = "." + file_id.name.rpartition(".")[2]
    existing = [n for d in directories for n in d.names(_CURRENT) if n.endswith(suffix)]
    listed = ", ".join(existing[:5])
    listed += f" and {len(existing) - 5} more" if len(existing) > 5 else ""
    raise ShellError(
        f"{kind} {file_id.name} ({file_id.interpretation}) does not exist in"
        f" {', '.join(d.path('') for d in directories)}; existing files: {listed or 'none'}"
    )


@contextmanager
def exclusive_access(roots: Sequence[Path], *, even_if_dirty: bool) -> Iterator[None]:
    """Prevent bookies from using these directories inside the block.

    A labkit bookie locks the file `lock` in each of its directories. While a BookKeeper bookie
    runs, its ledger directories contain a file `DIRTY`, which remains if the bookie is killed.
    Raises `ShellError` if a bookie uses the directories or may use them.
    """
    for root in roots:
        if not even_if_dirty and (root / _CURRENT / "DIRTY").exists():
            raise ShellError(
                f"{root}/current/DIRTY exists: an Apache BookKeeper bookie is running here or was"
                " killed; if you are sure that it is not running, add --force"
            )
    with ExitStack() as locks:
        for lock in sorted({root.absolute() / "lock" for root in roots}):
            if is_regular(lock):
                file = open_regular(lock, os.O_RDONLY)
                locks.callback(os.close, file)
                if not try_lock(file):
                    raise ShellError(f"{lock.parent} is in use by a bookie; stop it first")
        yield
