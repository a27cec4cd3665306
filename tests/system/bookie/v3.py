"""Requests and answers of protocol version 3, for a bookie in this process."""

import struct
from collections.abc import Callable
from typing import Any

from google.protobuf.message import Message

from labkit.system.model.proto import bookkeeper_protocol_pb2 as pb
from labkit.system.model.wire_v3 import DEFERRED_SYNC, decode_response, encode_request
from tests.system.bookie.in_process import FakeConnection, Node
from tests.system.bookie.raw import KEY
from tests.until import until

CONFIRMED_BEFORE = -2
"""As `confirmed` of an entry: the one before it, as a writer that waits for each tells."""


def entry(ledger_id: int, entry_id: int, confirmed: int = CONFIRMED_BEFORE) -> bytes:
    """An entry as a bookie stores it; a bookie does not look at the digest."""
    confirmed = entry_id - 1 if confirmed == CONFIRMED_BEFORE else confirmed
    return struct.pack(">qqqq4s", ledger_id, entry_id, confirmed, 5, b"crc!") + b"hello"


def lac_body(ledger_id: int, lac: int) -> bytes:
    """An explicit LAC with some digest."""
    return struct.pack(">qq4s", ledger_id, lac, b"crc!")


class V3:
    """A connection to the node that speaks version 3.

    Each method sends a request and returns its number.
    """

    def __init__(self, node: Node) -> None:
        self.connection, self._send = _connect(node)
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
        """A long poll that wants the next entry."""
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
        self._send(encode_request(operation, self._txn_id, part, priority))
        return self._txn_id

    def send(self, *bodies: bytes) -> None:
        self._send(*bodies)

    @property
    def answers(self) -> dict[int, pb.Response]:
        """All answers so far, by the number of their request."""
        bodies = [body for write in self.connection.writes for body in write]
        responses = [decode_response(body) for body in bodies]
        by_number = {response.header.txnId: response for response in responses}
        assert len(by_number) == len(responses), "a request was answered twice"
        return by_number

    def answer(self, txn_id: int) -> pb.Response:
        """The answer to a request that does not wait."""
        return self.answers[txn_id]

    def status(self, txn_id: int) -> pb.StatusCode | None:
        """How a request went; None without an answer."""
        response = self.answers.get(txn_id)
        return None if response is None else response.status

    def found(self, txn_id: int) -> pb.ReadResponse:
        """What a read that went well gave."""
        response = self.answers[txn_id]
        assert (response.status, response.readResponse.status) == (pb.EOK, pb.EOK)
        return response.readResponse


async def answered(client: V3, *txn_ids: int) -> list[pb.StatusCode]:
    """How these requests went, once all are answered."""
    await until(lambda: client.answers.keys() >= set(txn_ids))
    answers = client.answers
    return [answers[txn_id].status for txn_id in txn_ids]


def _connect(node: Node) -> tuple[FakeConnection, Callable[..., None]]:
    connection = FakeConnection()
    on_bodies = node.bookie.accept(connection)
    return connection, lambda *bodies: on_bodies(bodies)
