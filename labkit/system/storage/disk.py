"""The port to one directory of files, as small as the storage needs.

`labkit.worlds.live.disk` gives real files.  A simulated disk gives the same calls and decides at a
crash what of the unsynced bytes survives.  Paths are relative to the directory and use "/".
"""

import errno
from typing import Protocol

from labkit.system.model.errors import StorageDamagedException


class File(Protocol):
    """An open file.  Writes are not durable before `sync` returns."""

    def write(self, offset: int, data: bytes) -> None:
        """Write all of `data` at `offset`; a gap before it reads as zeros."""

    def read(self, offset: int, size: int) -> bytes:
        """Up to `size` bytes from `offset`; fewer only at the end of the file."""

    def size(self) -> int:
        """Length in bytes."""

    def next_data(self, offset: int) -> int:
        """Where, from `offset` on, the next bytes are that may be other than zeros; the file's size
        if there are none.  A hole takes no space, and no time to skip.
        """

    def sync(self) -> None:
        """Return when all bytes written before are durable.

        Raises `OSError` when that failed; the bytes' fate is then unknown for good.
        """

    def close(self) -> None:
        """Release the file.  Makes nothing durable."""


class Disk(Protocol):
    """A directory.  New names, renames and removals are durable after `sync_folder`.

    A FIFO, folder or link with the name of a file is never opened, nor passed over:
    `StorageDamagedException` names it.
    """

    def create(self, path: str) -> File:
        """A new empty file, replacing any of that name; makes missing folders."""

    def open(self, path: str) -> File:
        """An existing file, to read and write.  Raises `FileNotFoundError`."""

    def exists(self, path: str) -> bool:
        """Whether there is a file of that name."""

    def names(self, folder: str) -> list[str]:
        """Names in a folder, sorted; none if there is no such folder."""

    def files(self, folder: str, suffix: str) -> list[str]:
        """The files of a folder whose names end with `suffix`, sorted; none without that folder."""

    def path(self, name: str) -> str:
        """The full path of a file or folder of this directory, for messages."""

    def rename(self, old: str, new: str) -> None:
        """Give a file a new name in one step, replacing any file of that name."""

    def remove(self, path: str) -> None:
        """Remove a file."""

    def sync_folder(self, folder: str) -> None:
        """Return when the folder's list of names is durable."""

    def sync_whole(self) -> bool:
        """True: all that was written before is durable, contents and names, in one step, which is
        worth it when that is hundreds of files.  False: not available here, nothing was done.

        Raises `OSError` when it failed; the fate of all of it is then unknown.
        """


def is_out_of_space(error: OSError) -> bool:
    """Whether a write failed only because the file system or the quota is full: it can succeed
    later.
    """
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


def ids_in(disk: Disk, folder: str, suffix: str) -> list[int]:
    """Ids of the files `<hex id><suffix>` in a folder, ascending.

    Raises `StorageDamagedException` for a name with that suffix that no writer gives.
    """
    ids = []
    for name in disk.files(folder, suffix):
        stem = name.removesuffix(suffix)
        try:
            number = int(stem, 16)
        except ValueError:
            number = -1
        # Compared as text: int() also takes signs, spaces, underscores and capitals.
        if f"{number:x}" != stem or not 0 <= number < 2**63:
            raise StorageDamagedException(
                f"{disk.path(folder)}/{name} is not a file of this storage: before {suffix} there"
                " must be a hexadecimal number as BookKeeper writes it; move it elsewhere"
            )
        ids.append(number)
    return sorted(ids)
