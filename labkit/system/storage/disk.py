"""A minimal interface through which the storage accesses a directory of files.

`labkit.worlds.live.disk` implements it with real files. The simulated world implements it with a
disk that also determines which unsynced bytes survive a simulated crash. Paths are relative to the
directory and use "/".

The failed-sync rule: if a sync has failed, or may have failed in an earlier process, the storage
writes the bytes again before it syncs. Repeating only the sync is not enough: the operating system
may report success, and return the bytes to readers, although they never reached the device.
"""

import errno
from contextlib import closing
from typing import Protocol

from labkit.system.model.errors import StorageDamagedException


class File(Protocol):
    """An open file. Writes are durable only after `sync` returns."""

    def write(self, offset: int, data: bytes) -> None:
        """Write `data` at `offset`. If the file ends before `offset`, the gap reads as zeros."""

    def read(self, offset: int, size: int) -> bytes:
        """Return `size` bytes from `offset` on, or fewer if the file ends earlier."""

    def size(self) -> int: ...

    def next_data(self, offset: int) -> int:
        """Return the offset of the first byte at or after `offset` that is not in a hole, or the
        file size if there is no such byte.
        """

    def sync(self) -> None:
        """Block until all bytes written so far are durable. If this method raises `OSError`, it is
        unknown whether the bytes are on the device.
        """

    def close(self) -> None:
        """Close the file without syncing it."""


class Disk(Protocol):
    """A directory. The creation, renaming and deletion of files are durable only after
    `sync_folder`.

    Methods raise `StorageDamagedException` if they find a FIFO, folder or link instead of a file.
    """

    def create(self, path: str) -> File:
        """Create an empty file, replacing any existing one, and create missing parent folders."""

    def open(self, path: str) -> File:
        """Open an existing file for reading and writing. Raises `FileNotFoundError`."""

    def exists(self, path: str) -> bool: ...

    def names(self, folder: str) -> list[str]:
        """Return the sorted names of everything in a folder, or [] if the folder does not exist."""

    def files(self, folder: str, suffix: str) -> list[str]:
        """Return the sorted names of the files in a folder that end with `suffix`, or [] if the
        folder does not exist.
        """

    def path(self, name: str) -> str:
        """Return the full path of a file or folder, for use in messages."""

    def rename(self, old: str, new: str) -> None:
        """Rename a file atomically, replacing any existing file of that name."""

    def remove(self, path: str) -> None: ...

    def sync_folder(self, folder: str) -> None:
        """Block until the names of the files in the folder are durable."""

    def sync_whole(self) -> bool:
        """Sync the contents and names of all files in one call, which is faster than syncing many
        files one by one. Return False if the disk does not support this. If this method raises
        `OSError`, it is unknown which writes are on the device.
        """


def is_out_of_space(error: OSError) -> bool:
    """Return whether the error means that the file system is full or that a quota is exhausted."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def ids_in(disk: Disk, folder: str, suffix: str) -> list[int]:
    """Return the sorted ids of the files named `<hex id><suffix>` in a folder. Raise
    `StorageDamagedException` if a file name with this suffix does not contain a valid id.
    """
    ids = []
    for name in disk.files(folder, suffix):
        stem = name.removesuffix(suffix)
        try:
            number = int(stem, 16)
        except ValueError:
            number = -1
        # int() also accepts signs, spaces, underscores and uppercase digits.
        if f"{number:x}" != stem or not 0 <= number < 2**63:
            raise StorageDamagedException(
                f"{disk.path(folder)}/{name} does not belong to this storage: expected a lowercase"
                f" hexadecimal number before {suffix}; move the file elsewhere"
            )
        ids.append(number)
    return sorted(ids)


def read_if_exists(disk: Disk, path: str, size: int, offset: int = 0) -> bytes:
    """Return up to `size` bytes of a file, or b"" if it does not exist."""
    if not disk.exists(path):
        return b""
    with closing(disk.open(path)) as file:
        return file.read(offset, size)


def sync_file(disk: Disk, name: str) -> None:
    """Sync a journal file or an entry log that an earlier process may have left unsynced."""
    file = disk.open(f"current/{name}")
    file.sync()
    file.close()
    disk.sync_folder("current")
