import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.system.model.entry import (
    MAX_ENTRY_ID,
    DigestType,
    Entry,
    encode_entry,
    make_digest,
    make_master_key,
)
from labkit.system.model.errors import PROVES_ABSENCE, BKException
from labkit.system.model.wire import (
    AddBatch,
    BadRequest,
    Code,
    Flag,
    Opcode,
    ReadRequest,
    Request,
    Response,
    decode_requests,
    decode_responses,
    encode_add,
    encode_bad_request,
    encode_read,
    encode_response,
    error_of,
    packet_header,
)

KEY = make_master_key(b"")
KEY_HEX = KEY.hex()
ENTRY = encode_entry(Entry(7, 0, -1, 5, b"hello"), make_digest(DigestType.CRC32C, b""))
ENTRY_HEX = "00000000000000070000000000000000ffffffffffffffff00000000000000059e3e717b68656c6c6f"
L7, E0, LAST = "0000000000000007", "0000000000000000", "ffffffffffffffff"
RECOVERY_ADD = Flag.RECOVERY_ADD | Flag.HIGH_PRIORITY

REQUESTS = [
    (encode_add(KEY, ENTRY), "02010000" + KEY_HEX + ENTRY_HEX, AddBatch(0, KEY, [7], [0], [ENTRY])),
    (
        encode_add(KEY, ENTRY, RECOVERY_ADD),
        "02010006" + KEY_HEX + ENTRY_HEX,
        AddBatch(6, KEY, [7], [0], [ENTRY]),
    ),
    (encode_read(7, 0), "02020000" + L7 + E0, ReadRequest(7, 0, 0, b"")),
    (encode_read(7, -1, KEY), "02020001" + L7 + LAST + KEY_HEX, ReadRequest(7, -1, 1, KEY)),
    (
        encode_read(7, 0, KEY, Flag.HIGH_PRIORITY),
        "02020005" + L7 + E0 + KEY_HEX,
        ReadRequest(7, 0, 5, KEY),
    ),
]
REQUEST_NAMES = ["add", "recovery add", "read", "fencing read of the last", "recovery read"]

ANSWERS = [
    (Response(Opcode.ADD, Code.OK, 7, 0, b""), "0201000000000000" + L7 + E0),
    (Response(Opcode.ADD, Code.FENCED, 7, 0, b""), "0201000000000068" + L7 + E0),
    (Response(Opcode.READ, Code.OK, 7, -1, ENTRY), "0202000000000000" + L7 + LAST + ENTRY_HEX),
    (Response(Opcode.READ, Code.NO_ENTRY, 7, 1, b""), "0202000000000002" + L7 + "0000000000000001"),
]
ANSWER_NAMES = ["added", "fenced", "read of the last", "no such entry"]


@pytest.mark.parametrize(("body", "expected", "request_"), REQUESTS, ids=REQUEST_NAMES)
def test_request_has_bookkeepers_bytes(body: bytes, expected: str, request_: Request) -> None:
    assert body.hex() == expected
    assert decode_requests([body]) == [request_]


@pytest.mark.parametrize(("answer", "expected"), ANSWERS, ids=ANSWER_NAMES)
def test_response_has_bookkeepers_bytes(answer: Response, expected: str) -> None:
    opcode, code, ledger_id, entry_id, entry = answer
    body = encode_response(Opcode(opcode), Code(code), ledger_id, entry_id, entry)
    assert body.hex() == expected
    assert decode_responses([body]) == [answer]


def stored(ledger_id: int, entry_id: int) -> bytes:
    return struct.pack(">qqqq", ledger_id, entry_id, -1, 0) + b"payload %d" % entry_id


def test_requests_of_one_receive_keep_their_order() -> None:
    bodies = [encode_read(7, entry_id) for entry_id in (3, 1, 2)]
    assert decode_requests(bodies) == [ReadRequest(7, entry_id, 0, b"") for entry_id in (3, 1, 2)]


def test_adds_that_differ_in_their_entries_alone_are_one_batch() -> None:
    ids = [(7, 3), (8, 1), (7, 2), (7, 1)]
    entries = [stored(*each) for each in ids]
    found = decode_requests([encode_add(KEY, entry) for entry in entries])
    assert found == [AddBatch(0, KEY, [7, 8, 7, 7], [3, 1, 2, 1], entries)]


