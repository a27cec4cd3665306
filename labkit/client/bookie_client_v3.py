"""What a client asks of a bookie in protocol version 3: all that version 2 has no words for.

Adds that are acknowledged before the sync and the force that syncs them, the explicit LAC, reads
that wait for the next entry, what a bookie has room for and which entries it has.  A bookie tells
the versions apart by a connection's first frame, so this is a connection beside that of version 2.

In BookKeeper: `proto/PerChannelBookieClient.java` (its V3 parts), `proto/BookieClientImpl.java`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

from google.protobuf.message import Message

from labkit.metadata.registration import Endpoint
from labkit.model.availability import AvailabilityOfEntries, decode_availability
from labkit.model.entry import NO_ENTRY_ID
from labkit.model.errors import (
    BKBookieHandleNotAvailableException,
    BKClientClosedException,
    BKException,
    BKReadException,
    BKTimeoutException,
    LabkitError,
)
from labkit.model.net import Connection, Network
from labkit.model.proto import bookkeeper_protocol_pb2 as pb
from labkit.model.wire_v3 import DEFERRED_SYNC, decode_response, encode_request, error_of

_RETRY_AFTER_S = 0.1


class DiskSpace(NamedTuple):
    """What the file systems of a bookie's ledger directories have, in bytes."""

    total: int
    free: int


class KnownLac(NamedTuple):
    """What tells a ledger's LastAddConfirmed on one bookie; b"" for what is not there."""

    explicit_lac: bytes
    last_entry: bytes


class News(NamedTuple):
    """The end of a long poll: how far the ledger is confirmed on this bookie and, if it moved and
    the bookie has it, the entry behind those that the reader had.
    """

    last_add_confirmed: int
    entry_id: int
    entry: bytes


