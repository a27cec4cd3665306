"""Reads entries from one entry log, with read-ahead.

A client that is catching up reads a ledger's entries in the order in which they were flushed. So
each read also fetches some of the bytes after the requested entry. This is safe, because bytes in
an entry log never change once an index points to them.

In BookKeeper: `bookie/BufferedReadChannel.java`.
"""

import struct
from collections.abc import Sequence

from labkit.system.model.length_prefixed import LENGTH_SIZE
from labkit.system.storage.disk import File

_READ_SIZE = 16 * 1024
_READ_SIZE_IN_ORDER = 64 * 1024
"""The size of a read that continues where the previous one ended."""
_HEAD = struct.Struct(">iqq")
"""Length, ledger id, entry id; the two ids are the first bytes of the entry."""
_SMALLEST_ENTRY = 16
_ZEROS_SIZE = 64 * 1024


class EntryLogReader:
    """An entry log that is open for reading, possibly by several threads."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._read_ahead = 0, b""
        """The offset and the bytes of the last read, in one tuple, so that threads replace both
        atomically.
        """

    def entry(self, offset: int, ledger_id: int, entry_id: int) -> bytes | None:
        """Return the entry at `offset`, or None if that entry is incomplete or is not the expected
        one.
        """
        start, data = self._read_ahead
        at = offset - LENGTH_SIZE - start
        read_size = _READ_SIZE_IN_ORDER if 0 < at <= len(data) + _READ_SIZE else _READ_SIZE
        # The start of the entry is not in the read-ahead.
        if at < 0 or at + _HEAD.size > len(data):
            at, data = 0, self._read(offset, read_size)
            if len(data) < _HEAD.size:
                return None
        size, found_ledger, found_entry = _HEAD.unpack_from(data, at)
        if found_ledger != ledger_id or found_entry != entry_id or size < _SMALLEST_ENTRY:
            return None
        end = at + LENGTH_SIZE + size
        # The read-ahead contains only the start of the entry.
        if end > len(data):
            # Check the size first, so that a damaged length does not cause a large allocation.
            if size > read_size and offset + size > self._file.size():
                return None
            at, data = 0, self._read(offset, max(LENGTH_SIZE + size, read_size))
            end = LENGTH_SIZE + size
            if end > len(data):
                return None
        return data[at + LENGTH_SIZE : end]

    def entries(
        self, offsets: Sequence[int], ledger_id: int, first: int, max_bytes: int
    ) -> tuple[list[bytes], int]:
        """Return the entries that start at these offsets, as slices of the log, and the number of
        entries. The entries must have consecutive ids, starting with `first`.

        Each slice contains one or more length-prefixed entries. All slices together contain at most
        `max_bytes` bytes. The result ends before the first entry that is incomplete, missing, or
        too far from the previous one. Raises `OSError`.
        """
        start = offsets[0] - LENGTH_SIZE
        data = self._file.read(start, min(max_bytes, _extent(offsets, max_bytes)))
        pieces: list[bytes] = []
        begin = end = count = 0
        for offset in offsets:
            at = offset - LENGTH_SIZE - start
            if not end <= at <= len(data) - _HEAD.size:
                break
            size, found_ledger, found_entry = _HEAD.unpack_from(data, at)
            is_expected = found_ledger == ledger_id and found_entry == first + count
            if not is_expected or not _SMALLEST_ENTRY <= size <= len(data) - at - LENGTH_SIZE:
                break
            if at > end:
                pieces.append(data[begin:end])
                begin = at
            end = at + LENGTH_SIZE + size
            count += 1
        pieces.append(data[begin:end])
        return pieces, count

    def close(self) -> None:
        self._file.close()

    def _read(self, offset: int, size: int) -> bytes:
        start = offset - LENGTH_SIZE
        data = self._file.read(start, size)
        self._read_ahead = start, data
        return data


def _extent(offsets: Sequence[int], max_bytes: int) -> int:
    """Return how many bytes to read for the leading entries that are close together."""
    first = last = offsets[0]
    for offset in offsets:
        if not 0 <= offset - last <= _READ_SIZE or offset - first > max_bytes:
            break
        last = offset
    return last - first + _READ_SIZE


def zeros_to_skip(file: File, position: int) -> int:
    """Return how many zeros a scan can skip at `position`. At least four zeros must start there.

    Do not skip the last three zeros, because they may be the first bytes of a length. Skip a hole
    in one step, and other zeros in steps of up to `_ZEROS_SIZE` bytes.
    """
    hole = file.next_data(position) - position
    if hole > 3:
        return hole - 3
    piece = file.read(position, _ZEROS_SIZE)
    return len(piece) - len(piece.lstrip(b"\0")) - 3