def test_a_batch_taken_apart_has_one_for_each_ledger_in_the_same_order() -> None:
    ids = [(7, 3), (8, 1), (7, 2), (8, 0)]
    entries = [stored(*each) for each in ids]
    (batch,) = decode_requests([encode_add(KEY, entry) for entry in entries])
    assert isinstance(batch, AddBatch)
    seven, eight = batch.by_ledger()
    assert seven == AddBatch(0, KEY, [7, 7], [3, 2], entries[0::2])
    assert eight == AddBatch(0, KEY, [8, 8], [1, 0], entries[1::2])
    assert seven.by_ledger() == [seven]


BARRIERS = {
    "a read": encode_read(7, 9, KEY),
    "a bad request": encode_add(KEY, stored(7, -1)),
    "an add cut short": encode_add(KEY, stored(7, 9))[:50],
}
OTHER_ADDS = {
    "another key": encode_add(bytes(20), stored(7, 9)),
    "other flags": encode_add(KEY, stored(7, 9), RECOVERY_ADD),
}


@pytest.mark.parametrize("barrier", BARRIERS.values(), ids=BARRIERS.keys())
def test_no_add_moves_past_a_request_of_another_kind(barrier: bytes) -> None:
    before, after = stored(7, 0), stored(7, 1)
    bodies = [encode_add(KEY, before), barrier, encode_add(KEY, after)]
    assert decode_requests(bodies) == [
        AddBatch(0, KEY, [7], [0], [before]),
        *decode_requests([barrier]),
        AddBatch(0, KEY, [7], [1], [after]),
    ]


@pytest.mark.parametrize("other", OTHER_ADDS.values(), ids=OTHER_ADDS.keys())
def test_adds_of_another_key_or_kind_are_a_separate_batch(other: bytes) -> None:
    first, second = stored(7, 0), stored(7, 1)
    bodies = [encode_add(KEY, first), other, encode_add(KEY, second), other]
    batch, (alone,) = AddBatch(0, KEY, [7, 7], [0, 1], [first, second]), decode_requests([other])
    assert isinstance(alone, AddBatch)
    flags, key, ledger_ids, entry_ids, entries = alone
    twice = AddBatch(flags, key, ledger_ids * 2, entry_ids * 2, entries * 2)
    assert decode_requests(bodies) == [batch, twice]


@given(st.lists(st.sampled_from([*OTHER_ADDS.values(), *(body for body, _, _ in REQUESTS)])))
def test_no_request_of_a_receive_is_lost_or_changed(bodies: list[bytes]) -> None:
    one_by_one = [request for body in bodies for request in decode_requests([body])]
    together = [alone for found in decode_requests(bodies) for alone in singly(found)]
    assert sorted(map(repr, together)) == sorted(map(repr, one_by_one))


@pytest.mark.parametrize("ids", [(-1, 0), (7, -1), (7, MAX_ENTRY_ID + 1)])
def test_an_add_without_possible_ids_leaves_the_rest_of_its_receive_alone(
    ids: tuple[int, int],
) -> None:
    entries = [stored(7, 0), stored(7, 1), struct.pack(">qq", *ids) + stored(7, 2)[16:]]
    bodies = [encode_add(KEY, entry) for entry in [*entries, *entries]]
    found = decode_requests(bodies)
    assert [type(request) for request in found] == [AddBatch, BadRequest] * 2


def test_adds_with_the_highest_possible_ids_are_adds_like_others() -> None:
    ids = [(7, 0), (2**63 - 1, MAX_ENTRY_ID), (0, MAX_ENTRY_ID), (2**63 - 1, 0)]
    entries = [struct.pack(">qqqq", *each, -1, 0) for each in ids]
    found = decode_requests([encode_add(KEY, entry) for entry in entries])
    assert found == [
        AddBatch(0, KEY, [each[0] for each in ids], [each[1] for each in ids], entries)
    ]


def singly(request: Request) -> list[Request]:
    if not isinstance(request, AddBatch):
        return [request]
    adds = zip(request.ledger_ids, request.entry_ids, request.entries, strict=True)
    return [
        AddBatch(request.flags, request.master_key, [ledger_id], [entry_id], [entry])
        for ledger_id, entry_id, entry in adds
    ]


def test_a_batch_gets_one_response_per_add() -> None:
    batch = AddBatch(0, KEY, [7, 8], [3, 1], [stored(7, 3), stored(8, 1)])
    assert decode_responses(batch.responses(Code.FENCED)) == [
        Response(Opcode.ADD, Code.FENCED, ledger_id, entry_id, b"")
        for ledger_id, entry_id in ((7, 3), (8, 1))
    ]


