"""Files and folders that only their owner can use, whatever the umask is.

The folders decide what others can see: they cannot enter one that labkit has made, so the files
below it need no check.  A folder that a user made and named stays as it is.
"""

import os
import stat
from pathlib import Path
from typing import BinaryIO

from labkit.system.model.errors import LabkitError

FOLDER_MODE = 0o700
FILE_MODE = 0o600
UMASK = 0o077
"""For processes that create their files themselves."""

_OTHERS = 0o077


class NotPrivateError(LabkitError):
    """A folder that others can read or change, and that cannot be closed to them."""


def make_private(folder: Path) -> None:
    """Make a folder for labkit and its missing parents, or close an existing one to others.

    Raises `NotPrivateError` for another user's folder, and `OSError`.
    """
    if not folder.parent.exists():
        make_private(folder.parent)  # `mkdir` would give parents the umask's mode.
    folder.mkdir(FOLDER_MODE, exist_ok=True)
    close_to_others(folder)


def close_to_others(folder: Path) -> None:
    """Let only the owner into an existing folder.  Raises what `make_private` raises."""
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
    """Open a log file for appending."""
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, FILE_MODE)
    return os.fdopen(fd, "ab")


def write_private(path: Path, text: str) -> None:
    """Replace a file in a folder that is closed to others.  Raises `OSError`, with its path."""
    fd = os.open(path, os.O_WRONLY | os.O_TRUNC | os.O_CREAT, FILE_MODE)
    try:
        with os.fdopen(fd, "w", encoding="utf-8") as file:
            path.chmod(FILE_MODE)
            file.write(text)
    except OSError as error:
        error.filename = error.filename or str(path)  # A failed write does not name it.
        raise
