"""BookKeeper's wire protocol, version 2: the requests from clients and the responses from bookies.

A frame consists of a length (u32) and a body. This module encodes and decodes bodies. A body starts
with one i32 that combines version, opcode and flags. A client matches a response to its request by
ledger, entry and opcode.

In BookKeeper: `proto/BookieProtocol.java`, `proto/BookieProtoEncoding.java`.
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from enum import IntEnum
from typing import NamedTuple

from google.protobuf.message import DecodeError

from labkit.system.model.entry import MAX_ENTRY_ID, NO_ENTRY_ID
from labkit.system.model.errors import (
    BKException,
    BKLedgerFencedException,
    BKNoSuchEntryException,
    BKNoSuchLedgerExistsException,
    BKReadException,
    BKUnauthorizedAccessException,
    BKWriteException,
    BKWriteOnReadOnlyBookieException,
)
from labkit.system.model.layout import Field, Layout
from labkit.system.model.proto.bookkeeper_protocol_pb2 import AuthMessage

VERSION = 2
MASTER_KEY_SIZE = 20
MAX_FRAME_SIZE = 5 * 1024 * 1024
"""The maximum number of bytes, including the length field (`nettyMaxFrameSizeBytes`)."""
AUTH_DISABLED = "AuthDisabledPlugin"
"""The plugin name that a bookie sends if authentication is disabled."""


class Opcode(IntEnum):
    """The type of a request. A response has the same opcode as its request."""

    ADD = 1
    READ = 2
    AUTH = 3
    BATCH_READ = 7


class Flag(IntEnum):
    """Flags of a request. This is not an IntFlag, because every test of an IntFlag creates an
    object.
    """

    FENCE = 1
    RECOVERY_ADD = 2
    HIGH_PRIORITY = 4


class Code(IntEnum):
    OK = 0
    NO_LEDGER = 1
    NO_ENTRY = 2
    BAD_REQUEST = 100
    IO_ERROR = 101
    UNAUTHORIZED = 102
    BAD_VERSION = 103
    FENCED = 104
    READ_ONLY = 105


ADD_REQUEST = Layout(
    "add request",
    Field("packet header", "i", "version << 24 | opcode << 16 | flags"),
    Field("master key", "20s", "proves that the client knows the password"),
)
"""The header is followed by the entry, in the form in which the bookie stores it."""

READ_REQUEST = Layout(
    "read request",
    Field("packet header", "i", "version << 24 | opcode << 16 | flags"),
    Field("ledger id", "q", "the ledger"),
    Field("entry id", "q", "the entry; -1: the last one that the bookie has"),
)
"""The header is followed by the master key if the flag FENCE is set."""

BATCH_READ_REQUEST = Layout(
    "batch read request",
    Field("packet header", "i", "version << 24 | opcode << 16 | flags"),
    Field("ledger id", "q", "the ledger"),
    Field("first entry id", "q", "the first entry to read"),
    Field("request id", "q", "repeated in the response"),
    Field("max count", "i", "maximum number of entries; 0: no limit"),
    Field("max size", "q", "maximum size of the response, unless the first entry is larger"),
)
"""The header is followed by the master key if the flag FENCE is set."""

RESPONSE = Layout(
    "response",
    Field("packet header", "i", "the request's header with flags 0"),
    Field("code", "i", "0: success; otherwise the reason for the failure"),
    Field("ledger id", "q", "as requested"),
    Field("entry id", "q", "as requested"),
)
"""The header is followed by the entry if the request was a read and succeeded."""

_HEAD = struct.Struct(">i")
_ADD_BEGIN = struct.Struct(">i20sqq")
"""The start of an add request, up to the ids at the start of its entry."""
_UNSIGNED_IDS = struct.Struct(">QQ")
_MAX_LEDGER_ID = 2**63 - 1
_ADD_HEADER_SIZE = ADD_REQUEST.size
_SMALLEST_ADD = _ADD_HEADER_SIZE + 32


class AddBatch(NamedTuple):
    """Add requests that arrived together and have the same flags and master key, in order of
    arrival.
    """

    flags: int
    master_key: bytes
    ledger_ids: list[int]
    entry_ids: list[int]
    entries: list[bytes]

    def responses(self, code: Code) -> list[bytes]:
        """Return the bodies of the responses, one per entry."""
        pack, ids = RESPONSE.struct.pack, zip(self.ledger_ids, self.entry_ids, strict=True)
        return [
            pack(_ADD_RESPONSE_HEADER, code, ledger_id, entry_id) for ledger_id, entry_id in ids
        ]

    def by_ledger(self) -> list["AddBatch"]:
        if self.ledger_ids.count(self.ledger_ids[0]) == len(self.ledger_ids):
            return [self]
        parts: dict[int, AddBatch] = {}
        for ledger_id, entry_id, entry in zip(*self[2:], strict=True):
            part = parts.setdefault(ledger_id, AddBatch(*self[:2], [], [], []))
            part.ledger_ids.append(ledger_id)
            part.entry_ids.append(entry_id)
            part.entries.append(entry)
        return [*parts.values()]


class ReadRequest(NamedTuple):
    """A request for an entry. If the flag FENCE is set, the bookie fences the ledger first."""

    ledger_id: int
    entry_id: int
    flags: int
    master_key: bytes


class BatchReadRequest(NamedTuple):
    ledger_id: int
    first_entry_id: int
    request_id: int
    max_count: int
    max_size: int
    flags: int = 0
    master_key: bytes = b""


class AuthRequest(NamedTuple):
    message: bytes


class BadRequest(NamedTuple):
    """An invalid frame. The response repeats the frame's header and contains `code`."""

    head: int
    code: Code


