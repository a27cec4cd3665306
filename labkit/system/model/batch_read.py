"""Batch reads of wire protocol version 2: several entries in one response.

A response contains either an error code or at least one entry. It ends before the first entry that
does not fit or that the bookie does not have.

In BookKeeper (from 4.17 on): `proto/BatchedReadEntryProcessor.java`.
"""

import struct
from collections.abc import Iterable

from labkit.system.model.errors import BKReadException
from labkit.system.model.wire import (
    BATCH_READ_REQUEST,
    MAX_FRAME_SIZE,
    RESPONSE,
    BatchReadRequest,
    Code,
    Opcode,
    packet_header,
)

_REQUEST_ID = struct.Struct(">q")
_ENTRY_SIZE = struct.Struct(">i")
_RESPONSE_OVERHEAD = 4 + RESPONSE.size + _REQUEST_ID.size
"""The size of a response frame without entries."""


def encode_batch_read(request: BatchReadRequest) -> bytes:
    head = packet_header(Opcode.BATCH_READ, request.flags)
    return BATCH_READ_REQUEST.struct.pack(head, *request[:5]) + request.master_key


def room_for(request: BatchReadRequest) -> int:
    """Return how many bytes of the response can be used for entries and their length fields."""
    return min(request.max_size, MAX_FRAME_SIZE) - _RESPONSE_OVERHEAD


def room_taken(entry: bytes) -> int:
    return _ENTRY_SIZE.size + len(entry)


def encode_size(entry: bytes) -> bytes:
    return _ENTRY_SIZE.pack(len(entry))


def encode_batch_response(request: BatchReadRequest, code: Code, pieces: Iterable[bytes]) -> bytes:
    """Encode a response. When joined, `pieces` must be a sequence of length-prefixed entries."""
    head = packet_header(Opcode.BATCH_READ)
    header = RESPONSE.struct.pack(head, code, request.ledger_id, request.first_entry_id)
    return b"".join((header, _REQUEST_ID.pack(request.request_id), *pieces))


def find_batch_entries(data: bytes) -> list[tuple[int, int]]:
    """Return the start and end of each entry in `data`, which is a response without its header.

    Raises `BKReadException` if `data` ends within an entry.
    """
    at, end, found = _REQUEST_ID.size, len(data), list[tuple[int, int]]()
    while at < end:
        start = at + _ENTRY_SIZE.size
        if start <= end:
            at = start + _ENTRY_SIZE.unpack_from(data, at)[0]
        if not start <= at <= end:
            raise BKReadException(
                f"the response to a batch read ends within its entry {len(found)}"
            )
        found.append((start, at))
    return found
