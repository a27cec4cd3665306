import struct

import pytest
from google.protobuf.message import Message
from hypothesis import given
from hypothesis import strategies as st

from labkit.system.model.entry import (
    MAX_ENTRY_ID,
    DigestType,
    Entry,
    encode_entry,
    encode_explicit_lac,
    make_digest,
    make_master_key,
)
from labkit.system.model.errors import PROVES_ABSENCE
from labkit.system.model.proto import bookkeeper_protocol_pb2 as pb
from labkit.system.model.wire import AUTH_DISABLED, encode_add, encode_read
from labkit.system.model.wire_v3 import (
    HIGH_PRIORITY,
    STATUSES,
    decode_request,
    decode_response,
    encode_request,
    encode_response,
    error_of,
    is_flagged,
    is_valid,
    is_version_3,
    response_to,
)

KEY = make_master_key(b"")
KEY_HEX = KEY.hex()
DIGEST = make_digest(DigestType.CRC32C, b"")
ENTRY = encode_entry(Entry(7, 0, -1, 5, b"hello"), DIGEST)
ENTRY_HEX = "00000000000000070000000000000000ffffffffffffffff00000000000000059e3e717b68656c6c6f"
LAC = encode_explicit_lac(7, 2, DIGEST)

ADD = pb.AddRequest(ledgerId=7, entryId=0, masterKey=KEY, body=ENTRY)
RECOVERY_ADD = pb.AddRequest(
    ledgerId=7, entryId=0, masterKey=KEY, body=ENTRY, flag=pb.AddRequest.RECOVERY_ADD
)
FENCING_READ = pb.ReadRequest(
    ledgerId=7, entryId=-1, masterKey=KEY, flag=pb.ReadRequest.FENCE_LEDGER
)
LONG_POLL = pb.ReadRequest(
    ledgerId=7,
    entryId=-1,
    previousLAC=2,
    timeOut=1000,
    flag=pb.ReadRequest.ENTRY_PIGGYBACK,
)

REQUESTS: list[tuple[pb.OperationType, Message]] = [
    (pb.ADD_ENTRY, ADD),
    (pb.READ_ENTRY, pb.ReadRequest(ledgerId=7, entryId=0)),
    (pb.READ_ENTRY, FENCING_READ),
    (pb.READ_ENTRY, LONG_POLL),
    (pb.FORCE_LEDGER, pb.ForceLedgerRequest(ledgerId=7)),
    (pb.WRITE_LAC, pb.WriteLacRequest(ledgerId=7, lac=2, masterKey=KEY, body=LAC)),
    (pb.READ_LAC, pb.ReadLacRequest(ledgerId=7)),
    (pb.GET_BOOKIE_INFO, pb.GetBookieInfoRequest(requested=3)),
    (pb.GET_LIST_OF_ENTRIES_OF_LEDGER, pb.GetListOfEntriesOfLedgerRequest(ledgerId=7)),
]
WITHOUT_STATUS: list[tuple[pb.OperationType, Message]] = [
    (pb.AUTH, pb.AuthMessage(authPluginName=AUTH_DISABLED, payload=b"")),
    (pb.START_TLS, pb.StartTLSRequest()),
]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            encode_request(pb.ADD_ENTRY, 1, ADD),
            f"0a06080310021801aa0645080710001a14{KEY_HEX}2229{ENTRY_HEX}",
        ),
        (
            encode_request(pb.ADD_ENTRY, 2, RECOVERY_ADD, HIGH_PRIORITY),
            f"0a080803100218022064aa0648080710001a14{KEY_HEX}2229{ENTRY_HEX}a00601",
        ),
        (
            encode_request(pb.READ_ENTRY, 3, FENCING_READ),
            f"0a06080310011803a20626080710ffffffffffffffffff011a14{KEY_HEX}a00601",
        ),
        (
            encode_request(pb.READ_LAC, 4, pb.ReadLacRequest(ledgerId=7)),
            "0a06080310071804c206020807",
        ),
    ],
    ids=["add", "recovery add", "fencing read of the last", "read the LAC"],
)
def test_request_has_bookkeepers_bytes(body: bytes, expected: str) -> None:
    assert body.hex() == expected
    assert is_version_3(body)
    assert is_valid(decode_request(body))