@given(head=st.sampled_from([0x02010000, 0x02020000, 0x02020001]), rest=st.binary(max_size=90))
def test_a_decoded_request_names_a_possible_entry(head: int, rest: bytes) -> None:
    (request,) = decode_requests([struct.pack(">i", head) + rest])
    if isinstance(request, AddBatch):
        assert 0 <= request.ledger_ids[0] < 2**63
        assert 0 <= request.entry_ids[0] <= MAX_ENTRY_ID
        assert len(request.entries[0]) >= 32
    elif isinstance(request, ReadRequest):
        assert request.ledger_id >= 0
        assert request.entry_id >= -1
    else:
        assert request == BadRequest(head, Code.BAD_REQUEST)


@pytest.mark.parametrize(("body", "expected", "request_"), REQUESTS[:3], ids=REQUEST_NAMES[:3])
def test_a_request_cut_short_is_a_bad_one(body: bytes, expected: str, request_: Request) -> None:
    smallest = 56 if isinstance(request_, AddBatch) else 20
    for size in range(smallest):
        (request,) = decode_requests([body[:size]])
        assert isinstance(request, BadRequest)
        assert request.code == Code.BAD_REQUEST
    assert not isinstance(decode_requests([body[:smallest]])[0], BadRequest)


@pytest.mark.parametrize(
    ("ledger_id", "entry_id"), [(-1, 0), (5, -1), (5, -0x1000), (5, MAX_ENTRY_ID + 1), (5, 2**62)]
)
def test_an_add_with_impossible_ids_is_a_bad_request(ledger_id: int, entry_id: int) -> None:
    entry = struct.pack(">qqqq", ledger_id, entry_id, -1, 0)
    assert decode_requests([encode_add(KEY, entry)]) == [BadRequest(0x02010000, Code.BAD_REQUEST)]


@pytest.mark.parametrize(("ledger_id", "entry_id"), [(-1, 0), (5, -2), (5, -0x2000)])
def test_a_read_with_impossible_ids_is_a_bad_request(ledger_id: int, entry_id: int) -> None:
    body = encode_read(ledger_id, entry_id)
    assert decode_requests([body]) == [BadRequest(0x02020000, Code.BAD_REQUEST)]


@pytest.mark.parametrize("version", [3, 10, 127, -1, -128])
def test_another_protocol_version_is_rejected_as_such(version: int) -> None:
    head = version << 24 | Opcode.READ << 16
    (request,) = decode_requests([struct.pack(">iqq", head, 7, 0)])
    assert request == BadRequest(head, Code.BAD_VERSION)
    (answer,) = decode_responses([encode_bad_request(request)])
    assert (answer.opcode, answer.code) == (Opcode.READ, Code.BAD_VERSION)


def test_an_unknown_opcode_is_a_bad_request() -> None:
    head = 2 << 24 | 7 << 16
    assert decode_requests([struct.pack(">iqq", head, 7, 0)]) == [
        BadRequest(head, Code.BAD_REQUEST)
    ]


def test_the_flags_of_a_response_are_zero() -> None:
    head = packet_header(Opcode.READ, Flag.FENCE)
    assert encode_bad_request(BadRequest(head, Code.BAD_REQUEST))[:4].hex() == "02020000"


@pytest.mark.parametrize("opcode", Opcode)
@pytest.mark.parametrize("code", [code for code in Code if code is not Code.OK])
def test_every_failure_is_an_exception_that_names_bookie_and_entry(
    opcode: Opcode, code: Code
) -> None:
    error = error_of(Response(opcode, code, 7, 3, b""), "b1")
    assert isinstance(error, BKException)
    assert all(part in str(error) for part in ("b1", "entry 3", "ledger 7"))


@pytest.mark.parametrize("code", [Code.BAD_REQUEST, Code.IO_ERROR, Code.BAD_VERSION, 106, 999])
@pytest.mark.parametrize("opcode", Opcode)
def test_a_failure_of_the_bookie_proves_nothing(opcode: Opcode, code: int) -> None:
    error = error_of(Response(opcode, code, 7, 3, b""), "b1")
    assert not isinstance(error, PROVES_ABSENCE)


@pytest.mark.parametrize("code", [Code.NO_LEDGER, Code.NO_ENTRY])
def test_a_bookie_that_looked_proves_that_the_entry_is_not_there(code: Code) -> None:
    error = error_of(Response(Opcode.READ, code, 7, 3, b""), "b1")
    assert isinstance(error, PROVES_ABSENCE)
