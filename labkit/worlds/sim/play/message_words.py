"""Describes the messages in flight in plain words."""

from typing import Any

from labkit.system.metadata.store import MetadataError
from labkit.system.model.wire import (
    AddBatch,
    BatchReadRequest,
    Code,
    Flag,
    Opcode,
    ReadRequest,
    Response,
    decode_requests,
    decode_responses,
)
from labkit.worlds.sim.machine.links import Parcel, Purpose

_LAST_ENTRY = -1
_VERSION_2 = 2
_REFUSALS: dict[int, str] = {
    Code.NO_LEDGER: "I do not know this ledger",
    Code.NO_ENTRY: "I do not have it",
    Code.FENCED: "refused, the ledger is fenced",
    Code.READ_ONLY: "refused, I am read-only",
}
_CONNECTION = {
    Purpose.CONNECT: "open a connection",
    Purpose.ACCEPT: "the connection is open",
    Purpose.REFUSE: "the connection is refused",
    Purpose.CLOSE: "the connection is closed",
}
_METADATA = {
    "get": "read {}",
    "exists": "does {} exist?",
    "children": "list {}",
    "create": "create {}",
    "create_child": "create {}",
    "set": "write {}",
    "delete": "delete {}",
}


def words_of(parcel: Parcel, *, to_server: bool) -> str:
    """Describe a message that does not begin a step. `to_server` is true if the receiver is a
    bookie or a broker.
    """
    if parcel.purpose is not Purpose.FRAMES:
        return _CONNECTION[parcel.purpose]
    return "; ".join(_body_words(body, to_server=to_server) for body in parcel.bodies)


def _body_words(body: Any, *, to_server: bool) -> str:
    if isinstance(body, tuple):
        return _metadata_words(body)
    if not isinstance(body, bytes) or body[0] != _VERSION_2:
        return "a request" if to_server else "a response"
    if to_server:
        (request,) = decode_requests([body])
        return _request_words(request)
    (response,) = decode_responses([body])
    return _response_words(response)


def _request_words(request: object) -> str:
    match request:
        case AddBatch(flags, _, _, [entry_id]):
            return f"{'write back' if flags & Flag.RECOVERY_ADD else 'add'} entry {entry_id}"
        case ReadRequest(_, entry_id, flags):
            what = "the last entry" if entry_id == _LAST_ENTRY else f"entry {entry_id}"
            return f"{'fence, and read' if flags & Flag.FENCE else 'read'} {what}"
        case BatchReadRequest(_, first):
            return f"read entries from {first}"
    return "a request"


def _response_words(response: Response) -> str:
    what = "the last entry" if response.entry_id == _LAST_ENTRY else f"entry {response.entry_id}"
    if response.code != Code.OK:
        return f"{what}: {_REFUSALS.get(response.code, 'failed')}"
    return f"{what} is stored" if response.opcode == Opcode.ADD else f"here is {what}"


def _metadata_words(body: tuple[Any, ...]) -> str:
    kind = body[0]
    if kind in _METADATA:
        return _METADATA[kind].format(str(body[2]).rpartition("/")[2])
    if kind == "answer":
        return "failed" if isinstance(body[2], MetadataError) else "done"
    return str(kind)
