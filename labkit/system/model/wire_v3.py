"""BookKeeper's wire protocol, version 3: the bodies of frames are protobuf messages.

Version 2 knows adds and reads.  Version 3 numbers its requests (`txnId`), so answers need no ids to
be matched by, and it can do more: adds that are acknowledged before the sync and the call that
syncs them, reads that wait for the next entry, the explicit LAC, and questions about a bookie.

Rule: bytes give a whole message or `ValueError`; none is ever half understood.

In BookKeeper: `BookkeeperProtocol.proto`, `proto/BookieProtoEncoding.java` (RequestEnDecoderV3).
"""

from google.protobuf.message import DecodeError, Message

from labkit.system.model.entry import ENTRY_HEADER, LAC_HEADER, MAX_ENTRY_ID, NO_ENTRY_ID
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
from labkit.system.model.proto import bookkeeper_protocol_pb2 as pb
from labkit.system.model.wire import MASTER_KEY_SIZE, Code

HIGH_PRIORITY = 100
"""A header's `priority` for recovery; anything above 0 counts."""
DEFERRED_SYNC = 1
"""The bit of `writeFlags` that asks for an answer before the sync."""

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
"""Version 3's numbers for how a request went."""

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
"""Where in a message an operation's part is (`addRequest`, `addResponse`), and an answer's type."""


def encode_request(
    operation: pb.OperationType, txn_id: int, part: Message, priority: int = 0
) -> bytes:
    """Body of a request: `part` is what the operation needs, as an `AddRequest`."""
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
    """Body of the answer to the request with the header `asked`.

    A request that nothing can be said about gets a status and no part.
    """
    response = pb.Response(status=status)
    header = response.header
    header.version, header.operation = pb.VERSION_THREE, asked.operation
    header.txnId = asked.txnId
    if part is not None:
        getattr(response, f"{_PARTS[asked.operation][0]}Response").CopyFrom(part)
    return response.SerializeToString()


def answer_to(request: pb.Request, status: pb.StatusCode) -> Message:
    """The part of an answer: the status, and the ids of the request.  Not for AUTH and START_TLS:
    their answers have no status but the message's.
    """
    name, kind = _PARTS[request.header.operation]
    asked, part = getattr(request, f"{name}Request"), kind(status=status)
    for field in ("ledgerId", "entryId"):
        if field in part.DESCRIPTOR.fields_by_name:
            setattr(part, field, getattr(asked, field))
    return part


def decode_request(body: bytes) -> pb.Request:
    """A request.  Raises `ValueError` for anything else, a request of version 2 included."""
    request = pb.Request()
    _parse(request, body)
    return request


def decode_response(body: bytes) -> pb.Response:
    """An answer.  Raises `ValueError` for anything else."""
    response = pb.Response()
    _parse(response, body)
    return response


def _parse(message: pb.Request | pb.Response, body: bytes) -> None:
    kind = message.DESCRIPTOR.name
    try:
        message.ParseFromString(body)
    except DecodeError as error:
        raise ValueError(f"not a {kind} of protocol version 3: {error}") from None
    if not message.IsInitialized():
        raise ValueError(f"not a {kind} of protocol version 3: a required field is missing")


def is_version_3(body: bytes) -> bool:
    """Whether a connection that begins with this body speaks version 3.

    A body of version 2 begins with the byte 2, which begins no protobuf message.
    """
    try:
        decode_request(body)
    except ValueError:
        return False
    return True


def is_possible(request: pb.Request) -> bool:
    """Whether the operation's part is there and names things that can exist."""
    operation = request.header.operation
    if operation not in _PARTS:
        return False
    name = f"{_PARTS[operation][0]}Request"
    if name not in (field.name for field, _ in request.ListFields()):
        return False
    if operation == pb.ADD_ENTRY:
        return _is_possible_add(request.addRequest)
    if operation == pb.READ_ENTRY:
        return _is_possible_read(request.readRequest)
    if operation == pb.WRITE_LAC:
        return _is_possible_lac(request.writeLacRequest)
    ledger_id: int = getattr(getattr(request, name), "ledgerId", 0)
    return ledger_id >= 0


def _is_possible_add(add: pb.AddRequest) -> bool:
    """The ids of the request are those in the entry, and an index has room for them."""
    if len(add.body) < ENTRY_HEADER.size or len(add.masterKey) != MASTER_KEY_SIZE:
        return False
    ledger_id, entry_id, _, _ = ENTRY_HEADER.struct.unpack_from(add.body)
    in_range = ledger_id >= 0 and 0 <= entry_id <= MAX_ENTRY_ID
    return in_range and (ledger_id, entry_id) == (add.ledgerId, add.entryId)


def _is_possible_read(read: pb.ReadRequest) -> bool:
    """Ids in range, and a piggybacked entry asked for only with the LastAddConfirmed known."""
    if read.ledgerId < 0 or read.entryId < NO_ENTRY_ID:
        return False
    if is_flagged(read, pb.ReadRequest.ENTRY_PIGGYBACK):
        knows = read.HasField("previousLAC") and read.previousLAC >= NO_ENTRY_ID
        return knows and read.entryId == NO_ENTRY_ID
    return True


def _is_possible_lac(write: pb.WriteLacRequest) -> bool:
    """An index has room for the largest digest and no more."""
    size = len(write.body) - LAC_HEADER.size
    if not 0 <= size <= _LARGEST_DIGEST_SIZE or len(write.masterKey) != MASTER_KEY_SIZE:
        return False
    ids = LAC_HEADER.struct.unpack_from(write.body)
    return write.ledgerId >= 0 and ids == (write.ledgerId, write.lac)


def is_flagged(part: pb.ReadRequest | pb.AddRequest, flag: int) -> bool:
    """Whether the request has that flag; a request has one at most."""
    return part.HasField("flag") and part.flag == flag


_EXCEPTIONS: dict[int, type[BKException]] = {
    pb.ENOLEDGER: BKNoSuchLedgerExistsException,
    pb.ENOENTRY: BKNoSuchEntryException,
    pb.EUA: BKUnauthorizedAccessException,
    pb.EFENCED: BKLedgerFencedException,
    pb.EREADONLY: BKWriteOnReadOnlyBookieException,
}
_WRITES = (pb.ADD_ENTRY, pb.WRITE_LAC, pb.FORCE_LEDGER)


def error_of(response: pb.Response, bookie: str) -> BKException | None:
    """The exception that an answer means to the client; None if it was done.

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
    return kind(f"{bookie} answered {asked} with {why}")
