"""Reading a journal file: what replay and the tools that look inside go through.

In BookKeeper: `Journal.scanJournal`.
"""

import struct
from collections.abc import Iterator
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
"""At a time: replay reads journals from end to end, and a call per record would be slow."""
BATCH_BYTES = 128 * 1024
"""What the processor's caches hold until it is used."""
_NEEDS_VERSION = {LEDGER_KEY: 3, FENCE: 4, EXPLICIT_LAC: 6}
_RECORD = RECORD_HEADER.struct
_RECORD_SIZE = RECORD_HEADER.size
_LENGTH = struct.Struct(">i")
_IDS_SIZE = 16
_NEGATIVE = 0x80
"""A length's first byte from here on: padding."""
_SECTOR_SIZE = 512
"""What a disk writes wholly or not at all."""


class JournalRecord(NamedTuple):
    """One record: `offset` is that of its length word, `body` begins with the two ids."""

    offset: int
    ledger_id: int
    entry_id: int
    body: bytes


class JournalScan:
    """The records of one journal file.

    A torn tail and preallocated zeros end the file without an error, as in BookKeeper: nothing in
    the format tells them apart.  `end_offset` is where the records end, known once `records` is
    exhausted.
    """

    def __init__(self, disk: Disk, file_id: int) -> None:
        """Open the file and read its version.

        Raises `FileNotFoundError`, and `StorageDamagedException` for an unknown version.
        """
        self.name = LogMark(file_id, 0).file_name
        self.path = disk.path(f"current/{self.name}")
        self.file: File = disk.open(f"current/{self.name}")
        head = self.file.read(0, 8)
        # Files of version 1 have no header.
        has_header = len(head) == 8 and head[:4] == MAGIC
        self.version = _LENGTH.unpack_from(head, 4)[0] if has_header else 1
        if not 1 <= self.version <= VERSION:
            raise StorageDamagedException(
                f"journal {self.path}: version {self.version} at offset 4;"
                f" versions 1 to {VERSION} can be read"
            )
        self.end_offset = header_size(self.version)

    def records(self, start_offset: int = 0) -> Iterator[JournalRecord]:
        """Records from `start_offset` (a record's start, or 0 for the first) to the end.

        Raises `StorageDamagedException` with file and offset for bytes that no writer leaves, and
        for a file that ends before `start_offset`.
        """
        return chain.from_iterable(self.batches(start_offset))

    def batches(
        self, start_offset: int = 0, size_bytes: int = BATCH_BYTES
    ) -> Iterator[list[JournalRecord]]:
        """The same in lists: entries, `size_bytes` of them or a little more, or one other record.

        A subclass may change this.
        """
        if start_offset > self.file.size():
            # A mark names a place that was synced, so what followed it is gone, too.
            raise StorageDamagedException(
                f"journal {self.path} ends at offset {self.file.size()}, and replay starts at"
                f" {start_offset}: acknowledged entries are missing; put the whole file back, or"
                " remove this bookie's data and let its ledgers be replicated again"
            )
        offset, wanted = max(start_offset, self.end_offset), 1
        while wanted and offset + wanted <= self.file.size():
            data, at = self.file.read(offset, max(_READ_SIZE, wanted)), 0
            while True:
                entries, at = _entries_in(data, at, at + size_bytes, offset)
                if entries:
                    yield entries
                    continue
                wanted = self._size_of_other(data, at, offset)
                if wanted == 0 or at + wanted > len(data):
                    break
                if data[at] < _NEGATIVE:
                    yield [self._other_record(data, at, wanted, offset)]
                at += wanted
            offset += at
        # A crash while the file was created may have cut its header.
        self.end_offset = min(offset, self.file.size())
        self.file.close()

    def _other_record(self, data: bytes, at: int, size: int, base: int) -> JournalRecord:
        _, ledger_id, entry_id = _RECORD.unpack_from(data, at)
        needed = _NEEDS_VERSION.get(entry_id, 1)
        if self.version < needed:
            raise self._damaged(base + at, f"a record that needs version {needed} ({entry_id})")
        body = data[at + LENGTH_SIZE : at + size]
        return JournalRecord(base + at, ledger_id, entry_id, body)

    def _size_of_other(self, data: bytes, at: int, base: int) -> int:
        """Size in bytes of what lies at `at` and is not a record that is whole in `data`: padding,
        or a record whose rest is still to be read.  0: the records end here.
        """
        available = len(data) - at
        if available < _LENGTH.size:
            return _LENGTH.size
        length: int = _LENGTH.unpack_from(data, at)[0]
        if length == PADDING_MASK and self.version >= PADDED_SINCE:
            if available < PADDING_HEADER.size:
                return PADDING_HEADER.size
            return self._padding_size(data, at, base)
        # A length of 0 is preallocated space, as no record is empty.
        if length == 0 or (length < 0 and _is_torn(data, at, base)):
            return 0
        if length < _IDS_SIZE:
            raise self._damaged(base + at, f"a record of {length} bytes")
        return _LENGTH.size + length

    def _padding_size(self, data: bytes, at: int, base: int) -> int:
        zero_count: int = PADDING_HEADER.struct.unpack_from(data, at)[1]
        if zero_count < 0:
            raise self._damaged(base + at, f"padding of {zero_count} bytes")
        return PADDING_HEADER.size + zero_count

    def _damaged(self, offset: int, what: str) -> StorageDamagedException:
        return StorageDamagedException(
            f"journal {self.path} (version {self.version}): {what} at offset {offset}"
        )


def _entries_in(data: bytes, at: int, before: int, base: int) -> tuple[list[JournalRecord], int]:
    """The entries from `at` on that lie whole in `data` and begin `before` that place, up to
    anything else; and where they end.  The data begins at `base` of the file.
    """
    entries, end = list[JournalRecord](), len(data)
    while at < before and at + _RECORD_SIZE <= end:
        length, ledger_id, entry_id = _RECORD.unpack_from(data, at)
        stop = at + LENGTH_SIZE + length
        if entry_id < 0 or length < _IDS_SIZE or stop > end:
            break
        body = data[at + LENGTH_SIZE : stop]
        entries.append(JournalRecord(base + at, ledger_id, entry_id, body))
        at = stop
    return entries, at


def _is_torn(data: bytes, at: int, base: int) -> bool:
    """Whether a sector's edge cuts the word at `at` and nothing but zeros follows the edge.

    Of a padding's first word such a tear leaves a negative length that was never written.
    """
    edge = _SECTOR_SIZE - (base + at) % _SECTOR_SIZE
    behind = data[at + edge : at + edge + _SECTOR_SIZE]
    return edge < _LENGTH.size and not any(behind)