class Response(NamedTuple):
    """A bookie's response; `entry` is empty except after a successful read."""

    opcode: int
    code: int
    ledger_id: int
    entry_id: int
    entry: bytes


Request = AddBatch | ReadRequest | BatchReadRequest | AuthRequest | BadRequest


def packet_header(opcode: Opcode, flags: int = 0) -> int:
    return VERSION << 24 | opcode << 16 | flags


_ADD_RESPONSE_HEADER = packet_header(Opcode.ADD)
_PLAIN_READ = packet_header(Opcode.READ)


def add_header(master_key: bytes, flags: int = 0) -> bytes:
    """Return the bytes with which every add request to a ledger starts."""
    header: bytes = ADD_REQUEST.struct.pack(packet_header(Opcode.ADD, flags), master_key)
    return header


def encode_add(master_key: bytes, entry: bytes, flags: int = 0) -> bytes:
    return add_header(master_key, flags) + entry


def encode_read(ledger_id: int, entry_id: int, fence_key: bytes = b"", flags: int = 0) -> bytes:
    """Encode a read request. If it contains a `fence_key`, the bookie fences the ledger first."""
    if not (fence_key or flags):
        plain: bytes = READ_REQUEST.struct.pack(_PLAIN_READ, ledger_id, entry_id)
        return plain
    flags |= Flag.FENCE if fence_key else 0
    head = packet_header(Opcode.READ, flags)
    return READ_REQUEST.struct.pack(head, ledger_id, entry_id) + fence_key


def encode_response(
    opcode: Opcode, code: Code, ledger_id: int, entry_id: int, entry: bytes = b""
) -> bytes:
    return RESPONSE.struct.pack(packet_header(opcode), code, ledger_id, entry_id) + entry


def encode_no_authentication() -> bytes:
    """Encode the response to an `AuthRequest`. It has no code, and accepts every client."""
    message = AuthMessage(authPluginName=AUTH_DISABLED, payload=b"")
    return _HEAD.pack(packet_header(Opcode.AUTH)) + message.SerializeToString()


def encode_bad_request(request: BadRequest) -> bytes:
    # Return -1 for both ids, which may be undecodable. Clear the flags.
    return RESPONSE.struct.pack(request.head & ~0xFFFF, request.code, -1, -1)


def decode_requests(bodies: Sequence[bytes]) -> list[Request]:
    """Decode all requests that were received together.

    An add request is put into the batch of an earlier add if both start with the same bytes, up to
    the ledger id. It is never moved ahead of a request of another kind.
    """
    requests: list[Request] = []
    batches: dict[bytes, AddBatch] = {}
    for body in bodies:
        batch = batches.get(body[:_ADD_HEADER_SIZE])
        # The first bytes are the same as in the batch's first add, so only the ids need to be
        # decoded.
        if batch is not None and len(body) >= _SMALLEST_ADD:
            # Ids are decoded as unsigned numbers, so a negative id exceeds the limit, too.
            ledger_id, entry_id = _UNSIGNED_IDS.unpack_from(body, _ADD_HEADER_SIZE)
            if ledger_id <= _MAX_LEDGER_ID and entry_id <= MAX_ENTRY_ID:
                batch.ledger_ids.append(ledger_id)
                batch.entry_ids.append(entry_id)
                batch.entries.append(body[_ADD_HEADER_SIZE:])
                continue
        request = _decode_request(body)
        requests.append(request)
        if isinstance(request, AddBatch):
            batches[body[:_ADD_HEADER_SIZE]] = request
        else:
            # A read or a fence must see all adds before it and none after it.
            batches.clear()
    return requests


