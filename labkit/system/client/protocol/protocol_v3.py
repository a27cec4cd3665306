"""The client side of protocol version 3, for requests that version 2 does not support.

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
    total: int
    free: int


class StoredLac(NamedTuple):
    """The two values on a bookie from which a reader can learn LastAddConfirmed.

    Both include digests. A value is b"" if the bookie does not have it.
    """

    explicit_lac: bytes
    last_entry: bytes


class LongPollResult(NamedTuple):
    """The LastAddConfirmed that a bookie reports, without a digest.

    If LastAddConfirmed has advanced and the bookie has the entry after the previous
    LastAddConfirmed, `entry_id` and `entry` are that entry's id and bytes.
    """

    last_add_confirmed: int
    entry_id: int
    entry: bytes


class PerChannelBookieClientV3(PerChannelBookieClient):
    """Each request completes exactly once, with the bookie's response or a `BKException`."""

    def __init__(
        self, bookie_id: str, network: Network, find_endpoint: FindEndpoint, timeout_s: float
    ) -> None:
        super().__init__(bookie_id, network, find_endpoint, timeout_s)
        self._last_txn_id = 0
        self._pending: dict[tuple[int, pb.OperationType], _PendingRequest] = {}
        """Pending requests, keyed by txnId and operation, oldest first."""

    # Requests: each raises the `BKException` for the error code in the response.

    def add(
        self, ledger_id: int, entry_id: int, entry: bytes, master_key: bytes
    ) -> asyncio.Future[pb.Response]:
        """Store an entry with deferred sync. The entry is durable only after `force_ledger`."""
        request = pb.AddRequest(
            ledgerId=ledger_id,
            entryId=entry_id,
            masterKey=master_key,
            body=entry,
            writeFlags=DEFERRED_SYNC,
        )
        return self._ask(pb.ADD_ENTRY, request)

    async def force_ledger(self, ledger_id: int) -> None:
        """Make all entries of the ledger that this bookie has acknowledged durable."""
        await self._ask(pb.FORCE_LEDGER, pb.ForceLedgerRequest(ledgerId=ledger_id))

    def write_lac(
        self, ledger_id: int, last_add_confirmed: int, lac_body: bytes, master_key: bytes
    ) -> asyncio.Future[pb.Response]:
        """`lac_body` contains the digest."""
        request = pb.WriteLacRequest(
            ledgerId=ledger_id, lac=last_add_confirmed, masterKey=master_key, body=lac_body
        )
        return self._ask(pb.WRITE_LAC, request)

    async def read_lac(self, ledger_id: int) -> StoredLac:
        """Raise `BKNoSuchEntryException` if the bookie has neither an explicit LAC nor an entry."""
        response = await self._ask(pb.READ_LAC, pb.ReadLacRequest(ledgerId=ledger_id))
        body = response.readLacResponse
        return StoredLac(body.lacBody, body.lastEntryBody)

    async def read_after(self, ledger_id: int, previous_lac: int, wait_s: float) -> LongPollResult:
        """Ask the bookie to respond once its LastAddConfirmed exceeds `previous_lac`, or after
        `wait_s` seconds.
        """
        request = pb.ReadRequest(
            ledgerId=ledger_id,
            entryId=NO_ENTRY_ID,
            previousLAC=previous_lac,
            timeOut=round(wait_s * 1000),
            flag=pb.ReadRequest.ENTRY_PIGGYBACK,
        )
        response = await self._ask(pb.READ_ENTRY, request, wait_s)
        body = response.readResponse
        return LongPollResult(body.maxLAC, body.entryId, body.body)

    async def disk_space(self) -> DiskSpace:
        flags = pb.GetBookieInfoRequest
        wanted = flags.TOTAL_DISK_CAPACITY | flags.FREE_DISK_SPACE
        request = pb.GetBookieInfoRequest(requested=wanted)
        info = (await self._ask(pb.GET_BOOKIE_INFO, request)).getBookieInfoResponse
        return DiskSpace(info.totalDiskCapacity, info.freeDiskSpace)

    async def list_of_entries(self, ledger_id: int) -> AvailabilityOfEntries:
        request = pb.GetListOfEntriesOfLedgerRequest(ledgerId=ledger_id)
        response = await self._ask(pb.GET_LIST_OF_ENTRIES_OF_LEDGER, request)
        data = response.getListOfEntriesOfLedgerResponse.availabilityOfEntriesOfLedger
        try:
            return decode_availability(data)
        except ValueError as error:
            raise BKReadException(f"{self.bookie_id}, ledger {ledger_id}: {error}") from None

    # Sending and receiving

    def _ask(
        self, operation: pb.OperationType, request: Message, wait_s: float = 0.0
    ) -> asyncio.Future[pb.Response]:
        """Send a request; the bookie may wait up to `wait_s` seconds before it responds."""
        response_future: asyncio.Future[pb.Response] = self.loop.create_future()
        if not self.outbox and (error := self.schedule_send()) is not None:
            response_future.set_exception(error)
            return response_future
        self._last_txn_id += 1
        key = self._last_txn_id, operation
        timer = self.loop.call_later(self.timeout_s + wait_s, self._expire, key)
        self._pending[key] = _PendingRequest(response_future, timer)
        self.outbox.append(encode_request(operation, self._last_txn_id, request))
        return response_future

    def received(self, bodies: Sequence[bytes]) -> None:
        for body in bodies:
            try:
                response = decode_response(body)
            except ValueError as error:
                self.disconnect(f"invalid response: {error}")
                return
            key = response.header.txnId, response.header.operation
            request = self._pending.pop(key, None)
            if request is None:
                continue  # The request has timed out, or it was another operation.
            request.timer.cancel()
            if (failure := error_of(response, self.bookie_id)) is not None:
                request.fail(failure)
            elif not request.response_future.done():  # The caller may have stopped waiting.
                request.response_future.set_result(response)

    def _expire(self, key: tuple[int, pb.OperationType]) -> None:
        if self.connection is None:
            del self.outbox[list(self._pending).index(key)]
        name = pb.OperationType.Name(key[1])
        error = BKTimeoutException(f"{self.bookie_id} did not respond to {name} in time")
        self._pending.pop(key).fail(error)

    def fail_pending(self, error: BKException) -> None:
        failed, self._pending = self._pending, {}
        for request in failed.values():
            request.timer.cancel()
            request.fail(error)


class _PendingRequest(NamedTuple):
    response_future: asyncio.Future[pb.Response]
    timer: asyncio.TimerHandle

    def fail(self, error: BKException) -> None:
        """Make the caller raise the error, unless the caller has stopped waiting."""
        if not self.response_future.done():
            self.response_future.set_exception(error)
