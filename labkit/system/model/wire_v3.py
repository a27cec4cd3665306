"""BookKeeper's wire protocol, version 3: the bodies of frames are protobuf messages.

Clients match responses to requests by `txnId` instead of by ledger and entry ids. Version 3 also
supports adds that are acknowledged before they are synced, and a request to sync them. It also adds
reads that wait for the next entry, explicit LACs, and queries about a bookie.

In BookKeeper: `BookkeeperProtocol.proto`, `proto/BookieProtoEncoding.java` (RequestEnDecoderV3).
"""

from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from labkit.system.model.entry import ENTRY_HEADER, LAC_HEADER, MAX_ENTRY_ID, NO_ENTRY_ID
from labkit.system.model.errors import BKException, BKReadException, BKWriteException
from labkit.system.model.proto import bookkeeper_protocol_pb2 as pb
from labkit.system.model.wire import EXCEPTIONS, MASTER_KEY_SIZE, Code

M = TypeVar("M", pb.Request, pb.Response)

HIGH_PRIORITY = 100
"""The `priority` of requests sent by a recovery. A bookie treats any value above 0 as high."""
DEFERRED_SYNC = 1
"""The bit of `writeFlags` that requests a response before the sync."""

STATUSES = {
    Code.OK: pb.EOK,
    Code.NO_LEDGER: pb.ENOLEDGER,
    Code.NO_ENTRY: pb.ENOENTRY,
    Code.BAD_REQUEST: pb.EBADREQ,
    Code.IO_ERROR: pb.EIO,
    Code.UNAUTHORIZED: pb.EUA,
    Code.BAD_VERSION: pb.EBADVERSION,
    Code.FENCED: pb.EFENCED,
    Code.READ_ONLY: pb.EREADONLY,
}
"""Maps result codes to the status codes of version 3."""

_LARGEST_DIGEST_SIZE = 20

_PARTS: dict[int, tuple[str, type[Message]]] = {
    pb.READ_ENTRY: ("read", pb.ReadResponse),
    pb.ADD_ENTRY: ("add", pb.AddResponse),
    pb.AUTH: ("auth", pb.AuthMessage),
    pb.WRITE_LAC: ("writeLac", pb.WriteLacResponse),
    pb.READ_LAC: ("readLac", pb.ReadLacResponse),
    pb.GET_BOOKIE_INFO: ("getBookieInfo", pb.GetBookieInfoResponse),
    pb.START_TLS: ("startTLS", pb.StartTLSResponse),
    pb.FORCE_LEDGER: ("forceLedger", pb.ForceLedgerResponse),
    pb.GET_LIST_OF_ENTRIES_OF_LEDGER: (
        "getListOfEntriesOfLedger",
        pb.GetListOfEntriesOfLedgerResponse,
    ),
}
"""The prefix of each operation's fields (`addRequest`, `addResponse`), and the response's type."""


def encode_request(
    operation: pb.OperationType, txn_id: int, part: Message, priority: int = 0
) -> bytes:
    """Encode a request. `part` is the message of the operation, such as an `AddRequest`."""
    request = pb.Request()
    header = request.header
    header.version, header.operation, header.txnId = pb.VERSION_THREE, operation, txn_id
    if priority:
        header.priority = priority
    getattr(request, f"{_PARTS[operation][0]}Request").CopyFrom(part)
    return request.SerializeToString()


def encode_response(
    asked: pb.BKPacketHeader, status: pb.StatusCode, part: Message | None = None
) -> bytes:
    """Encode a response to the request with the header `asked`. Without a `part`, the response
    contains only a status.
    """
    response = pb.Response(status=status)
    header = response.header
    header.version, header.operation = pb.VERSION_THREE, asked.operation
    header.txnId = asked.txnId
    if part is not None:
        getattr(response, f"{_PARTS[asked.operation][0]}Response").CopyFrom(part)
    return response.SerializeToString()


def response_to(request: pb.Request, status: pb.StatusCode) -> Message:
    """Return the operation's part of a response, with this status and with the ids from the
    request.

    Do not call this for AUTH and START_TLS, whose parts have no status.
    """
    name, kind = _PARTS[request.header.operation]
    asked, part = getattr(request, f"{name}Request"), kind(status=status)
    for field in ("ledgerId", "entryId"):
        if field in part.DESCRIPTOR.fields_by_name:
            setattr(part, field, getattr(asked, field))
    return part


