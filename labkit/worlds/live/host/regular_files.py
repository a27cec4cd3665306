"""Names and files below a bookie's directories.

Two rules.  A file's name must belong to a regular file, or the error names it: a FIFO would block
its reader for ever, a link leads out of the directory, and a folder that is skipped would make
acknowledged entries look absent.  And every error names its path.
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
_SAYS_OTHER_KIND = (errno.ELOOP, errno.EISDIR, errno.ENXIO, errno.ENOTDIR)


def with_path(error: OSError, path: Path | str) -> OSError:
    """The error with its path, which an error of an operation on a descriptor lacks."""
    if error.filename is not None:
        return error
    return OSError(error.errno, error.strerror, str(path))


def open_regular(path: Path | str, flags: int) -> int:
    """Open a regular file; never waits for another process.

    Raises `StorageDamagedException` for anything else of that name, and `OSError`.
    """
    try:
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        if error.errno in _SAYS_OTHER_KIND:
            is_regular(path)
        raise
    try:
        _refuse_other(path, os.fstat(fd).st_mode, stat.S_IFREG)
    except BaseException:
        os.close(fd)
        raise
    return fd


def is_regular(path: Path | str) -> bool:
    """Whether there is a file of that name.

    Raises `StorageDamagedException` if something else has the name, or if something else is in the
    place of a parent folder, and `OSError` when the system cannot tell.
    """
    try:
        mode = os.lstat(path).st_mode
    except FileNotFoundError:
        return False
    except NotADirectoryError:
        refuse_other_than_folders(Path(path).parent)
        raise
    _refuse_other(path, mode, stat.S_IFREG)
    return True


def names_in(folder: Path) -> list[str]:
    """Names in a folder, sorted; none if there is no such folder.

    Raises `StorageDamagedException` if something else has its name.
    """
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        refuse_other_than_folders(folder)
        raise


def files_in(folder: Path, suffix: str) -> list[str]:
    """The names in a folder that end with `suffix`, sorted.

    Raises `StorageDamagedException` if one of them is not a regular file.
    """
    try:
        with os.scandir(folder) as found:
            items = sorted((item for item in found if item.name.endswith(suffix)), key=_name)
    except FileNotFoundError:
        return []
    except NotADirectoryError:
        refuse_other_than_folders(folder)
        raise
    for item in items:
        if not item.is_file(follow_symlinks=False):
            is_regular(Path(item.path))
    return [item.name for item in items]


def refuse_other_than_folders(path: Path) -> None:
    """Raise `StorageDamagedException` if something else is in the place of this folder or of a
    parent.
    """
    for folder in (path, *path.parents):
        if os.path.lexists(folder):
            if not folder.is_dir():
                _refuse_other(folder, os.lstat(folder).st_mode, stat.S_IFDIR)
            return


def _name(item: "os.DirEntry[str]") -> str:
    return item.name


def _refuse_other(path: Path | str, mode: int, wanted: int) -> None:
    kind = stat.S_IFMT(mode)
    if kind != wanted:
        raise StorageDamagedException(
            f"{path} is {_KINDS.get(kind, 'a device')}, and {_KINDS[wanted]} must be there: move it"
            " elsewhere, and put the bookie's own back if it had one there"
        )
