"""Serves protocol version 3, using the same store and the same group commit as version 2.

Each operation returns its part of the response, or None if the response will be sent later.

In BookKeeper: `proto/*ProcessorV3.java`, `proto/BookieRequestProcessor.java`.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from google.protobuf.message import Message

from labkit.system.bookie.channel import REQUEST_COST, Batch, Channel
from labkit.system.bookie.commit import Pending, RunInThread
from labkit.system.bookie.error_codes import REJECTIONS, STORAGE_ERRORS, code_of
from labkit.system.bookie.long_poll import LongPolls
from labkit.system.bookie.protocol_v2 import BookieOperations
from labkit.system.bookie.turns import Turns
from labkit.system.model.availability import availability_of, encode_availability
from labkit.system.model.entry import NO_ENTRY_ID
from labkit.system.model.errors import NoEntryException, NoLedgerException
from labkit.system.model.proto import bookkeeper_protocol_pb2 as pb
from labkit.system.model.wire import AUTH_DISABLED
from labkit.system.model.wire_v3 import (
    DEFERRED_SYNC,
    STATUSES,
    decode_request,
    encode_response,
    is_flagged,
    is_valid,
    response_to,
)
from labkit.system.storage.last_add_confirmed import last_add_confirmed
from labkit.system.storage.store import LedgerStore

T = TypeVar("T")

_LIST_COST = 64 * 1024
"""Limits a channel to 16 pending requests for lists of entries."""


class ProtocolV3:
    def __init__(
        self,
        bookie: BookieOperations,
        store: LedgerStore,
        polls: LongPolls,
        run_in_flush_thread: RunInThread,
        turns: Turns,
    ) -> None:
        self._bookie = bookie
        self._store = store
        self._polls = polls
        self._run_in_flush_thread = run_in_flush_thread
        self._turns = turns
        self._listing: dict[asyncio.Task[None], None] = {}
        self._one_list_at_a_time = asyncio.Lock()
        self._operations: dict[int, Callable[[Batch, pb.Request], Message | None]] = {
            pb.ADD_ENTRY: self._add,
            pb.READ_ENTRY: self._read,
            pb.FORCE_LEDGER: self._force,
            pb.WRITE_LAC: self._write_lac,
            pb.READ_LAC: self._read_lac,
            pb.GET_LIST_OF_ENTRIES_OF_LEDGER: self._list_entries,
            pb.GET_BOOKIE_INFO: self._bookie_info,
            pb.AUTH: self._authenticate,
        }

    def serve(self, batch: Batch, bodies: Sequence[bytes]) -> None:
        """Serve requests when it is the channel's turn. This includes adds, because adds of version
        3 are expensive: each one must be decoded separately.
        """
        for body in bodies:
            self._turns.serve_or_queue(batch, self._serve, body)

    def _serve(self, batch: Batch, body: bytes) -> None:
        if batch.channel.is_closed:
            return
        try:
            request = decode_request(body)
        except ValueError:
            batch.channel.close()
            batch.channel.connection.close()
            return
        operation = self._operations.get(request.header.operation)
        if operation is None or not is_valid(request):
            # START_TLS, for example, is rejected here, because the bookie has no certificate.
            batch.respond(encode_response(request.header, pb.EBADREQ))
        elif request.header.version != pb.VERSION_THREE:
            batch.respond(encode_response(request.header, pb.EBADVERSION))
        else:
            part = _run_or_reject(request, partial(operation, batch, request))
            if part is not None:
                batch.respond(_encoded(request, part))

    def advance_polls(self, ledger_ids: Iterable[int]) -> None:
        """End the long polls of these ledgers if their LastAddConfirmed has advanced enough."""
        for ledger_id in filter(self._polls.is_waited_for, ledger_ids):
            # If LastAddConfirmed cannot be read now, the polls continue until they time out.
            with suppress(*REJECTIONS, *STORAGE_ERRORS):
                self._polls.advance(ledger_id, last_add_confirmed(self._store, ledger_id))

    # Adds and forces

    def _add(self, batch: Batch, request: pb.Request) -> Message | None:
        add, body = request.addRequest, request.addRequest.body
        if self._bookie.rejects_adds(high_priority=request.header.priority > 0):
            return response_to(request, pb.EREADONLY)
        recovery = is_flagged(add, pb.AddRequest.RECOVERY_ADD)
        mark = self._store.add_entry(
            add.ledgerId, add.entryId, body, add.masterKey, recovery=recovery
        )
        connection, done = batch.channel.connection, [_done(request)]
        pending = Pending(connection, done, [add.ledgerId], [add.entryId], [body], mark)
        batch.cost += REQUEST_COST + len(body)
        # As in BookKeeper, recovery adds always wait for the sync, regardless of their flags.
        deferred = add.writeFlags & DEFERRED_SYNC and not recovery
        (batch.deferred if deferred else batch.adds).append(pending)
        return None

    def _force(self, batch: Batch, request: pb.Request) -> None:
        ledger_id = request.forceLedgerRequest.ledgerId
        mark = self._store.journal_of(ledger_id).synced
        batch.respond_when_synced(_done(request), ledger_id, mark, entry_ids=())

    # Reads

    def _read(self, batch: Batch, request: pb.Request) -> Message | None:
        read = request.readRequest
        if is_flagged(read, pb.ReadRequest.FENCE_LEDGER):
            mark = self._bookie.fence(read.ledgerId, read.masterKey)
            part = _run_or_reject(request, partial(self._entry, request, read.entryId))
            batch.respond_when_synced(_encoded(request, part), read.ledgerId, mark)
            return None
        if not read.HasField("previousLAC"):
            return self._found(request)
        confirmed = last_add_confirmed(self._store, read.ledgerId)
        is_fenced = self._store.ledger_for_reads(read.ledgerId).fenced
        if confirmed > read.previousLAC or read.timeOut <= 0 or is_fenced:
            return self._poll_result(request)
        batch.cost += REQUEST_COST
        channel = batch.channel
        respond = partial(self._turns.serve_or_queue_alone, channel, self._respond_to_poll, request)
        self._polls.begin(
            channel.connection, read.ledgerId, read.previousLAC, read.timeOut, respond
        )
        return None

    def _respond_to_poll(self, batch: Batch, request: pb.Request) -> None:
        result = _run_or_reject(request, partial(self._poll_result, request))
        batch.respond(_encoded(request, result))

    def _poll_result(self, request: pb.Request) -> pb.ReadResponse:
        """Return LastAddConfirmed and, if it was requested and is stored on this bookie, the next
        entry.
        """
        read = request.readRequest
        if not is_flagged(read, pb.ReadRequest.ENTRY_PIGGYBACK):
            return self._found(request)
        result = pb.ReadResponse(status=pb.EOK, ledgerId=read.ledgerId, entryId=NO_ENTRY_ID)
        result.maxLAC = last_add_confirmed(self._store, read.ledgerId)
        if result.maxLAC > read.previousLAC:
            with suppress(NoEntryException):
                result.MergeFrom(self._entry(request, read.previousLAC + 1))
        return result

    def _found(self, request: pb.Request) -> pb.ReadResponse:
        read = request.readRequest
        found = self._entry(request, read.entryId)
        # Return the entry even if the last entry, which contains LastAddConfirmed, is unreadable.
        with suppress(*STORAGE_ERRORS):
            found.maxLAC = last_add_confirmed(self._store, read.ledgerId)
        return found

    def _entry(self, request: pb.Request, entry_id: int) -> pb.ReadResponse:
        ledger_id = request.readRequest.ledgerId
        body = self._bookie.read(ledger_id, entry_id)
        return pb.ReadResponse(status=pb.EOK, ledgerId=ledger_id, entryId=entry_id, body=body)

    # Explicit LAC

    def _write_lac(self, batch: Batch, request: pb.Request) -> Message | None:
        write = request.writeLacRequest
        if self._bookie.rejects_adds(high_priority=False):
            return response_to(request, pb.EREADONLY)
        mark = self._store.set_explicit_lac(write.ledgerId, write.body, write.masterKey)
        batch.respond_when_synced(_done(request), write.ledgerId, mark)
        self.advance_polls([write.ledgerId])
        return None

    def _read_lac(self, batch: Batch, request: pb.Request) -> Message:
        """Return the explicit LAC and the last entry, or the response "no such entry" if neither
        exists.
        """
        ledger_id = request.readLacRequest.ledgerId
        found = pb.ReadLacResponse(status=pb.ENOENTRY, ledgerId=ledger_id)
        ledger = self._store.ledger(ledger_id)
        if ledger is not None and ledger.explicit_lac:
            found.lacBody, found.status = ledger.explicit_lac, pb.EOK
        with suppress(NoLedgerException, NoEntryException):
            found.lastEntryBody = self._store.read_entry(ledger_id, NO_ENTRY_ID)
            found.status = pb.EOK
        return found

    # Queries

    def _list_entries(self, batch: Batch, request: pb.Request) -> None:
        """List a ledger's entries. The request is served in the flush thread, because the whole
        index must be read. Only one such request is served at a time.
        """
        batch.cost += REQUEST_COST
        # Add the cost now, so that a client cannot queue an unlimited number of these requests.
        batch.channel.add_delayed_cost(_LIST_COST)
        task = asyncio.get_running_loop().create_task(self._list(batch.channel, request))
        self._listing[task] = None
        task.add_done_callback(self._listing.pop)

    async def _list(self, channel: Channel, request: pb.Request) -> None:
        ledger_id = request.getListOfEntriesOfLedgerRequest.ledgerId

        def listed() -> Message:
            entries = encode_availability(availability_of(self._store.entry_ids(ledger_id)))
            return pb.GetListOfEntriesOfLedgerResponse(
                status=pb.EOK, ledgerId=ledger_id, availabilityOfEntriesOfLedger=entries
            )

        try:
            async with self._one_list_at_a_time:
                if not channel.is_closed:
                    part = await self._run_in_flush_thread(lambda: _run_or_reject(request, listed))
                    channel.connection.send([_encoded(request, part)])
        finally:
            channel.remove_delayed_cost(_LIST_COST)

    def _bookie_info(self, batch: Batch, request: pb.Request) -> Message:
        wanted, info = request.getBookieInfoRequest.requested, pb.GetBookieInfoResponse()
        info.status = pb.EOK
        total, free = self._bookie.disk_space()
        if wanted & pb.GetBookieInfoRequest.TOTAL_DISK_CAPACITY:
            info.totalDiskCapacity = total
        if wanted & pb.GetBookieInfoRequest.FREE_DISK_SPACE:
            info.freeDiskSpace = free
        return info

    def _authenticate(self, batch: Batch, request: pb.Request) -> Message:
        return pb.AuthMessage(authPluginName=AUTH_DISABLED, payload=b"")


def _run_or_reject(request: pb.Request, operation: Callable[[], T]) -> T | Message:
    """Return the result of the operation, or the response that reports its error."""
    try:
        return operation()
    except REJECTIONS + STORAGE_ERRORS as error:
        return response_to(request, STATUSES[code_of(error)])


def _encoded(request: pb.Request, part: Message) -> bytes:
    return encode_response(request.header, getattr(part, "status", pb.EOK), part)


def _done(request: pb.Request) -> bytes:
    return _encoded(request, response_to(request, pb.EOK))
