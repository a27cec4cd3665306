"""BookKeeper's wire protocol, version 2: the requests of a client and a bookie's answers.

A frame is a length (u32) and a body; this module encodes and decodes bodies.  A body begins with
one i32: version, opcode and flags.  Requests and answers are matched by (ledger, entry, opcode).

In BookKeeper: `proto/BookieProtocol.java`, `proto/BookieProtoEncoding.java`.
"""

import struct
from collections.abc import Iterable
from contextlib import suppress
from enum import IntEnum
from typing import NamedTuple

from google.protobuf.message import DecodeError

from labkit.model.entry import MAX_ENTRY_ID, NO_ENTRY_ID
from labkit.model.errors import (
    BKException,
    BKLedgerFencedException,
    BKNoSuchEntryException,
    BKNoSuchLedgerExistsException,
    BKReadException,
    BKUnauthorizedAccessException,
    BKWriteException,
    BKWriteOnReadOnlyBookieException,
)
from labkit.model.layout import Field, Layout
from labkit.model.proto.bookkeeper_protocol_pb2 import AuthMessage

VERSION = 2
MASTER_KEY_SIZE = 20
MAX_FRAME_SIZE = 5 * 1024 * 1024
"""Bytes of a frame, its length word included (`nettyMaxFrameSizeBytes`)."""
AUTH_DISABLED = "AuthDisabledPlugin"
"""The plugin that a bookie without authentication names."""


class Opcode(IntEnum):
    """What a frame asks for; answers carry the opcode of their request."""

    ADD = 1
    READ = 2
    AUTH = 3
    BATCH_READ = 7


class Flag(IntEnum):
    """Modifiers of a request, one bit each.

    Not an IntFlag: the bookie tests them for every entry, and that would build an object each time.
    """

    FENCE = 1
    RECOVERY_ADD = 2
    HIGH_PRIORITY = 4


class Code(IntEnum):
    """How a request went."""

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
    Field("master key", "20s", "proves the ledger's password"),
)
"""Followed by the entry as the bookie stores it."""

READ_REQUEST = Layout(
    "read request",
    Field("packet header", "i", "version << 24 | opcode << 16 | flags"),
    Field("ledger id", "q", "the ledger"),
    Field("entry id", "q", "the entry; -1: the last one that the bookie has"),
)
"""Followed by the master key if the flag FENCE is set."""

BATCH_READ_REQUEST = Layout(
    "batch read request",
    Field("packet header", "i", "version << 24 | opcode << 16 | flags"),
    Field("ledger id", "q", "the ledger"),
    Field("first entry id", "q", "the entry to begin with"),
    Field("request id", "q", "comes back with the answer"),
    Field("max count", "i", "most entries to answer with; 0: any number"),
    Field("max size", "q", "most bytes to answer with, unless the first entry is larger"),
)
"""Followed by the master key if the flag FENCE is set."""

ANSWER = Layout(
    "answer",
    Field("packet header", "i", "that of the request, flags 0"),
    Field("code", "i", "0: done; else why not"),
    Field("ledger id", "q", "as requested"),
    Field("entry id", "q", "as requested"),
)
"""Followed by the entry if a read was done."""

_HEAD = struct.Struct(">i")
_IDS = struct.Struct(">qq")
_UNSIGNED_ID = struct.Struct(">Q")
_ADD_HEADER_SIZE = ADD_REQUEST.size
_ENTRY_ID_AT = _ADD_HEADER_SIZE + 8
_SMALLEST_ADD = _ADD_HEADER_SIZE + 32


class AddBatch(NamedTuple):
    """Store these entries of one ledger: adds of one receive, in their order."""

    ledger_id: int
    flags: int
    master_key: bytes
    entry_ids: list[int]
    entries: list[bytes]

    def answers(self, code: Code) -> list[bytes]:
        """Bodies of the answers, one for each entry, if all of them went like that."""
        pack, ledger_id = ANSWER.struct.pack, self.ledger_id
        return [pack(_ADD_ANSWERED, code, ledger_id, entry_id) for entry_id in self.entry_ids]


