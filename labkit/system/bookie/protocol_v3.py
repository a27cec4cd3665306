"""A bookie's answers in protocol version 3, over the same store and the same group commit.

Each operation gives the part of its answer, or nothing when the answer leaves later: once the
journal is written or synced, or when a long poll ends.

In BookKeeper: `proto/*ProcessorV3.java`, `proto/BookieRequestProcessor.java`.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from google.protobuf.message import Message

from labkit.system.bookie.channel import REQUEST_COST, Batch, Channel
from labkit.system.bookie.commit import Pending, RunBlocking
from labkit.system.bookie.long_poll import LongPolls
from labkit.system.bookie.protocol_v2 import BookieOperations
from labkit.system.bookie.refusals import REFUSALS, UNREADABLE, code_of
from labkit.system.bookie.turns import Turns
from labkit.system.model.availability import availability_of, encode_availability
from labkit.system.model.entry import NO_ENTRY_ID
from labkit.system.model.errors import NoEntryException, NoLedgerException
from labkit.system.model.proto import bookkeeper_protocol_pb2 as pb
from labkit.system.model.wire import AUTH_DISABLED
from labkit.system.model.wire_v3 import (
    DEFERRED_SYNC,
    STATUSES,
    answer_to,
    decode_request,
    encode_response,
    is_flagged,
    is_possible,
)
from labkit.system.storage.last_add_confirmed import last_add_confirmed
from labkit.system.storage.store import LedgerStore

T = TypeVar("T")

_LIST_COST = 64 * 1024
"""Cost of a list of entries under way: at most 16 of one channel wait."""


class ProtocolV3:
    """Answers the connections that speak version 3."""

    def __init__(
        self,
        bookie: BookieOperations,
        store: LedgerStore,
        polls: LongPolls,
        run_blocking: RunBlocking,
        turns: Turns,
    ) -> None:
        self._bookie = bookie
        self._store = store
        self._polls = polls
        self._run_blocking = run_blocking
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
        """The requests of one receive, each in its turn: decoding one takes as long as an add."""
        for body in bodies:
            self._turns.serve_or_queue(batch, self._serve, body)

    def _serve(self, batch: Batch, body: bytes) -> None:
        """A frame that is not a request ends the connection; what came before it is done."""
        if batch.channel.is_closed:
            return
        try:
            request = decode_request(body)
        except ValueError:
            batch.channel.close()
            batch.channel.connection.close()
            return
        operation = self._operations.get(request.header.operation)
        if operation is None or not is_possible(request):
            # START_TLS, too: this bookie has no certificate.
            batch.answer(encode_response(request.header, pb.EBADREQ))
        elif request.header.version != pb.VERSION_THREE:
            batch.answer(encode_response(request.header, pb.EBADVERSION))
        else:
            part = _run_or_refuse(request, partial(operation, batch, request))
            if part is not None:
                batch.answer(_encoded(request, part))

    def wake(self, ledger_ids: Iterable[int]) -> None:
        """These ledgers have news: end the long polls that wait for it."""
        for ledger_id in filter(self._polls.is_waited_for, ledger_ids):
            # What cannot be read now is tried again, and answered, when the poll's time is up.
            with suppress(*REFUSALS, *UNREADABLE):
                self._polls.moved(ledger_id, last_add_confirmed(self._store, ledger_id))

    # Adds, and what makes them durable

    def _add(self, batch: Batch, request: pb.Request) -> Message | None:
        add, body = request.addRequest, request.addRequest.body
        if self._bookie.read_only and not request.header.priority:
            return answer_to(request, pb.EREADONLY)
        recovery = is_flagged(add, pb.AddRequest.RECOVERY_ADD)
        mark = self._store.add_entry(
            add.ledgerId, add.entryId, body, add.masterKey, recovery=recovery
        )
        answers = [_done(request)]
        connection = batch.channel.connection
        pending = Pending(connection, answers, [add.ledgerId], [add.entryId], [body], mark)
        batch.cost += REQUEST_COST + len(body)
        # As in BookKeeper, recovery waits for the sync whatever its flags say.
        deferred = add.writeFlags & DEFERRED_SYNC and not recovery
        (batch.deferred if deferred else batch.adds).append(pending)
        return None

    def _force(self, batch: Batch, request: pb.Request) -> None:
        ledger_id = request.forceLedgerRequest.ledgerId
        mark = self._store.journal_of(ledger_id).synced
        connection, answers = batch.channel.connection, [_done(request)]
        batch.answer_when_synced(Pending(connection, answers, [ledger_id], [], [], mark))

    # Reads

    def _read(self, batch: Batch, request: pb.Request) -> Message | None:
        read = request.readRequest
        if is_flagged(read, pb.ReadRequest.FENCE_LEDGER):
            self._fencing_read(batch, request)
            return None
        if not read.HasField("previousLAC"):
            return self._found(request)
        known = last_add_confirmed(self._store, read.ledgerId)
        ledger = self._store.ledger(read.ledgerId)
        if known > read.previousLAC or read.timeOut <= 0 or ledger is None or ledger.fenced:
            return self._poll_result(request)
        batch.cost += REQUEST_COST
        end = partial(self._end_poll, batch.channel, request)
        connection = batch.channel.connection
        self._polls.begin(connection, read.ledgerId, read.previousLAC, read.timeOut, end)
        return None

    def _fencing_read(self, batch: Batch, request: pb.Request) -> None:
        """A negative answer, too, tells the reader that this ledger is fenced here."""
        read = request.readRequest
        mark = self._bookie.fence(read.ledgerId, read.masterKey)
        part = _run_or_refuse(request, partial(self._entry, request, read.entryId))
        answers, last = [_encoded(request, part)], [NO_ENTRY_ID]
        connection = batch.channel.connection
        pending = Pending(connection, answers, [read.ledgerId], last, [b""], mark)
        batch.answer_when_synced(pending)

    def _end_poll(self, channel: Channel, request: pb.Request) -> None:
        self._turns.serve_or_queue_alone(channel, self._answer_poll, request)

    def _answer_poll(self, batch: Batch, request: pb.Request) -> None:
        batch.answer(
            _encoded(request, _run_or_refuse(request, partial(self._poll_result, request)))
        )

    def _poll_result(self, request: pb.Request) -> pb.ReadResponse:
        """What a long poll gets: LastAddConfirmed and, if it wants, the entry behind those it has.

        Striping: this bookie may not have that entry, and another one has.
        """
        read = request.readRequest
        if not is_flagged(read, pb.ReadRequest.ENTRY_PIGGYBACK):
            return self._found(request)
        news = pb.ReadResponse(status=pb.EOK, ledgerId=read.ledgerId, entryId=NO_ENTRY_ID)
        news.maxLAC = last_add_confirmed(self._store, read.ledgerId)
        if news.maxLAC > read.previousLAC:
            with suppress(NoEntryException):
                news.MergeFrom(self._entry(request, read.previousLAC + 1))
        return news

    def _found(self, request: pb.Request) -> pb.ReadResponse:
        """The entry, and how far the ledger is confirmed."""
        read = request.readRequest
        found = self._entry(request, read.entryId)
        # The entry is worth an answer even if the last one, which has the LAC, cannot be read.
        with suppress(*UNREADABLE):
            found.maxLAC = last_add_confirmed(self._store, read.ledgerId)
        return found

    def _entry(self, request: pb.Request, entry_id: int) -> pb.ReadResponse:
        ledger_id = request.readRequest.ledgerId
        body = self._bookie.read(ledger_id, entry_id)
        return pb.ReadResponse(status=pb.EOK, ledgerId=ledger_id, entryId=entry_id, body=body)

    # The explicit LAC

    def _write_lac(self, batch: Batch, request: pb.Request) -> Message | None:
        write = request.writeLacRequest
        if self._bookie.read_only:
            return answer_to(request, pb.EREADONLY)
        mark = self._store.set_explicit_lac(write.ledgerId, write.body, write.masterKey)
        answers, last = [_done(request)], [NO_ENTRY_ID]
        connection = batch.channel.connection
        pending = Pending(connection, answers, [write.ledgerId], last, [b""], mark)
        batch.answer_when_synced(pending)
        self.wake([write.ledgerId])
        return None

    def _read_lac(self, batch: Batch, request: pb.Request) -> Message:
        """The explicit LAC and the last entry; with neither of them, "no such entry"."""
        ledger_id = request.readLacRequest.ledgerId
        found = pb.ReadLacResponse(status=pb.ENOENTRY, ledgerId=ledger_id)
        ledger = self._store.ledger(ledger_id)
        if ledger is not None and ledger.explicit_lac:
            found.lacBody, found.status = ledger.explicit_lac, pb.EOK
        with suppress(NoLedgerException, NoEntryException):
            found.lastEntryBody = self._store.read_entry(ledger_id, NO_ENTRY_ID)
            found.status = pb.EOK
        return found

    # About the bookie

    def _list_entries(self, batch: Batch, request: pb.Request) -> None:
        """Make the list off the event loop: a large ledger's takes long, as its whole index is
        read.

        One at a time, since checkpoints share the thread.
        """
        batch.cost += REQUEST_COST
        # Owed now, as its answer comes later: else one client could queue lists without bound.
        batch.channel.owe(_LIST_COST)
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

        async with self._one_list_at_a_time:
            if not channel.is_closed:
                part = await self._run_blocking(lambda: _run_or_refuse(request, listed))
                channel.connection.send([_encoded(request, part)])
        channel.pay(_LIST_COST)

    def _bookie_info(self, batch: Batch, request: pb.Request) -> Message:
        """The figures that were asked for, and no others."""
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


def _run_or_refuse(request: pb.Request, operation: Callable[[], T]) -> T | Message:
    """What the operation returns, or the answer that says why it failed."""
    try:
        return operation()
    except (*REFUSALS, *UNREADABLE) as error:
        return answer_to(request, STATUSES[code_of(error)])


def _encoded(request: pb.Request, part: Message) -> bytes:
    return encode_response(request.header, getattr(part, "status", pb.EOK), part)


def _done(request: pb.Request) -> bytes:
    return _encoded(request, answer_to(request, pb.EOK))
