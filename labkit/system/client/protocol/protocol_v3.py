"""What a client asks of a bookie in protocol version 3: requests that version 2 does not have.

Adds that are acknowledged before the sync and the force that syncs them, the explicit LAC, reads
that wait for the next entry, what a bookie has room for and which entries it has.

In BookKeeper: `proto/PerChannelBookieClient.java` (its V3 parts), `proto/BookieClientImpl.java`.
"""

import asyncio
from collections.abc import Sequence
from typing import NamedTuple

from google.protobuf.message import Message

from labkit.system.client.protocol.per_channel_bookie_client import (
    FindEndpoint,
    PerChannelBookieClient,
)
from labkit.system.model.availability import AvailabilityOfEntries, decode_availability
from labkit.system.model.entry import NO_ENTRY_ID
from labkit.system.model.errors import BKException, BKReadException, BKTimeoutException
from labkit.system.model.net import Network
from labkit.system.model.proto import bookkeeper_protocol_pb2 as pb
from labkit.system.model.wire_v3 import DEFERRED_SYNC, decode_response, encode_request, error_of


class DiskSpace(NamedTuple):
    """What the file systems of a bookie's ledger directories have, in bytes."""

    total: int
    free: int


class KnownLac(NamedTuple):
    """What one bookie has of a ledger's LastAddConfirmed; b"" for a part that it has not."""

    explicit_lac: bytes
    last_entry: bytes


class LongPollResult(NamedTuple):
    """The end of a long poll: how far the ledger is confirmed on this bookie and, if it moved and
    the bookie has it, the entry behind those that the reader had.
    """

    last_add_confirmed: int
    entry_id: int
    entry: bytes


class PerChannelBookieClientV3(PerChannelBookieClient):
    """One connection to a bookie in version 3.

    Invariant: each request is answered exactly once: by the bookie, or by a `BKException` that says
    why there is no answer.
    """

    def __init__(
        self, bookie: str, network: Network, find_endpoint: FindEndpoint, timeout_s: float
    ) -> None:
        super().__init__(bookie, network, find_endpoint, timeout_s)
        self._last_txn_id = 0
        self._pending: dict[int, _PendingRequest] = {}
        """By txnId, oldest first; without a connection the same requests as in `outbox`."""

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
        """Announce the LastAddConfirmed without an entry; `lac_body` has the digest."""
        request = pb.WriteLacRequest(
            ledgerId=ledger_id, lac=last_add_confirmed, masterKey=master_key, body=lac_body
        )
        return self._ask(pb.WRITE_LAC, request)

    async def read_lac(self, ledger_id: int) -> KnownLac:
        """Raises `BKNoSuchEntryException` when this bookie has neither."""
        response = await self._ask(pb.READ_LAC, pb.ReadLacRequest(ledgerId=ledger_id))
        found = response.readLacResponse
        return KnownLac(found.lacBody, found.lastEntryBody)

    async def read_after(self, ledger_id: int, previous_lac: int, wait_s: float) -> LongPollResult:
        """Wait on the bookie until more than `previous_lac` is confirmed, at most `wait_s`."""
        request = pb.ReadRequest(
            ledgerId=ledger_id,
            entryId=NO_ENTRY_ID,
            previousLAC=previous_lac,
            timeOut=round(wait_s * 1000),
            flag=pb.ReadRequest.ENTRY_PIGGYBACK,
        )
        response = await self._ask(pb.READ_ENTRY, request, wait_s)
        found = response.readResponse
        return LongPollResult(found.maxLAC, found.entryId, found.body)

    async def disk_space(self) -> DiskSpace:
        """How much the bookie can hold."""
        flags = pb.GetBookieInfoRequest
        wanted = flags.TOTAL_DISK_CAPACITY | flags.FREE_DISK_SPACE
        request = pb.GetBookieInfoRequest(requested=wanted)
        info = (await self._ask(pb.GET_BOOKIE_INFO, request)).getBookieInfoResponse
        return DiskSpace(info.totalDiskCapacity, info.freeDiskSpace)

    async def list_of_entries(self, ledger_id: int) -> AvailabilityOfEntries:
        """Which entries of the ledger the bookie has."""
        request = pb.GetListOfEntriesOfLedgerRequest(ledgerId=ledger_id)
        response = await self._ask(pb.GET_LIST_OF_ENTRIES_OF_LEDGER, request)
        data = response.getListOfEntriesOfLedgerResponse.availabilityOfEntriesOfLedger
        try:
            return decode_availability(data)
        except ValueError as error:
            raise BKReadException(f"{self.bookie}, ledger {ledger_id}: {error}") from None

    # How it is asked

    def _ask(
        self, operation: pb.OperationType, part: Message, wait_s: float = 0.0
    ) -> asyncio.Future[pb.Response]:
        """`wait_s` is what the bookie itself may wait before it answers."""
        answered: asyncio.Future[pb.Response] = self.loop.create_future()
        if not self.outbox and (error := self.schedule_send()) is not None:
            answered.set_exception(error)
            return answered
        self._last_txn_id += 1
        txn_id = self._last_txn_id
        timer = self.loop.call_later(self.timeout_s + wait_s, self._expire, txn_id, operation)
        self._pending[txn_id] = _PendingRequest(answered, timer)
        self.outbox.append(encode_request(operation, txn_id, part))
        return answered

    def received(self, bodies: Sequence[bytes]) -> None:
        """Each answer names its request by the txnId."""
        for body in bodies:
            try:
                response = decode_response(body)
            except ValueError as nonsense:
                # After one invalid answer the next cannot be trusted either.
                self.disconnect(f"its answer is {nonsense}")
                return
            request = self._pending.pop(response.header.txnId, None)
            if request is None:
                continue  # It came after the request timed out.
            request.timer.cancel()
            error = error_of(response, self.bookie)
            if request.answered.done():
                continue  # The caller no longer waits.
            if error is None:
                request.answered.set_result(response)
            else:
                request.answered.set_exception(error)

    def _expire(self, txn_id: int, operation: pb.OperationType) -> None:
        if self.connection is None:
            del self.outbox[list(self._pending).index(txn_id)]
        self._pending.pop(txn_id).fail(
            BKTimeoutException(
                f"{self.bookie} did not answer {pb.OperationType.Name(operation)} in time"
            )
        )

    def fail_pending(self, error: BKException) -> None:
        """End everything that was asked with the error."""
        given_up, self._pending = self._pending, {}
        for request in given_up.values():
            request.timer.cancel()
            request.fail(error)


class _PendingRequest(NamedTuple):
    answered: asyncio.Future[pb.Response]
    timer: asyncio.TimerHandle

    def fail(self, error: BKException) -> None:
        """Pass the error to the caller, unless it has stopped waiting."""
        if not self.answered.done():
            self.answered.set_exception(error)