def decode_request(body: bytes) -> pb.Request:
    """Decode a request. Raises `ValueError` if the bytes are not a request of version 3."""
    return _parsed(pb.Request(), body)


def decode_response(body: bytes) -> pb.Response:
    """Decode a response. Raises `ValueError` if the bytes are not a response of version 3."""
    return _parsed(pb.Response(), body)


def _parsed(message: M, body: bytes) -> M:
    kind = message.DESCRIPTOR.name
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise ValueError(f"not a {kind} of protocol version 3: {error}") from None
    if not message.IsInitialized():
        raise ValueError(f"not a {kind} of protocol version 3: a required field is missing")
    return message


def is_version_3(body: bytes) -> bool:
    """Return whether the body is a request of version 3.

    A body of version 2 starts with a byte from 0 to 2, which no protobuf message does.
    """
    try:
        decode_request(body)
    except ValueError:
        return False
    return True


def is_valid(request: pb.Request) -> bool:
    """Return whether the request contains the part for its operation, with valid values."""
    operation = request.header.operation
    if operation not in _PARTS:
        return False
    name = f"{_PARTS[operation][0]}Request"
    if name not in (field.name for field, _ in request.ListFields()):
        return False
    if operation == pb.ADD_ENTRY:
        return _is_valid_add(request.addRequest)
    if operation == pb.READ_ENTRY:
        return _is_valid_read(request.readRequest)
    if operation == pb.WRITE_LAC:
        return _is_valid_lac(request.writeLacRequest)
    ledger_id: int = getattr(getattr(request, name), "ledgerId", 0)
    return ledger_id >= 0


def _is_valid_add(add: pb.AddRequest) -> bool:
    """Return whether the ids match those in the entry and are small enough to be indexed."""
    if len(add.body) < ENTRY_HEADER.size or len(add.masterKey) != MASTER_KEY_SIZE:
        return False
    ledger_id, entry_id, _, _ = ENTRY_HEADER.struct.unpack_from(add.body)
    in_range = ledger_id >= 0 and 0 <= entry_id <= MAX_ENTRY_ID
    return in_range and (ledger_id, entry_id) == (add.ledgerId, add.entryId)


def _is_valid_read(read: pb.ReadRequest) -> bool:
    """Return whether the ids are in range. A request for a piggybacked entry must also contain the
    client's LastAddConfirmed.
    """
    if read.ledgerId < 0 or read.entryId < NO_ENTRY_ID:
        return False
    if is_flagged(read, pb.ReadRequest.ENTRY_PIGGYBACK):
        knows = read.HasField("previousLAC") and read.previousLAC >= NO_ENTRY_ID
        return knows and read.entryId == NO_ENTRY_ID
    return True


def _is_valid_lac(write: pb.WriteLacRequest) -> bool:
    """Return whether the ids match those in the body and the digest is not too large to store."""
    size = len(write.body) - LAC_HEADER.size
    if not 0 <= size <= _LARGEST_DIGEST_SIZE or len(write.masterKey) != MASTER_KEY_SIZE:
        return False
    ids = LAC_HEADER.struct.unpack_from(write.body)
    return write.ledgerId >= 0 and ids == (write.ledgerId, write.lac)


def is_flagged(part: pb.ReadRequest | pb.AddRequest, flag: int) -> bool:
    return part.HasField("flag") and part.flag == flag


_EXCEPTIONS = {STATUSES[Code(code)]: kind for code, kind in EXCEPTIONS.items()}
_WRITES = (pb.ADD_ENTRY, pb.WRITE_LAC, pb.FORCE_LEDGER)


def error_of(response: pb.Response, bookie: str) -> BKException | None:
    """Return the exception for a response, or None if the request succeeded.

    In BookKeeper: `proto/CompletionValue.java`.
    """
    operation, status = response.header.operation, response.status
    name, _ = _PARTS.get(operation, ("", None))
    if status == pb.EOK and name:
        status = getattr(getattr(response, f"{name}Response"), "status", pb.EOK)
    if status == pb.EOK:
        return None
    kind = _EXCEPTIONS.get(status, BKWriteException if operation in _WRITES else BKReadException)
    asked, why = pb.OperationType.Name(operation), pb.StatusCode.Name(status)
    return kind(f"{bookie} responded to {asked} with {why}")
