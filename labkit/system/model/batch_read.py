"""Wire protocol version 2: several entries in one answer.

An answer has fewer entries than asked for when they do not fit, or when the bookie lacks one; it
has at least one, or a code that says why not.

In BookKeeper (from 4.17 on): `proto/BatchedReadEntryProcessor.java`.
"""

import struct
from collections.abc import Iterable

from labkit.system.model.errors import BKReadException
from labkit.system.model.wire import (
    ANSWER,
    BATCH_READ_REQUEST,
    MAX_FRAME_SIZE,
    BatchReadRequest,
    Code,
    Opcode,
    packet_header,
)

_REQUEST_ID = struct.Struct(">q")
_ENTRY_SIZE = struct.Struct(">i")
_ANSWER_OVERHEAD = 4 + ANSWER.size + _REQUEST_ID.size
"""Bytes of an answer's frame without entries, its length word included."""


def encode_batch_read(request: BatchReadRequest) -> bytes:
    """Body of a batch read request."""
    head = packet_header(Opcode.BATCH_READ, request.flags)
    return BATCH_READ_REQUEST.struct.pack(head, *request[:5]) + request.master_key


def room_for(request: BatchReadRequest) -> int:
    """Bytes of entries that the answer may have, each with its length word."""
    return min(request.max_size, MAX_FRAME_SIZE) - _ANSWER_OVERHEAD


def room_taken(entry: bytes) -> int:
    """Bytes that an entry takes in the answer."""
    return _ENTRY_SIZE.size + len(entry)


def encode_size(entry: bytes) -> bytes:
    """The length word that stands in front of an entry in an answer."""
    return _ENTRY_SIZE.pack(len(entry))


def encode_batch_answer(request: BatchReadRequest, code: Code, pieces: Iterable[bytes]) -> bytes:
    """Body of an answer; in the pieces, joined, each entry stands behind its length word."""
    head = packet_header(Opcode.BATCH_READ)
    answer = ANSWER.struct.pack(head, code, request.ledger_id, request.first_entry_id)
    return b"".join((answer, _REQUEST_ID.pack(request.request_id), *pieces))


def find_batch_entries(data: bytes) -> list[tuple[int, int]]:
    """Where each entry of an answer begins and ends, given what follows the answer's ids.

    Raises `BKReadException` when it ends within an entry.
    """
    at, end, found = _REQUEST_ID.size, len(data), list[tuple[int, int]]()
    while at < end:
        start = at + _ENTRY_SIZE.size
        if start <= end:
            at = start + _ENTRY_SIZE.unpack_from(data, at)[0]
        if not start <= at <= end:
            raise BKReadException(
                f"the answer to a batch read ends within entry {len(found)} of it"
            )
        found.append((start, at))
    return found
