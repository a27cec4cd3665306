"""Reading entries from one entry log.

A reader that catches up wants a ledger's entries in order, and a flush laid them one after the
other: so a read takes some of what follows along.  Bytes in an entry log never change once an index
points to them, so what was read ahead stays true.

In BookKeeper: `bookie/BufferedReadChannel.java`.
"""

import struct
from collections.abc import Sequence

from labkit.system.model.length_prefixed import LENGTH_SIZE
from labkit.system.storage.disk import File

_READ_SIZE = 16 * 1024
"""At a time: readers go on to the next entry, which then is in memory."""
_READ_SIZE_IN_ORDER = 64 * 1024
"""The same for a read that begins where the last one ended."""
_HEAD = struct.Struct(">iqq")
"""Length, ledger id, entry id; the ids are the first bytes of the entry."""
_SMALLEST_ENTRY = 16
_ZEROS_SIZE = 64 * 1024


class LogReader:
    """An entry log that is open for reading.  Several threads may read."""

    def __init__(self, file: File) -> None:
        self._file = file
        self._ahead = 0, b""
        """The last read: where it began, and its bytes.  One value: several threads exchange it."""

    def entry(self, offset: int, ledger_id: int, entry_id: int) -> bytes | None:
        """The bytes of that entry, whose first one lies at `offset`; None if it is not there whole.

        Raises `OSError`.
        """
        start, data = self._ahead
        at = offset - LENGTH_SIZE - start
        read_size = _READ_SIZE_IN_ORDER if 0 < at <= len(data) + _READ_SIZE else _READ_SIZE
        if at < 0 or at + _HEAD.size > len(data):
            at, data = 0, self._read(offset, read_size)
            if len(data) < _HEAD.size:
                return None
        size, found_ledger, found_entry = _HEAD.unpack_from(data, at)
        if found_ledger != ledger_id or found_entry != entry_id or size < _SMALLEST_ENTRY:
            return None
        end = at + LENGTH_SIZE + size
        if end > len(data):
            # A length that was damaged must not become memory.
            if size > read_size and offset + size > self._file.size():
                return None
            at, data = 0, self._read(offset, max(LENGTH_SIZE + size, read_size))
            end = LENGTH_SIZE + size
            if end > len(data):
                return None
        return data[at + LENGTH_SIZE : end]

    def entries(
        self, offsets: Sequence[int], ledger_id: int, first: int, room: int
    ) -> tuple[list[bytes], int]:
        """Entries `first` and following, whose first bytes lie at these offsets: pieces of the log,
        each one or several entries with their lengths, at most `room` bytes; and how many entries.

        It ends, perhaps at once, in front of one that is not there whole, or far from the one
        before it.  Raises `OSError`.
        """
        start = offsets[0] - LENGTH_SIZE
        data = self._file.read(start, min(room, _extent(offsets, room)))
        pieces: list[bytes] = []
        begin = end = count = 0
        for offset in offsets:
            at = offset - LENGTH_SIZE - start
            if not end <= at <= len(data) - _HEAD.size:
                break
            size, found_ledger, found_entry = _HEAD.unpack_from(data, at)
            is_here = found_ledger == ledger_id and found_entry == first + count
            if not is_here or not _SMALLEST_ENTRY <= size <= len(data) - at - LENGTH_SIZE:
                break
            if at > end:
                pieces.append(data[begin:end])
                begin = at
            end = at + LENGTH_SIZE + size
            count += 1
        pieces.append(data[begin:end])
        return pieces, count

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read(self, offset: int, size: int) -> bytes:
        start = offset - LENGTH_SIZE
        data = self._file.read(start, size)
        self._ahead = start, data
        return data


def _extent(offsets: Sequence[int], most: int) -> int:
    """Bytes from the first entry to the last that is near the one before it, and probably whole."""
    first = last = offsets[0]
    for offset in offsets:
        if not 0 <= offset - last <= _READ_SIZE or offset - first > most:
            break
        last = offset
    return last - first + _READ_SIZE


def zeros_at(file: File, position: int) -> int:
    """How many bytes from there, of which the first four are zeros, to the next length, or on the
    way to it; up to three zeros belong to that length.
    """
    hole = file.next_data(position) - position
    if hole > 3:
        return hole - 3
    piece = file.read(position, _ZEROS_SIZE)
    return len(piece) - len(piece.lstrip(b"\0")) - 3
