"""Requests and responses of protocol version 3 for a bookie in this process."""

import struct
from typing import Any

from google.protobuf.message import Message

from labkit.system.model.proto import bookkeeper_protocol_pb2 as pb
from labkit.system.model.wire_v3 import DEFERRED_SYNC, decode_response, encode_request
from tests.system.bookie.in_process import FakeConnection, Node
from tests.system.bookie.raw import KEY
from tests.until import until

CONFIRMED_BEFORE = -2
"""Makes `entry` set LAC to the preceding entry, as a writer does that waits for each add."""


def entry(ledger_id: int, entry_id: int, confirmed: int = CONFIRMED_BEFORE) -> bytes:
    """Return an entry as a bookie stores it, with a dummy digest that the bookie does not check."""
    confirmed = entry_id - 1 if confirmed == CONFIRMED_BEFORE else confirmed
    return struct.pack(">qqqq4s", ledger_id, entry_id, confirmed, 5, b"crc!") + b"hello"


def lac_body(ledger_id: int, lac: int) -> bytes:
    """Return the body of an explicit LAC with a dummy digest."""
    return struct.pack(">qq4s", ledger_id, lac, b"crc!")


class V3:
    """A protocol version 3 connection to the node.

    Each request method sends a request and returns its transaction id.
    """

    def __init__(self, node: Node) -> None:
        self.connection = FakeConnection()
        self._on_bodies = node.bookie.accept(self.connection)
        self._txn_id = 0

    def add(
        self,
        ledger_id: int,
        entry_id: int,
        *,
        confirmed: int = CONFIRMED_BEFORE,
        deferred: bool = False,
        recovery: bool = False,
        priority: int = 0,
        key: bytes = KEY,
    ) -> int:
        add = pb.AddRequest(ledgerId=ledger_id, entryId=entry_id, masterKey=key)
        add.body = entry(ledger_id, entry_id, confirmed)
        if deferred:
            add.writeFlags = DEFERRED_SYNC
        if recovery:
            add.flag = pb.AddRequest.RECOVERY_ADD
        return self.ask(pb.ADD_ENTRY, add, priority)

    def read(self, ledger_id: int, entry_id: int, **more: Any) -> int:
        read = pb.ReadRequest(ledgerId=ledger_id, entryId=entry_id, **more)
        return self.ask(pb.READ_ENTRY, read)

    def fence(self, ledger_id: int, entry_id: int = -1, key: bytes = KEY) -> int:
        flag = pb.ReadRequest.FENCE_LEDGER
        return self.read(ledger_id, entry_id, masterKey=key, flag=flag)

    def poll(self, ledger_id: int, previous_lac: int, timeout_ms: int = 3_600_000) -> int:
        """Send a long poll that asks for the next entry."""
        flag = pb.ReadRequest.ENTRY_PIGGYBACK
        return self.read(ledger_id, -1, previousLAC=previous_lac, timeOut=timeout_ms, flag=flag)

    def force(self, ledger_id: int) -> int:
        return self.ask(pb.FORCE_LEDGER, pb.ForceLedgerRequest(ledgerId=ledger_id))

    def write_lac(self, ledger_id: int, lac: int, key: bytes = KEY) -> int:
        body = lac_body(ledger_id, lac)
        write = pb.WriteLacRequest(ledgerId=ledger_id, lac=lac, masterKey=key, body=body)
        return self.ask(pb.WRITE_LAC, write)

    def read_lac(self, ledger_id: int) -> int:
        return self.ask(pb.READ_LAC, pb.ReadLacRequest(ledgerId=ledger_id))

    def ask(self, operation: pb.OperationType, part: Message, priority: int = 0) -> int:
        self._txn_id += 1
        self.send(encode_request(operation, self._txn_id, part, priority))
        return self._txn_id

    def send(self, *bodies: bytes) -> None:
        self._on_bodies(bodies)

    @property
    def answers(self) -> dict[int, pb.Response]:
        """All responses received so far, by transaction id."""
        responses = [decode_response(body) for body in self.connection.received]
        by_number = {response.header.txnId: response for response in responses}
        assert len(by_number) == len(responses), "a request received two responses"
        return by_number

    def answer(self, txn_id: int) -> pb.Response:
        """Return the response to a request that is answered immediately."""
        return self.answers[txn_id]

    def status(self, txn_id: int) -> pb.StatusCode | None:
        """Return the status of the response, or None if there is no response yet."""
        response = self.answers.get(txn_id)
        return None if response is None else response.status

    def found(self, txn_id: int) -> pb.ReadResponse:
        """Return the response to a successful read."""
        response = self.answers[txn_id]
        assert (response.status, response.readResponse.status) == (pb.EOK, pb.EOK)
        return response.readResponse


async def answered(client: V3, *txn_ids: int) -> list[pb.StatusCode]:
    """Wait for the responses to these requests and return their status codes."""
    await until(lambda: client.answers.keys() >= set(txn_ids))
    answers = client.answers
    return [answers[txn_id].status for txn_id in txn_ids]