class ReadRequest(NamedTuple):
    """Give me this entry; with the flag FENCE, first fence the ledger with that master key."""

    ledger_id: int
    entry_id: int
    flags: int
    master_key: bytes


class BatchReadRequest(NamedTuple):
    """Give me these entries; with the flag FENCE, first fence the ledger with that master key."""

    ledger_id: int
    first_entry_id: int
    request_id: int
    max_count: int
    max_size: int
    flags: int = 0
    master_key: bytes = b""


class AuthRequest(NamedTuple):
    """What a client says for its authentication plugin, if it has one."""

    message: bytes


class BadRequest(NamedTuple):
    """Any other frame: its header is echoed with a code."""

    head: int
    code: Code


class Answer(NamedTuple):
    """A bookie's answer to a request; `entry` is empty except for a successful read."""

    opcode: int
    code: int
    ledger_id: int
    entry_id: int
    entry: bytes


Request = AddBatch | ReadRequest | BatchReadRequest | AuthRequest | BadRequest


def packet_header(opcode: Opcode, flags: int = 0) -> int:
    """The i32 that every body begins with."""
    return VERSION << 24 | opcode << 16 | flags


_ADD_ANSWERED = packet_header(Opcode.ADD)
_PLAIN_READ = packet_header(Opcode.READ)


def add_header(master_key: bytes, flags: int = 0) -> bytes:
    """What the bodies of all adds to a ledger begin with; the entry follows."""
    header: bytes = ADD_REQUEST.struct.pack(packet_header(Opcode.ADD, flags), master_key)
    return header


def encode_add(master_key: bytes, entry: bytes, flags: int = 0) -> bytes:
    """Body of an add request."""
    return add_header(master_key, flags) + entry


def encode_read(ledger_id: int, entry_id: int, fence_key: bytes = b"", flags: int = 0) -> bytes:
    """Body of a read request; with a `fence_key` the bookie fences the ledger first."""
    if not (fence_key or flags):
        plain: bytes = READ_REQUEST.struct.pack(_PLAIN_READ, ledger_id, entry_id)
        return plain
    flags |= Flag.FENCE if fence_key else 0
    head = packet_header(Opcode.READ, flags)
    return READ_REQUEST.struct.pack(head, ledger_id, entry_id) + fence_key


def encode_answer(
    opcode: Opcode, code: Code, ledger_id: int, entry_id: int, entry: bytes = b""
) -> bytes:
    """Body of an answer."""
    return ANSWER.struct.pack(packet_header(opcode), code, ledger_id, entry_id) + entry


def encode_no_authentication() -> bytes:
    """Body of the answer to an `AuthRequest`: every client is let in.  It has no code."""
    message = AuthMessage(authPluginName=AUTH_DISABLED, payload=b"")
    return _HEAD.pack(packet_header(Opcode.AUTH)) + message.SerializeToString()


def encode_bad_request(request: BadRequest) -> bytes:
    """Body of the answer to a frame that made no sense."""
    # Its ids may not have been readable, so the answer has none; flags are not echoed.
    return ANSWER.struct.pack(request.head & ~0xFFFF, request.code, -1, -1)


def decode_requests(bodies: Iterable[bytes]) -> list[Request]:
    """All requests of one receive.

    Most adds begin like one before them, up to the entry id: those only join its batch.  No add
    moves past a request of another kind.
    """
    requests: list[Request] = []
    batches: dict[bytes, AddBatch] = {}
    for body in bodies:
        batch = batches.get(body[:_ENTRY_ID_AT])
        # What the batch's first add began with was decoded then: only the entry id is new.
        if batch is not None and len(body) >= _SMALLEST_ADD:
            # A negative id, read without a sign, is above the limit, too.
            entry_id = _UNSIGNED_ID.unpack_from(body, _ENTRY_ID_AT)[0]
            if entry_id <= MAX_ENTRY_ID:
                batch.entry_ids.append(entry_id)
                batch.entries.append(body[_ADD_HEADER_SIZE:])
                continue
        request = _decode_request(body)
        requests.append(request)
        if isinstance(request, AddBatch):
            batches[body[:_ENTRY_ID_AT]] = request
        else:
            # A read or a fence must see all adds before it and none after it.
            batches.clear()
    return requests


