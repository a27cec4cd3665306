"""The verb `xray`: every byte of one file, named by the declared layouts.

The file may be anywhere; its name says what kind it is.
"""

from collections.abc import Iterator
from pathlib import Path

from labkit.system.model.layout import Span
from labkit.system.storage.disk import File
from labkit.system.storage.xray import (
    cookie_spans,
    entry_log_spans,
    index_spans,
    journal_spans,
    last_id_spans,
    last_mark_spans,
)
from labkit.views.shell.folders import ReadOnlyDisk, ReadOnlyFile, ShellError, parse_file_id
from labkit.worlds.live.host.regular_files import is_regular

_HEXADECIMAL = 16


class _OneFile(ReadOnlyDisk):
    """A disk with one file, which it returns for every name."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.parent)
        self._path = path

    def open(self, path: str) -> File:
        return ReadOnlyFile(self._path)


def file_spans(path: Path, digest_size: int = 4) -> Iterator[Span]:
    """The spans of a journal, entry log, index, lastMark, lastId or VERSION file.

    `digest_size` is that of the digest in entries: 4 CRC32C, 8 CRC32, 20 HMAC, 0 DUMMY.  Raises
    `ShellError` for another file, and `StorageDamagedException` where the bytes make no sense.
    """
    if not is_regular(path):
        raise ShellError(f"there is no file {path}")
    name, disk = path.name, _OneFile(path)
    if name.startswith("lastMark"):
        return last_mark_spans(disk.open(name))
    if name == "lastId":
        return last_id_spans(disk.open(name))
    if name == "VERSION":
        return cookie_spans(disk.open(name))
    if path.suffix not in (".txn", ".log", ".idx"):
        raise ShellError(
            f"{path}: the name does not say what it is; known are *.txn, *.log, *.idx, lastMark,"
            " lastId and VERSION"
        )
    number = parse_file_id(name, path.suffix, _HEXADECIMAL).number
    if path.suffix == ".txn":
        return journal_spans(disk, number, digest_size)
    if path.suffix == ".log":
        return entry_log_spans(disk, number, digest_size)
    return index_spans(disk, number)
