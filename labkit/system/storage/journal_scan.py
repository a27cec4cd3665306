"""Reads the records of a journal file, for replay and for the tools that inspect a bookie's files.

Records have no checksum, so a scan cannot always determine where the written data ends. After a
crash, or if a file is damaged, the scan may find:
  - A length of 0, or a length that points past the end of the file: the scan of this file ends
    without an error. If the length was damaged in the middle of the file, this silently skips the
    acknowledged records after it. Later files are still read.
  - A torn record with an intact length, whose missing bytes are preallocated zeros: the scan
    returns it as a complete record. Replay applies the record, as BookKeeper does. The record was
    never acknowledged, and a client that reads the entry notices its wrong digest.
  - Padding that was torn at a sector boundary: the scan of this file ends. (BookKeeper refuses to
    start.)
  - A length or a version that no writer produces: the scan raises `StorageDamagedException`.

In BookKeeper: `Journal.scanJournal`.
"""

import struct
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from typing import NamedTuple

from labkit.system.model.errors import StorageDamagedException
from labkit.system.model.length_prefixed import LENGTH_SIZE
from labkit.system.storage.disk import Disk, File
from labkit.system.storage.journal import (
    EXPLICIT_LAC,
    FENCE,
    LEDGER_KEY,
    MAGIC,
    PADDED_SINCE,
    PADDING_HEADER,
    PADDING_MASK,
    RECORD_HEADER,
    VERSION,
    header_size,
)
from labkit.system.storage.log_mark import LogMark

_READ_SIZE = 1024 * 1024
CHUNK_BYTES = 128 * 1024
"""Chunks of this size are still in the processor's caches when they are used."""
_NEEDS_VERSION = {LEDGER_KEY: 3, FENCE: 4, EXPLICIT_LAC: 6}
_RECORD = RECORD_HEADER.struct
_RECORD_SIZE = RECORD_HEADER.size
_LENGTH = struct.Struct(">i")
_IDS_SIZE = 16
_NEGATIVE = 0x80
"""If the first byte of a length is at least this value, the length is negative and marks padding.
"""
_SECTOR_SIZE = 512
"""A disk writes this many bytes atomically."""


class JournalRecord(NamedTuple):
    """A journal record. `offset` is the offset of its length field, and `body` starts with the two
    ids.
    """

    offset: int
    ledger_id: int
    entry_id: int
    body: bytes


