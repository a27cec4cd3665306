"""Real files behind the `Disk` port."""

import errno
import os
from collections.abc import Iterable
from pathlib import Path

from labkit.system.model.errors import LabkitError
from labkit.worlds.live.host.file_system import FileSystem
from labkit.worlds.live.host.posix import require_posix, sync_all, sync_data, try_lock
from labkit.worlds.live.host.private import (
    FOLDER_MODE,
    check_others_cannot_replace,
    close_to_others,
)
from labkit.worlds.live.host.regular_files import (
    files_in,
    is_regular,
    names_in,
    open_regular,
    refuse_other_than_folders,
    with_path,
)

CURRENT = "current"
"""The folder that holds all files of a journal or ledger directory, as in BookKeeper."""


class FolderInUseError(LabkitError):
    """Another process has these directories open."""


def hold_directory(directory: Path) -> None:
    """Lock a journal or ledger directory for this process, until it ends in any way.

    Other users can no longer read its files.  Raises `FolderInUseError` if another process has it,
    since two bookies would destroy the files, and `NotPrivateError` when other users can replace
    them.
    """
    current = directory / CURRENT
    _make_durable_folder(current)
    check_others_cannot_replace(directory)
    close_to_others(current)
    # Never closed on purpose: the lock lasts as long as the descriptor.
    fd = open_regular(directory / "lock", os.O_RDWR | os.O_CREAT)
    if not try_lock(fd):
        os.close(fd)
        raise FolderInUseError(f"{directory} is in use by another bookie process")


class OpenFile:
    """An open file of the operating system, for reading; it is closed at the latest with the last
    reference to it.

    Every `OSError` names the file.
    """

    def __init__(self, path: Path | str, flags: int) -> None:
        # Set before anything can fail: `close` is called in any case.
        self._fd = -1
        self._path = path
        self._fd = open_regular(path, flags)

    def read(self, offset: int, size: int) -> bytes:
        try:
            data = os.pread(self._fd, size, offset)
            while 0 < len(data) < size:
                more = os.pread(self._fd, size - len(data), offset + len(data))
                if not more:
                    break
                data += more
        except OSError as error:
            raise with_path(error, self._path) from error
        return data

    def size(self) -> int:
        return os.fstat(self._fd).st_size

    def next_data(self, offset: int) -> int:
        """The next offset that may hold bytes other than zeros; the size if there is none.

        If the file system has no holes, or does not report them, this is `offset`.
        """
        try:
            return os.lseek(self._fd, offset, os.SEEK_DATA)
        except OSError as error:
            return self.size() if error.errno == errno.ENXIO else offset

    def close(self) -> None:
        fd, self._fd = self._fd, -1
        if fd >= 0:
            os.close(fd)

    def __del__(self) -> None:
        self.close()


class RealFile(OpenFile):
    """An open file, to read and to write."""

    def __init__(self, path: Path | str, flags: int) -> None:
        super().__init__(path, flags | os.O_RDWR)

    def write(self, offset: int, data: bytes) -> None:
        rest = memoryview(data)
        try:
            while rest:
                written = os.pwrite(self._fd, rest, offset)
                rest = rest[written:]
                offset += written
        except OSError as error:
            raise with_path(error, self._path) from error

    def sync(self) -> None:
        """Sync the data, and the metadata needed to read it, to the device."""
        try:
            sync_data(self._fd)
        except OSError as error:
            raise with_path(error, self._path) from error


class RealDisk:
    """One configured directory, made if it is missing; its methods are those of `Disk`.

    Raises the operating system's `OSError` with the path, `StorageDamagedException` for a name that
    is not a regular file's, such as a FIFO's, and `MissingPart` on Windows.
    """

    def __init__(self, root: Path) -> None:
        require_posix("a bookie")
        self.root = root
        _make_durable_folder(root)
        self._file_system = FileSystem(root)
        # For what a flush does with each of thousands of indexes: a `Path` costs more than the
        # call for which it is made.
        self._prefix = f"{root}/"

    def create(self, path: str) -> RealFile:
        name = self._prefix + path
        folder = name.rpartition("/")[0]
        if not os.path.isdir(folder):
            self._make_folders(Path(folder))
        return RealFile(name, os.O_CREAT | os.O_TRUNC)

    def _make_folders(self, folder: Path) -> None:
        """The folder, and those that are missing between it and `root`.  Only a new one in `root`,
        which comes once, is made durable here: a flush syncs those of many new ledgers together.
        """
        refuse_other_than_folders(folder)
        missing = [folder]
        while not (above := missing[-1].parent).is_dir():
            missing.append(above)
        for each in reversed(missing):
            each.mkdir(FOLDER_MODE, exist_ok=True)
        if above == self.root:
            _sync_folder(above)

    def open(self, path: str) -> RealFile:
        return RealFile(self._prefix + path, 0)

    def exists(self, path: str) -> bool:
        return is_regular(self._prefix + path)

    def names(self, folder: str) -> list[str]:
        return names_in(self.root / folder)

    def files(self, folder: str, suffix: str) -> list[str]:
        return files_in(self.root / folder, suffix)

    def path(self, name: str) -> str:
        return str(self.root / name)

    def rename(self, old: str, new: str) -> None:
        os.rename(self._prefix + old, self._prefix + new)

    def remove(self, path: str) -> None:
        os.remove(self.root / path)

    def sync_folder(self, folder: str) -> None:
        _sync_folder(self.root / folder)

    def sync_whole(self) -> bool:
        return self._file_system.sync()

    def usage(self) -> float:
        found = os.statvfs(self.root)
        return 1 - found.f_bavail / found.f_blocks if found.f_blocks else 1.0


def disk_space(disks: Iterable[RealDisk]) -> tuple[int, int]:
    """Total and free bytes of the disks' file systems, each file system counted once."""
    by_device = {os.stat(disk.root).st_dev: os.statvfs(disk.root) for disk in disks}
    total = sum(found.f_blocks * found.f_frsize for found in by_device.values())
    free = sum(found.f_bavail * found.f_frsize for found in by_device.values())
    return total, free


def _make_durable_folder(folder: Path) -> None:
    """Create the folder and its missing parents, synced so that they survive a power cut."""
    if folder.is_dir():
        return
    refuse_other_than_folders(folder)
    _make_durable_folder(folder.parent)
    folder.mkdir(FOLDER_MODE, exist_ok=True)
    _sync_folder(folder.parent)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync_all(fd)
    except OSError as error:
        raise with_path(error, folder) from error
    finally:
        os.close(fd)
