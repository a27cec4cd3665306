"""Opens and lists files in a bookie's directories, and rejects everything but regular files.

A FIFO would block its reader forever. A symbolic link may point outside the directory. If a
directory with a file's name were skipped, the acknowledged entries in that file would seem not to
exist. Every error includes the path.
"""

import errno
import os
import stat
from pathlib import Path

from labkit.system.model.errors import StorageDamagedException
from labkit.worlds.live.host.private import FILE_MODE

_KINDS = {
    stat.S_IFIFO: "a FIFO",
    stat.S_IFDIR: "a folder",
    stat.S_IFLNK: "a link",
    stat.S_IFSOCK: "a socket",
    stat.S_IFREG: "a file",
}
_WRONG_KIND_ERRORS = (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ENOTDIR)


def with_path(error: OSError, path: Path | str) -> OSError:
    """Return the error with the path added. Errors from operations on descriptors do not contain a
    path.
    """
    if error.filename is not None:
        return error
    return OSError(error.errno, error.strerror, str(path))


def open_regular(path: Path | str, flags: int) -> int:
    """Open a regular file without ever blocking, even if the path is a FIFO.

    Raises `StorageDamagedException` if the path is not a regular file, or an `OSError`.
    """
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        if error.errno in _WRONG_KIND_ERRORS:
            is_regular(path)
        raise
    try:
        _refuse_other(path, os.fstat(fd).st_mode, stat.S_IFREG)
    except BaseException:
        os.close(fd)
        raise
    return fd


def is_regular(path: Path | str) -> bool:
    """Return whether the path is an existing regular file.

    Raises `StorageDamagedException` if the path is something else, or if a parent is not a
    directory, and `OSError` if the system call fails.
    """
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        require_directory(Path(path).parent)
        raise
    _refuse_other(path, mode, stat.S_IFREG)
    return True


def list_names(folder: Path) -> list[str]:
    """Return the sorted names in a directory, if it exists. Raises `StorageDamagedException`."""
    return [item.name for item in _list(folder)]


def list_files(folder: Path, suffix: str) -> list[str]:
    """Return the sorted names with this suffix.

    Raises `StorageDamagedException` if one of them is not a regular file.
    """
    items = [item for item in _list(folder) if item.name.endswith(suffix)]
    for item in items:
        if not item.is_file(follow_symlinks=False):
            is_regular(Path(item.path))
    return [item.name for item in items]


def _list(folder: Path) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda item: item.name)
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        require_directory(folder)
        raise


def require_directory(path: Path) -> None:
    """Raise `StorageDamagedException` if the path or a parent exists but is not a directory."""
    for folder in (path, *path.parents):
        if os.path.lexists(folder):
            if not folder.is_dir():
                _refuse_other(folder, os.lstat(folder).st_mode, stat.S_IFDIR)
            return


def _refuse_other(path: Path | str, mode: int, wanted: int) -> None:
    kind = stat.S_IFMT(mode)
    if kind != wanted:
        raise StorageDamagedException(
            f"{path} is {_KINDS.get(kind, 'a device')}, expected {_KINDS[wanted]}: move it"
            " elsewhere, and restore the bookie's original if there was one"
        )
