"""The `Disk` port on real files, and the lock on a bookie's directories."""

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
    is_regular,
    list_files,
    list_names,
    open_regular,
    require_directory,
    with_path,
)

CURRENT = "current"
"""The subdirectory that contains all files of a journal or ledger directory, as in BookKeeper."""


class DirectoryInUseError(LabkitError):
    """Another process is using the directory."""


def lock_directory(directory: Path) -> None:
    """Lock a journal or ledger directory until this process exits, and deny other users access to
    it.

    Two bookies in the same directory would destroy each other's files. Raises `DirectoryInUseError`
    if another process holds the lock, and `NotPrivateError` if other users could replace the files.
    """
    current = directory / CURRENT
    _make_durable_folder(current)
    check_others_cannot_replace(directory)
    close_to_others(current)
    # Never close this descriptor, because the lock is held only as long as it is open.
    fd = open_regular(directory / "lock", os.O_RDWR | os.O_CREAT)
    if not try_lock(fd):
        os.close(fd)
        raise DirectoryInUseError(f"directory {directory} is in use by another bookie process")


class OpenFile:
    """An open file, closed by `close` or by garbage collection.

    Reads and writes raise `OSError`, which includes the path.
    """

    def __init__(self, path: Path | str, flags: int) -> None:
        # Set this first, because `__del__` calls `close` even if anything below fails.
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
        """Return the first offset at or after `offset` that is not in a hole, or the file's size.

        If the file system does not support holes or does not report them, return `offset` itself.
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
        try:
            sync_data(self._fd)
        except OSError as error:
            raise with_path(error, self._path) from error


class DiskListing:
    """The methods of a `Disk` that look up names in its directory.

    They raise `OSError`, which includes the path, or `StorageDamagedException` if a path refers to
    something other than a regular file (a FIFO, for example).
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        # Keep a string, because a flush accesses thousands of index files, and building a `Path`
        # takes longer than the system call that uses it.
        self._prefix = f"{root}/"

    def exists(self, path: str) -> bool:
        return is_regular(self._prefix + path)

    def names(self, folder: str) -> list[str]:
        return list_names(self.root / folder)

    def files(self, folder: str, suffix: str) -> list[str]:
        return list_files(self.root / folder, suffix)

    def path(self, name: str) -> str:
        return str(self.root / name)


class RealDisk(DiskListing):
    """A `Disk` in one configured directory, which is created if it is missing.

    Its methods raise the same errors as those of `DiskListing`. On Windows, the constructor raises
    `MissingPart`.
    """

    def __init__(self, root: Path) -> None:
        require_posix("a bookie")
        super().__init__(root)
        _make_durable_folder(root)
        self._file_system = FileSystem(root)

    def create(self, path: str) -> RealFile:
        name = self._prefix + path
        folder = name.rpartition("/")[0]
        if not os.path.isdir(folder):
            self._make_folders(Path(folder))
        return RealFile(name, os.O_CREAT | os.O_TRUNC)

    def _make_folders(self, folder: Path) -> None:
        """Create the directory and its missing parents below `root`.

        This method syncs `root` if it adds a directory to `root`, which happens only a few times.
        All other new directories are synced by a flush, which handles many new ledgers at once.
        """
        require_directory(folder)
        missing = [folder]
        while not (above := missing[-1].parent).is_dir():
            missing.append(above)
        for each in reversed(missing):
            each.mkdir(FOLDER_MODE, exist_ok=True)
        if above == self.root:
            _sync_folder(above)

    def open(self, path: str) -> RealFile:
        return RealFile(self._prefix + path, 0)

    def rename(self, old: str, new: str) -> None:
        os.rename(self._prefix + old, self._prefix + new)

    def remove(self, path: str) -> None:
        os.remove(self.root / path)

    def sync_folder(self, folder: str) -> None:
        _sync_folder(self.root / folder)

    def sync_whole(self) -> bool:
        return self._file_system.sync()

    def usage(self) -> float:
        stats = os.statvfs(self.root)
        return 1 - stats.f_bavail / stats.f_blocks if stats.f_blocks else 1.0


def disk_space(disks: Iterable[RealDisk]) -> tuple[int, int]:
    """Return the total and the free space of the disks in bytes, counting each file system once."""
    by_device = {os.stat(disk.root).st_dev: os.statvfs(disk.root) for disk in disks}
    total = sum(stats.f_blocks * stats.f_frsize for stats in by_device.values())
    free = sum(stats.f_bavail * stats.f_frsize for stats in by_device.values())
    return total, free


def _make_durable_folder(folder: Path) -> None:
    """Create the directory and its missing parents durably, so that they survive a power
    failure.
    """
    if folder.is_dir():
        return
    require_directory(folder)
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
