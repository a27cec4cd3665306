"""Reading entries from one entry log.

A reader that catches up wants a ledger's entries in order, and a flush laid them one after the
other: so a read takes some of what follows along.  Bytes in an entry log never change once an index
points to them, so what was read ahead stays true.

In BookKeeper: `bookie/BufferedReadChannel.java`.
"""

import struct

from labkit.storage.disk import File

_READ_SIZE = 16 * 1024
"""At a time: readers go on to the next entry, which then is in memory."""
_HEAD = struct.Struct(">iqq")
"""Length, ledger id, entry id; the ids are the first bytes of the entry."""
_LENGTH_SIZE = 4
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
        at = offset - _LENGTH_SIZE - start
        if at < 0 or at + _HEAD.size > len(data):
            at, data = 0, self._read(offset, _READ_SIZE)
            if len(data) < _HEAD.size:
                return None
        size, found_ledger, found_entry = _HEAD.unpack_from(data, at)
        if found_ledger != ledger_id or found_entry != entry_id or size < _SMALLEST_ENTRY:
            return None
        end = at + _LENGTH_SIZE + size
        if end > len(data):
            # A length that was damaged must not become memory.
            if offset + size > self._file.size():
                return None
            at, data = 0, self._read(offset, max(_LENGTH_SIZE + size, _READ_SIZE))
            end = _LENGTH_SIZE + size
        return data[at + _LENGTH_SIZE : end]

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read(self, offset: int, size: int) -> bytes:
        start = offset - _LENGTH_SIZE
        data = self._file.read(start, size)
        self._ahead = start, data
        return data


def zeros_at(file: File, position: int) -> int:
    """How many bytes from there, of which the first four are zeros, to the next length, or on the
    way to it; up to three zeros belong to that length.
    """
    hole = file.next_data(position) - position
    if hole > 3:
        return hole - 3
    piece = file.read(position, _ZEROS_SIZE)
    return len(piece) - len(piece.lstrip(b"\0")) - 3
