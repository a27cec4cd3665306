"""Creates files and directories that only their owner can access, regardless of the umask.

Other users cannot enter the directories that labkit creates, so the files in them need not be
checked. Directories that the user has created keep their modes.
"""

import os
import stat
import tempfile
from pathlib import Path
from typing import BinaryIO

from labkit.system.model.errors import LabkitError

FOLDER_MODE = 0o700
FILE_MODE = 0o600
UMASK = 0o077
"""The umask for child processes."""

UNFINISHED = "unfinished-"
"""The prefix of a file's name until the file is complete."""

_OTHERS = 0o077


class NotPrivateError(LabkitError):
    """Other users can read or change a directory, and its mode cannot be changed."""


def make_private(folder: Path) -> None:
    """Create a private directory and its missing parents, or make an existing directory private.

    Raises `NotPrivateError` if the directory belongs to another user and is open to others, or an
    `OSError`.
    """
    if not folder.parent.exists():
        make_private(folder.parent)  # `mkdir(parents=True)` would use the umask for parents.
    folder.mkdir(FOLDER_MODE, exist_ok=True)
    close_to_others(folder)


def close_to_others(folder: Path) -> None:
    """Remove other users' permissions on a directory. Raises the same errors as `make_private`."""
    found = folder.stat()
    if not found.st_mode & _OTHERS:
        return
    try:
        folder.chmod(FOLDER_MODE)
    except PermissionError:
        raise NotPrivateError(
            f"{folder} belongs to another user (uid {found.st_uid}), and others can enter it"
            f" (mode {stat.S_IMODE(found.st_mode):o}); choose a folder of your own"
        ) from None


def check_others_cannot_replace(folder: Path) -> None:
    """Raise `NotPrivateError` if every user may rename and delete files in the directory."""
    mode = folder.stat().st_mode
    if mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        raise NotPrivateError(
            f"every user can replace files in {folder} (mode {stat.S_IMODE(mode):o}); run"
            f" `chmod o-w {folder}`, or choose another folder"
        )


def open_log(path: Path) -> BinaryIO:
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, FILE_MODE)
    return os.fdopen(fd, "ab")


def write_private(path: Path, text: str, mode: int = FILE_MODE) -> None:
    """Create or replace a file, which only its owner can read unless `mode` allows more.

    Other processes never see an incomplete file. Raises an `OSError` that contains the path.
    """
    try:
        fd, unfinished = tempfile.mkstemp(prefix=UNFINISHED, dir=path.parent)
        try:
            with os.fdopen(fd, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(unfinished, mode)
            os.replace(unfinished, path)
        except BaseException:
            os.unlink(unfinished)
            raise
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error