class BookieClientV3:
    """The way to one bookie in version 3.  Connects at the first request, and again after a loss.

    Invariant: each request is answered exactly once: by the bookie, or by a `BKException` that says
    why there is no answer.
    """

    def __init__(
        self,
        bookie: str,
        network: Network,
        find_endpoint: Callable[[str], Awaitable[Endpoint]],
        timeout_s: float,
    ) -> None:
        self.bookie = bookie
        self.connection_count = 0
        """Connections made so far: a bookie that restarts needs at least one more."""
        self._network = network
        self._find_endpoint = find_endpoint
        self._timeout_s = timeout_s
        self._loop = asyncio.get_running_loop()
        self._connection: Connection | None = None
        self._connecting: asyncio.Task[None] | None = None
        self._closed = False
        self._retry_at = 0.0
        self._last_error: BKException | None = None
        self._last_txn_id = 0
        self._why_lost = ""
        self._outbox: dict[int, bytes] = {}
        """What is not sent, by its txnId."""
        self._asked: dict[int, _Asked] = {}

    # What can be asked; each raises the `BKException` that the bookie's answer means

    def add(
        self, ledger_id: int, entry_id: int, entry: bytes, master_key: bytes
    ) -> asyncio.Future[pb.Response]:
        """Store an entry, acknowledged before it is durable: `force_ledger` makes it so."""
        request = pb.AddRequest(
            ledgerId=ledger_id,
            entryId=entry_id,
            masterKey=master_key,
            body=entry,
            writeFlags=DEFERRED_SYNC,
        )
        return self._ask(pb.ADD_ENTRY, request)

    async def force_ledger(self, ledger_id: int) -> None:
        """On return everything that this bookie had acknowledged for the ledger is durable."""
        await self._ask(pb.FORCE_LEDGER, pb.ForceLedgerRequest(ledgerId=ledger_id))

    def write_lac(
        self, ledger_id: int, last_add_confirmed: int, lac_body: bytes, master_key: bytes
    ) -> asyncio.Future[pb.Response]:
        """Tell how far the ledger is confirmed, without an entry; `lac_body` has the digest."""
        request = pb.WriteLacRequest(
            ledgerId=ledger_id, lac=last_add_confirmed, masterKey=master_key, body=lac_body
        )
        return self._ask(pb.WRITE_LAC, request)

    async def read_lac(self, ledger_id: int) -> KnownLac:
        """Raises `BKNoSuchEntryException` when this bookie has neither."""
        response = await self._ask(pb.READ_LAC, pb.ReadLacRequest(ledgerId=ledger_id))
        told = response.readLacResponse
        return KnownLac(told.lacBody, told.lastEntryBody)

    async def read_after(self, ledger_id: int, previous_lac: int, wait_s: float) -> News:
        """Wait on the bookie until more than `previous_lac` is confirmed, at most `wait_s`."""
        request = pb.ReadRequest(
            ledgerId=ledger_id,
            entryId=NO_ENTRY_ID,
            previousLAC=previous_lac,
            timeOut=round(wait_s * 1000),
            flag=pb.ReadRequest.ENTRY_PIGGYBACK,
        )
        response = await self._ask(pb.READ_ENTRY, request, wait_s)
        told = response.readResponse
        return News(told.maxLAC, told.entryId, told.body)

    async def disk_space(self) -> DiskSpace:
        """How much the bookie can hold."""
        flags = pb.GetBookieInfoRequest
        wanted = flags.TOTAL_DISK_CAPACITY | flags.FREE_DISK_SPACE
        request = pb.GetBookieInfoRequest(requested=wanted)
        told = (await self._ask(pb.GET_BOOKIE_INFO, request)).getBookieInfoResponse
        return DiskSpace(told.totalDiskCapacity, told.freeDiskSpace)

    async def list_of_entries(self, ledger_id: int) -> AvailabilityOfEntries:
        """Which entries of the ledger the bookie has."""
        request = pb.GetListOfEntriesOfLedgerRequest(ledgerId=ledger_id)
        told = await self._ask(pb.GET_LIST_OF_ENTRIES_OF_LEDGER, request)
        data = told.getListOfEntriesOfLedgerResponse.availabilityOfEntriesOfLedger
        try:
            return decode_availability(data)
        except ValueError as error:
            raise BKReadException(f"{self.bookie}, ledger {ledger_id}: {error}") from None

    def close(self) -> None:
        """Give up the connection, everything that was asked, and whatever is asked later."""
        self._closed = True
        if self._connecting is not None:
            self._connecting.cancel()
            self._connecting = None
        if self._connection is not None:
            self._connection.close()
        self._give_up(BKClientClosedException(f"{self.bookie}: this client was closed"))

    # How it is asked

    def _ask(
        self, operation: pb.OperationType, part: Message, wait_s: float = 0.0
    ) -> asyncio.Future[pb.Response]:
        """`wait_s` is what the bookie itself may wait before it answers."""
        answered: asyncio.Future[pb.Response] = self._loop.create_future()
        if self._connection is None and self._connecting is None:
            if self._last_error is not None and (
                self._closed or self._loop.time() < self._retry_at
            ):
                answered.set_exception(self._last_error)
                return answered
            self._connecting = self._loop.create_task(self._connect())
        self._last_txn_id += 1
        txn_id = self._last_txn_id
        timer = self._loop.call_later(self._timeout_s + wait_s, self._expire, txn_id, operation)
        self._asked[txn_id] = _Asked(answered, timer)
        if not self._outbox and self._connection is not None:
            self._loop.call_soon(self._send_outbox)
        self._outbox[txn_id] = encode_request(operation, txn_id, part)
        return answered

    async def _connect(self) -> None:
        self._why_lost = "the connection was lost"
        try:
            endpoint = await self._find_endpoint(self.bookie)
            self._connection = await self._network.connect(
                endpoint.host,
                endpoint.port,
                self._received,
                lambda: self._lost(self._why_lost),
            )
            self.connection_count += 1
        except (OSError, LabkitError) as error:
            self._connecting = None
            self._lost(str(error) or type(error).__name__)
        else:
            self._connecting = None
            self._send_outbox()

    def _send_outbox(self) -> None:
        if self._connection is not None and self._outbox:
            self._connection.send(list(self._outbox.values()))
            self._outbox = {}

    def _received(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            try:
                response = decode_response(body)
            except ValueError as nonsense:
                # Whatever the peer is, its further answers would make no sense either.
                self._why_lost = f"it answered with {nonsense}"
                if self._connection is not None:
                    self._connection.close()
                return
            asked = self._asked.pop(response.header.txnId, None)
            if asked is None:
                continue  # It came after the request timed out.
            asked.timer.cancel()
            error = error_of(response, self.bookie)
            if asked.answered.done():
                continue  # The caller no longer waits.
            if error is None:
                asked.answered.set_result(response)
            else:
                asked.answered.set_exception(error)

    def _expire(self, txn_id: int, operation: pb.OperationType) -> None:
        self._outbox.pop(txn_id, None)
        self._asked.pop(txn_id).fail(
            BKTimeoutException(
                f"{self.bookie} did not answer {pb.OperationType.Name(operation)} in time"
            )
        )

    def _lost(self, why: str) -> None:
        if not self._closed:
            why = f"{self.bookie} cannot be reached: {why}"
            self._give_up(BKBookieHandleNotAvailableException(why))

    def _give_up(self, error: BKException) -> None:
        self._connection = None
        self._retry_at = self._loop.time() + _RETRY_AFTER_S
        self._last_error = error
        self._outbox = {}
        given_up, self._asked = self._asked, {}
        for asked in given_up.values():
            asked.timer.cancel()
            asked.fail(error)


class _Asked(NamedTuple):
    answered: asyncio.Future[pb.Response]
    timer: asyncio.TimerHandle

    def fail(self, error: BKException) -> None:
        """Pass the error to the caller, unless it has stopped waiting."""
        if not self.answered.done():
            self.answered.set_exception(error)