@pytest.mark.parametrize(("operation", "part"), REQUESTS + WITHOUT_STATUS)
def test_request_comes_back_as_it_was_encoded(operation: pb.OperationType, part: Message) -> None:
    request = decode_request(encode_request(operation, 2**63, part, HIGH_PRIORITY))
    header = request.header
    assert (header.version, header.operation) == (pb.VERSION_THREE, operation)
    assert (header.txnId, header.priority) == (2**63, HIGH_PRIORITY)
    assert is_valid(request)
    assert [value for _, value in request.ListFields()][1:] == [part]


@pytest.mark.parametrize(("operation", "part"), REQUESTS)
def test_response_has_number_and_ids_of_its_request(
    operation: pb.OperationType, part: Message
) -> None:
    request = decode_request(encode_request(operation, 5, part, HIGH_PRIORITY))
    answer = response_to(request, pb.EIO)
    response = decode_response(encode_response(request.header, pb.EIO, answer))
    expected = pb.BKPacketHeader(version=pb.VERSION_THREE, operation=operation, txnId=5)
    assert response.header == expected
    assert response.status == pb.EIO
    for name in ("ledgerId", "entryId"):
        if hasattr(answer, name):
            assert getattr(answer, name) == getattr(part, name)


def test_requests_of_version_2_are_not_taken_for_version_3() -> None:
    assert not is_version_3(encode_add(KEY, ENTRY))
    assert not is_version_3(encode_read(7, 0))
    assert not is_version_3(b"")


@given(request=st.sampled_from(REQUESTS), data=st.data())
def test_a_damaged_request_is_a_request_or_a_value_error(
    request: tuple[pb.OperationType, Message], data: st.DataObject
) -> None:
    body = bytearray(encode_request(request[0], 1, request[1]))
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] = data.draw(st.integers(0, 255))
    cut = bytes(body[: data.draw(st.integers(0, len(body)))])
    try:
        decoded = decode_request(cut)
    except ValueError:
        return
    if is_valid(decoded) and decoded.header.operation == pb.ADD_ENTRY:
        ids = struct.unpack_from(">qq", decoded.addRequest.body)
        assert ids == (decoded.addRequest.ledgerId, decoded.addRequest.entryId)


@pytest.mark.parametrize(
    ("operation", "part"),
    [
        (pb.RANGE_ADD_ENTRY, None),
        (pb.BATCH_READ_ENTRY, None),
        (pb.ADD_ENTRY, None),
        (pb.READ_ENTRY, None),
        (pb.ADD_ENTRY, pb.ReadRequest(ledgerId=7, entryId=0)),
    ],
)
def test_operation_without_its_part_is_impossible(
    operation: pb.OperationType, part: pb.ReadRequest | None
) -> None:
    header = pb.BKPacketHeader(version=pb.VERSION_THREE, operation=operation, txnId=1)
    assert not is_valid(pb.Request(header=header, readRequest=part))


def entry(ledger_id: int, entry_id: int) -> bytes:
    return struct.pack(">qqqq", ledger_id, entry_id, -1, 0)


IMPOSSIBLE: list[tuple[pb.OperationType, Message]] = [
    (pb.ADD_ENTRY, pb.AddRequest(ledgerId=7, entryId=0, masterKey=KEY, body=ENTRY[:31])),
    (pb.ADD_ENTRY, pb.AddRequest(ledgerId=7, entryId=0, masterKey=KEY[1:], body=ENTRY)),
    (pb.ADD_ENTRY, pb.AddRequest(ledgerId=7, entryId=1, masterKey=KEY, body=ENTRY)),
    (pb.ADD_ENTRY, pb.AddRequest(ledgerId=8, entryId=0, masterKey=KEY, body=ENTRY)),
    *(
        (pb.ADD_ENTRY, pb.AddRequest(ledgerId=a, entryId=b, masterKey=KEY, body=entry(a, b)))
        for a, b in ((-1, 0), (5, -1), (5, -0x1000), (5, MAX_ENTRY_ID + 1))
    ),
    (pb.READ_ENTRY, pb.ReadRequest(ledgerId=-1, entryId=0)),
    (pb.READ_ENTRY, pb.ReadRequest(ledgerId=7, entryId=-2)),
    (pb.READ_ENTRY, pb.ReadRequest(ledgerId=7, entryId=-1, flag=pb.ReadRequest.ENTRY_PIGGYBACK)),
    (
        pb.READ_ENTRY,
        pb.ReadRequest(ledgerId=7, entryId=3, previousLAC=2, flag=pb.ReadRequest.ENTRY_PIGGYBACK),
    ),
    (
        pb.READ_ENTRY,
        pb.ReadRequest(ledgerId=7, entryId=-1, previousLAC=-2, flag=pb.ReadRequest.ENTRY_PIGGYBACK),
    ),
    (pb.WRITE_LAC, pb.WriteLacRequest(ledgerId=7, lac=2, masterKey=KEY, body=LAC[:15])),
    (pb.WRITE_LAC, pb.WriteLacRequest(ledgerId=7, lac=2, masterKey=KEY, body=LAC + bytes(17))),
    (pb.WRITE_LAC, pb.WriteLacRequest(ledgerId=7, lac=3, masterKey=KEY, body=LAC)),
    (pb.WRITE_LAC, pb.WriteLacRequest(ledgerId=8, lac=2, masterKey=KEY, body=LAC)),
    (pb.WRITE_LAC, pb.WriteLacRequest(ledgerId=7, lac=2, masterKey=b"", body=LAC)),
    (pb.READ_LAC, pb.ReadLacRequest(ledgerId=-1)),
    (pb.FORCE_LEDGER, pb.ForceLedgerRequest(ledgerId=-1)),
    (pb.GET_LIST_OF_ENTRIES_OF_LEDGER, pb.GetListOfEntriesOfLedgerRequest(ledgerId=-1)),
]