class JournalScan:
    """The records of one journal file.

    `records` and `chunks` close the file, and set `end_offset` to the offset at which the records
    end. If you use neither of them, close `file` yourself.
    """

    def __init__(self, disk: Disk, file_id: int) -> None:
        """Raise `FileNotFoundError`, or `StorageDamagedException` if the version is unknown."""
        self.name = LogMark(file_id, 0).file_name
        self.path = disk.path(f"current/{self.name}")
        self.file: File = disk.open(f"current/{self.name}")
        try:
            self.version = self._read_version()
        except BaseException:
            self.file.close()
            raise
        self.end_offset = header_size(self.version)

    def _read_version(self) -> int:
        head = self.file.read(0, 8)
        # Files of version 1 have no header.
        has_header = len(head) == 8 and head[:4] == MAGIC
        version: int = _LENGTH.unpack_from(head, 4)[0] if has_header else 1
        if not 1 <= version <= VERSION:
            raise StorageDamagedException(
                f"journal {self.path}: unknown version {version} at offset 4;"
                f" expected 1 to {VERSION}"
            )
        return version

    def records(self, start_offset: int = 0) -> Iterator[JournalRecord]:
        """Yield all records, starting with the one at `start_offset` (0: the first record).

        Raises `StorageDamagedException` if the file contains bytes that no writer produces, or ends
        before `start_offset`.
        """
        return chain.from_iterable(self.chunks(start_offset))

    def chunks(
        self, start_offset: int = 0, size_bytes: int = CHUNK_BYTES
    ) -> Iterator[list[JournalRecord]]:
        """Yield lists of records; each contains either about `size_bytes` of entries or a single
        special record.

        A subclass may override this.
        """
        with closing(self.file):
            if start_offset > self.file.size():
                # The file was once synced up to the mark, so acknowledged records have been lost.
                raise StorageDamagedException(
                    f"journal {self.path} ends at offset {self.file.size()}, but replay starts at"
                    f" {start_offset}: acknowledged entries are missing; restore the complete file,"
                    " or delete this bookie's data and let its ledgers be replicated again"
                )
            # `data` is the part of the file that starts at offset `base`; `at` is an index into
            # `data`.
            base, needed = max(start_offset, self.end_offset), 1
            # Exit 1: the next record or padding extends past the end of the file.
            while base + needed <= self.file.size():
                data, at = self.file.read(base, max(_READ_SIZE, needed)), 0
                while True:
                    entries, at = _entries_in(data, at, at + size_bytes, base)
                    if entries:
                        yield entries
                        continue
                    size = self._size_of_special_or_padding(data, at, base)
                    # Exit 2: the records end here.
                    if size is None:
                        break
                    # Exit 3: `data` ends too early, so read at least `size` bytes from here on.
                    needed = size
                    if at + size > len(data):
                        break
                    if data[at] < _NEGATIVE:
                        yield [self._special_record(data, at, size, base)]
                    at += size
                base += at
                if size is None:
                    break
            # If a crash interrupted the creation of the file, the file may be shorter than its
            # header.
            self.end_offset = min(base, self.file.size())

    def _special_record(self, data: bytes, at: int, size: int, base: int) -> JournalRecord:
        _, ledger_id, entry_id = _RECORD.unpack_from(data, at)
        since = _NEEDS_VERSION.get(entry_id, 1)
        if self.version < since:
            raise self._damaged(
                base + at, f"record of type {entry_id}, which requires version {since} or later,"
            )
        body = data[at + LENGTH_SIZE : at + size]
        return JournalRecord(base + at, ledger_id, entry_id, body)

    def _size_of_special_or_padding(self, data: bytes, at: int, base: int) -> int | None:
        """Return the size of the special record, padding or incomplete entry at `at`, or None if
        the records end there.

        If `data` ends too early, return the number of bytes needed to determine the size.
        """
        available = len(data) - at
        if available < _LENGTH.size:
            return _LENGTH.size
        length: int = _LENGTH.unpack_from(data, at)[0]
        if length == PADDING_MASK and self.version >= PADDED_SINCE:
            if available < PADDING_HEADER.size:
                return PADDING_HEADER.size
            zero_count: int = PADDING_HEADER.struct.unpack_from(data, at)[1]
            if zero_count < 0:
                raise self._damaged(base + at, f"invalid padding length {zero_count}")
            return PADDING_HEADER.size + zero_count
        # A length of 0 marks preallocated space.
        if length == 0 or (length < 0 and _is_torn_padding_mask(data, at, base)):
            return None
        if length < _IDS_SIZE:
            raise self._damaged(base + at, f"invalid record length {length}")
        return _LENGTH.size + length

    def _damaged(self, offset: int, what: str) -> StorageDamagedException:
        return StorageDamagedException(
            f"journal {self.path} (version {self.version}): {what} at offset {offset}"
        )


def _entries_in(data: bytes, at: int, limit: int, base: int) -> tuple[list[JournalRecord], int]:
    """Return the entries from index `at` on, up to the first entry that ends at or after `limit`,
    and the index after the last entry. Stop earlier before a special record, padding or an
    incomplete entry. `data` starts at offset `base` in the file.
    """
    entries, end = list[JournalRecord](), len(data)
    while at < limit and at + _RECORD_SIZE <= end:
        length, ledger_id, entry_id = _RECORD.unpack_from(data, at)
        stop = at + LENGTH_SIZE + length
        if entry_id < 0 or length < _IDS_SIZE or stop > end:
            break
        body = data[at + LENGTH_SIZE : stop]
        entries.append(JournalRecord(base + at, ledger_id, entry_id, body))
        at = stop
    return entries, at


def _is_torn_padding_mask(data: bytes, at: int, base: int) -> bool:
    """Return whether a sector boundary splits the i32 at `at`, and only zeros follow the boundary.

    A crash can cut off padding in the middle of its mask (-0x100). The missing bytes read as zeros,
    so the mask looks like a negative length, which no writer ever produces.
    """
    edge = _SECTOR_SIZE - (base + at) % _SECTOR_SIZE
    behind = data[at + edge : at + edge + _SECTOR_SIZE]
    return edge < _LENGTH.size and not any(behind)