def _decode_request(body: bytes) -> Request:
    if len(body) < _HEAD.size:
        return BadRequest(0, Code.BAD_REQUEST)
    head: int = _HEAD.unpack_from(body)[0]
    version, opcode, flags = head >> 24, head >> 16 & 0xFF, head & 0xFFFF
    if not 0 <= version <= VERSION:
        return BadRequest(head, Code.BAD_VERSION)
    if opcode == Opcode.ADD and len(body) >= _SMALLEST_ADD:
        ledger_id, entry_id = _IDS.unpack_from(body, _ADD_HEADER_SIZE)
        if ledger_id >= 0 and 0 <= entry_id <= MAX_ENTRY_ID:
            key, entry = body[4:_ADD_HEADER_SIZE], body[_ADD_HEADER_SIZE:]
            return AddBatch(ledger_id, flags, key, [entry_id], [entry])
    if opcode == Opcode.READ and len(body) >= READ_REQUEST.size:
        _, ledger_id, entry_id = READ_REQUEST.struct.unpack_from(body)
        if ledger_id >= 0 and entry_id >= NO_ENTRY_ID:
            # Only a fencing read brings a key; of any other this is empty.
            key = body[READ_REQUEST.size :][:MASTER_KEY_SIZE]
            return ReadRequest(ledger_id, entry_id, flags, key)
    if opcode == Opcode.BATCH_READ and len(body) >= BATCH_READ_REQUEST.size:
        _, ledger_id, first, number, count, size = BATCH_READ_REQUEST.struct.unpack_from(body)
        if ledger_id >= 0 and first >= 0:
            key = body[BATCH_READ_REQUEST.size :][:MASTER_KEY_SIZE]
            return BatchReadRequest(ledger_id, first, number, count, size, flags, key)
    if opcode == Opcode.AUTH:
        with suppress(DecodeError):
            AuthMessage.FromString(body[_HEAD.size :])
            return AuthRequest(body[_HEAD.size :])
    return BadRequest(head, Code.BAD_REQUEST)


def decode_answers(bodies: Iterable[bytes]) -> list[Answer]:
    """All answers of one receive.  Raises `struct.error` for a body that is none."""
    answers = []
    for body in bodies:
        head, code, ledger_id, entry_id = ANSWER.struct.unpack_from(body)
        opcode = head >> 16 & 0xFF
        answers.append(Answer(opcode, code, ledger_id, entry_id, body[ANSWER.size :]))
    return answers


_EXCEPTIONS: dict[int, type[BKException]] = {
    Code.NO_LEDGER: BKNoSuchLedgerExistsException,
    Code.NO_ENTRY: BKNoSuchEntryException,
    Code.UNAUTHORIZED: BKUnauthorizedAccessException,
    Code.FENCED: BKLedgerFencedException,
    Code.READ_ONLY: BKWriteOnReadOnlyBookieException,
}

_MEANINGS: dict[int, str] = {
    Code.NO_LEDGER: "it stores nothing of that ledger",
    Code.NO_ENTRY: "it does not have that entry",
    Code.UNAUTHORIZED: "the ledger's password is another one",
    Code.FENCED: "the ledger is fenced: another client recovers it",
    Code.READ_ONLY: "it takes no writes at present",
}


def error_of(answer: Answer, bookie: str) -> BKException:
    """The exception that an answer other than OK means to the client.

    In BookKeeper: `proto/CompletionValue.java`.
    """
    adding = answer.opcode == Opcode.ADD
    # An unknown code proves nothing, so it must not become "no such entry".
    kind = _EXCEPTIONS.get(answer.code, BKWriteException if adding else BKReadException)
    meaning = _MEANINGS.get(answer.code, f"it failed with code {answer.code}")
    verb = "add" if adding else "read"
    return kind(
        f"{bookie} did not {verb} entry {answer.entry_id} of ledger {answer.ledger_id}: {meaning}"
    )