@pytest.mark.parametrize(("operation", "part"), IMPOSSIBLE)
def test_request_for_what_cannot_exist_is_impossible(
    operation: pb.OperationType, part: Message
) -> None:
    assert not is_valid(decode_request(encode_request(operation, 1, part)))


def test_a_request_without_a_flag_has_none() -> None:
    """For a missing flag, protobuf returns the first value of the enumeration."""
    assert not is_flagged(ADD, pb.AddRequest.RECOVERY_ADD)
    assert is_flagged(RECOVERY_ADD, pb.AddRequest.RECOVERY_ADD)


@pytest.mark.parametrize(("operation", "part"), REQUESTS)
@pytest.mark.parametrize("status", [status for status in STATUSES.values() if status != pb.EOK])
def test_every_failure_is_an_exception_that_names_bookie_operation_and_status(
    operation: pb.OperationType, part: Message, status: pb.StatusCode
) -> None:
    request = decode_request(encode_request(operation, 1, part))
    answer = response_to(request, status)
    for body in (
        encode_response(request.header, status, answer),
        encode_response(request.header, status),
        encode_response(request.header, pb.EOK, answer),
    ):
        error = error_of(decode_response(body), "b1")
        words = "b1", pb.OperationType.Name(operation), pb.StatusCode.Name(status)
        assert error is not None
        assert all(word in str(error) for word in words)


@pytest.mark.parametrize(("operation", "part"), WITHOUT_STATUS)
def test_a_response_may_have_no_status_but_the_messages(
    operation: pb.OperationType, part: Message
) -> None:
    header = decode_request(encode_request(operation, 1, part)).header
    assert error_of(decode_response(encode_response(header, pb.EOK)), "b1") is None
    error = error_of(decode_response(encode_response(header, pb.EBADREQ)), "b1")
    assert error is not None
    assert "EBADREQ" in str(error)


def test_a_successful_response_is_not_an_error() -> None:
    request = decode_request(encode_request(pb.ADD_ENTRY, 1, ADD))
    body = encode_response(request.header, pb.EOK, response_to(request, pb.EOK))
    assert error_of(decode_response(body), "b1") is None


@pytest.mark.parametrize(
    ("status", "proves_absence"),
    [
        (pb.ENOLEDGER, True),
        (pb.ENOENTRY, True),
        (pb.EUA, False),
        (pb.EFENCED, False),
        (pb.EREADONLY, False),
        (pb.EBADREQ, False),
        (pb.EIO, False),
        (pb.EBADVERSION, False),
        (pb.ETOOMANYREQUESTS, False),
        (pb.EUNKNOWNLEDGERSTATE, False),
    ],
)
@pytest.mark.parametrize("operation", [pb.ADD_ENTRY, pb.READ_ENTRY])
def test_only_a_bookie_that_looked_proves_that_the_entry_is_not_there(
    operation: pb.OperationType, status: pb.StatusCode, proves_absence: bool
) -> None:
    header = pb.BKPacketHeader(version=pb.VERSION_THREE, operation=operation, txnId=1)
    error = error_of(decode_response(encode_response(header, status)), "b1")
    assert error is not None
    assert isinstance(error, PROVES_ABSENCE) is proves_absence
