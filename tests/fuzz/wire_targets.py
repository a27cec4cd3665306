"""Fuzz the decoders of network data, namely of frames, requests, responses and traces."""

import asyncio
import json
import struct
from collections.abc import Callable, Sequence

from labkit.system.model import wire_v3
from labkit.system.model.availability import (
    availability_of,
    decode_availability,
    encode_availability,
)
from labkit.system.model.batch_read import (
    encode_batch_read,
    find_batch_entries,
)
from labkit.system.model.entry import DigestType, Entry, decode_entry, encode_entry, make_digest
from labkit.system.model.errors import LabkitError
from labkit.system.model.message_id import MessageId
from labkit.system.model.proto import bookkeeper_protocol_pb2 as pb
from labkit.system.model.wire import (
    RESPONSE,
    BatchReadRequest,
    Code,
    Flag,
    Opcode,
    decode_requests,
    decode_responses,
    encode_add,
    encode_read,
    encode_response,
)
from labkit.system.trace.events import unnumbered_event
from labkit.worlds.live.net import split_frames
from labkit.worlds.live.trace_stream import decode_rows
from labkit.worlds.sim.settings.bookie_script import MASTER_KEY, PASSWORD, entry_bytes
from tests.batch_answers import batch_answer
from tests.fuzz.harness import Target
from tests.fuzz.receiving import receive_in_pieces

ENTRY = entry_bytes(5, 3, 20)
BATCH = BatchReadRequest(5, 0, 1, 10, 10_000)
REQUESTS = (
    encode_add(MASTER_KEY, ENTRY),
    encode_add(MASTER_KEY, entry_bytes(5, 4, 20), Flag.RECOVERY_ADD),
    encode_read(5, 3),
    encode_read(5, -1, MASTER_KEY, Flag.HIGH_PRIORITY),
    encode_batch_read(BATCH),
)
ANSWERS = (
    encode_response(Opcode.ADD, Code.OK, 5, 3),
    encode_response(Opcode.READ, Code.OK, 5, 3, ENTRY),
    encode_response(Opcode.READ, Code.NO_ENTRY, 5, 9),
)
ROWS = [
    unnumbered_event(1, "b0", "node.started"),
    unnumbered_event(2, "b0", "memtable.put", 5, 3),
]
GARBLED = (LabkitError, ValueError)
"""Input of another protocol raises ValueError, which closes the connection."""


def framed(bodies: Sequence[bytes]) -> bytes:
    """Encode the bodies as consecutive frames."""
    return b"".join(len(body).to_bytes(4, "big") + body for body in bodies)


def _several(decode: Callable[[Sequence[bytes]], object]) -> Callable[[bytes], object]:
    """Return a decoder that splits its input into frames and decodes all bodies together."""
    return lambda data: decode(split_frames(data)[0])


def _in_pieces(data: bytes) -> None:
    """Check that a stream yields the same frames, no matter how it is split or paused.

    The first 16 bytes of the input determine where the stream is split.
    """
    cuts, stream = data[:16], data[16:]
    expected, at, garbled = list[bytes](), 0, False
    try:
        while (found := split_frames(stream, at))[0]:
            expected += found[0]
            at = found[1]
    except ValueError:
        garbled = True
    got, is_closed = asyncio.run(receive_in_pieces(stream, cuts))
    assert got == expected
    assert is_closed == garbled


def _requests_3() -> tuple[bytes, ...]:
    add = pb.AddRequest(ledgerId=5, entryId=3, masterKey=MASTER_KEY, body=ENTRY)
    read = pb.ReadRequest(ledgerId=5, entryId=3, masterKey=MASTER_KEY)
    lac = pb.WriteLacRequest(ledgerId=5, lac=2, masterKey=MASTER_KEY, body=bytes(20))
    return (
        wire_v3.encode_request(pb.ADD_ENTRY, 1, add),
        wire_v3.encode_request(pb.READ_ENTRY, 2, read),
        wire_v3.encode_request(pb.WRITE_LAC, 3, lac),
        wire_v3.encode_request(pb.READ_LAC, 4, pb.ReadLacRequest(ledgerId=5)),
    )


def _request_3(data: bytes) -> None:
    request = wire_v3.decode_request(data)
    if wire_v3.is_valid(request):
        wire_v3.encode_response(request.header, pb.EOK, wire_v3.response_to(request, pb.EOK))
    else:
        wire_v3.encode_response(request.header, pb.EBADREQ)


def responses_3() -> tuple[bytes, ...]:
    """Return a response of each kind."""
    requests = [wire_v3.decode_request(body) for body in _requests_3()]
    return tuple(
        wire_v3.encode_response(r.header, pb.EOK, wire_v3.response_to(r, pb.EOK)) for r in requests
    )


def _response_3(data: bytes) -> None:
    wire_v3.error_of(wire_v3.decode_response(data), "b0")


def _entry_of(digest_type: DigestType) -> Target:
    digest = make_digest(digest_type, PASSWORD)
    packed = encode_entry(Entry(5, 3, 2, 80, b"a payload"), digest)
    name = f"entry with {digest_type.name}"
    return Target(name, lambda data: decode_entry(data, digest, 5, 3), (packed,))


WIRE_TARGETS = (
    Target("frames", split_frames, (framed(REQUESTS),), GARBLED),
    Target("frames in pieces", _in_pieces, (bytes(range(16)) + framed(REQUESTS) * 20,)),
    Target("requests", _several(decode_requests), (framed(REQUESTS),), GARBLED),
    Target("answers", _several(decode_responses), (framed(ANSWERS),), (*GARBLED, struct.error)),
    Target(
        "batch read's answer",
        find_batch_entries,
        (batch_answer(BATCH, Code.OK, [ENTRY, ENTRY])[RESPONSE.size :],),
    ),
    Target("version 3 request", _request_3, _requests_3(), GARBLED),
    Target("version 3 response", _response_3, responses_3(), GARBLED),
    Target(
        "availability",
        decode_availability,
        (encode_availability(availability_of((0, 1, 2, 6, 9, 12))),),
        GARBLED,
    ),
    *map(_entry_of, DigestType),
    Target(
        "message id",
        lambda data: MessageId.parse(data.decode(errors="surrogateescape")),
        (b"7:0:-1:-1", b"123456:99:3:12"),
    ),
    Target("trace stream", decode_rows, (json.dumps(ROWS).encode() + b"\n",)),
)