def _decode_request(body: bytes) -> Request:
    if len(body) < _HEAD.size:
        return BadRequest(0, Code.BAD_REQUEST)
    head: int = _HEAD.unpack_from(body)[0]
    if not 0 <= head >> 24 <= VERSION:
        return BadRequest(head, Code.BAD_VERSION)
    decode = _DECODERS.get(head >> 16 & 0xFF)
    request = decode(body) if decode is not None else None
    return BadRequest(head, Code.BAD_REQUEST) if request is None else request


def _decode_add(body: bytes) -> AddBatch | None:
    if len(body) < _SMALLEST_ADD:
        return None
    head, key, ledger_id, entry_id = _ADD_BEGIN.unpack_from(body)
    if ledger_id < 0 or not 0 <= entry_id <= MAX_ENTRY_ID:
        return None
    return AddBatch(head & 0xFFFF, key, [ledger_id], [entry_id], [body[_ADD_HEADER_SIZE:]])


def _decode_read(body: bytes) -> ReadRequest | None:
    if len(body) < READ_REQUEST.size:
        return None
    head, ledger_id, entry_id = READ_REQUEST.struct.unpack_from(body)
    if ledger_id < 0 or entry_id < NO_ENTRY_ID:
        return None
    # Only a fencing read contains a key.
    key = body[READ_REQUEST.size :][:MASTER_KEY_SIZE]
    return ReadRequest(ledger_id, entry_id, head & 0xFFFF, key)


def _decode_batch_read(body: bytes) -> BatchReadRequest | None:
    if len(body) < BATCH_READ_REQUEST.size:
        return None
    head, ledger_id, first, number, count, size = BATCH_READ_REQUEST.struct.unpack_from(body)
    if ledger_id < 0 or first < 0:
        return None
    key = body[BATCH_READ_REQUEST.size :][:MASTER_KEY_SIZE]
    return BatchReadRequest(ledger_id, first, number, count, size, head & 0xFFFF, key)


def _decode_auth(body: bytes) -> AuthRequest | None:
    with suppress(DecodeError):
        AuthMessage.FromString(body[_HEAD.size :])
        return AuthRequest(body[_HEAD.size :])
    return None


_DECODERS: dict[int, Callable[[bytes], Request | None]] = {
    Opcode.ADD: _decode_add,
    Opcode.READ: _decode_read,
    Opcode.BATCH_READ: _decode_batch_read,
    Opcode.AUTH: _decode_auth,
}


def decode_responses(bodies: Iterable[bytes]) -> list[Response]:
    """Decode responses. Raises `struct.error` if a body is too short."""
    responses = []
    for body in bodies:
        head, code, ledger_id, entry_id = RESPONSE.struct.unpack_from(body)
        opcode = head >> 16 & 0xFF
        responses.append(Response(opcode, code, ledger_id, entry_id, body[RESPONSE.size :]))
    return responses


EXCEPTIONS: dict[int, type[BKException]] = {
    Code.NO_LEDGER: BKNoSuchLedgerExistsException,
    Code.NO_ENTRY: BKNoSuchEntryException,
    Code.UNAUTHORIZED: BKUnauthorizedAccessException,
    Code.FENCED: BKLedgerFencedException,
    Code.READ_ONLY: BKWriteOnReadOnlyBookieException,
}

_MEANINGS: dict[int, str] = {
    Code.NO_LEDGER: "it has no entries of that ledger",
    Code.NO_ENTRY: "it does not have that entry",
    Code.UNAUTHORIZED: "the password does not match the ledger's",
    Code.FENCED: "the ledger is fenced: another client is recovering it",
    Code.READ_ONLY: "it is read-only",
}


def error_of(response: Response, bookie: str) -> BKException:
    """Return the exception that corresponds to a response with an error code.

    In BookKeeper: `proto/CompletionValue.java`.
    """
    adding = response.opcode == Opcode.ADD
    # An unknown code proves nothing, so it must not be reported as "no such entry".
    kind = EXCEPTIONS.get(response.code, BKWriteException if adding else BKReadException)
    meaning = _MEANINGS.get(response.code, f"it failed with code {response.code}")
    verb = "add" if adding else "read"
    return kind(
        f"{bookie} did not {verb} entry {response.entry_id} of ledger {response.ledger_id}:"
        f" {meaning}"
    )
