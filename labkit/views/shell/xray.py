"""The verb `xray`: decodes every byte of a file into named fields.

The file may be in any directory; its name determines its format.
"""

from collections.abc import Iterator
from pathlib import Path

from labkit.system.model.layout import Span
from labkit.system.storage.disk import File
from labkit.views.shell.folders import ReadOnlyDisk, ReadOnlyFile, ShellError, parse_file_id
from labkit.views.xray.file_spans import (
    cookie_spans,
    entry_log_spans,
    index_spans,
    journal_spans,
    last_id_spans,
    last_mark_spans,
)
from labkit.worlds.live.host.regular_files import is_regular

_HEXADECIMAL = 16


class _OneFile(ReadOnlyDisk):
    """A disk on which every name refers to the same file."""

    def __init__(self, path: Path) -> None:
        super().__init__(path.parent)
        self._path = path

    def open(self, path: str) -> File:
        return ReadOnlyFile(self._path)


def file_spans(path: Path, digest_size: int = 4) -> Iterator[Span]:
    """Yield the spans of a journal, entry log, index, lastMark, lastId or VERSION file.

    `digest_size` is the size of the digest in entries: CRC32C 4, CRC32 8, HMAC 20, DUMMY 0. Raises
    `ShellError` for any other file, and `StorageDamagedException` if the bytes are invalid.
    """
    if not is_regular(path):
        raise ShellError(f"file {path} does not exist")
    name, disk = path.name, _OneFile(path)
    if name.startswith("lastMark"):
        return last_mark_spans(disk.open(name))
    if name == "lastId":
        return last_id_spans(disk.open(name))
    if name == "VERSION":
        return cookie_spans(disk.open(name))
    if path.suffix not in (".txn", ".log", ".idx"):
        raise ShellError(
            f"cannot determine the format of {path} from its name; expected *.txn, *.log, *.idx,"
            " lastMark, lastId or VERSION"
        )
    number = parse_file_id(name, path.suffix, _HEXADECIMAL).number
    if path.suffix == ".txn":
        return journal_spans(disk, number, digest_size)
    if path.suffix == ".log":
        return entry_log_spans(disk, number, digest_size)
    return index_spans(disk, number)
