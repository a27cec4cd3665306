"""Files and folders for their owner alone, whatever the umask is.

What others can see is decided by the folders: they cannot enter one that labkit has made, so what
lies below it needs no look.  A folder that a user named and made stays as it is.
"""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from labkit.model.errors import LabkitError

FOLDER_MODE = 0o700
FILE_MODE = 0o600
UMASK = 0o077
"""For processes that make their files themselves."""

_OTHERS = 0o077


class NotPrivateError(LabkitError):
    """A folder that others can read or change, and that cannot be closed to them."""


def make_private(folder: Path) -> None:
    """Make a folder of labkit's and its missing parents, or close the one that is there to others.

    Raises `NotPrivateError` for another user's folder, and `OSError`.
    """
    if not folder.parent.exists():
        make_private(folder.parent)  # `mkdir` makes parents as the umask says.
    folder.mkdir(FOLDER_MODE, exist_ok=True)
    close_to_others(folder)


def close_to_others(folder: Path) -> None:
    """Let only its owner into an existing folder.  Raises as `make_private`."""
    found = folder.stat()
    if not found.st_mode & _OTHERS:
        return
    try:
        folder.chmod(FOLDER_MODE)
    except PermissionError:
        raise NotPrivateError(
            f"{folder} belongs to another user (uid {found.st_uid}), and others can enter it"
            f" (mode {stat.S_IMODE(found.st_mode):o}); name a folder of your own"
        ) from None


def check_others_cannot_replace(folder: Path) -> None:
    """Raise `NotPrivateError` for a folder in which every user may rename and remove files."""
    mode = folder.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise NotPrivateError(
            f"every user can replace the files of {folder} (mode {stat.S_IMODE(mode):o}); run"
            f" `chmod o-w {folder}`, or name another folder"
        )


def open_log(path: Path) -> BinaryIO:
    """A file to append to."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, FILE_MODE)
    return os.fdopen(fd, "ab")


def write_private(path: Path, text: str) -> None:
    """Replace a file in a folder that is closed to others."""
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CREAT, FILE_MODE)
    with os.fdopen(fd, "w", encoding="utf-8") as file:
        path.chmod(FILE_MODE)
        file.write(text)
