"""The one writer of a ledger.

In BookKeeper: `client/LedgerHandle.java`, `client/PendingAddOp.java`.
"""

import asyncio
from collections import deque
from dataclasses import dataclass, field
from functools import partial

from labkit.client.bookie_client import BookieClients
from labkit.client.striping import write_set
from labkit.metadata.ledger_manager import LedgerManager
from labkit.model.entry import (
    NO_ENTRY_ID,
    Entry,
    encode_entry,
    make_digest,
    make_master_key,
)
from labkit.model.errors import (
    BKException,
    BKIncorrectParameterException,
    BKLedgerClosedException,
    BKLedgerFencedException,
    BKMetadataVersionException,
    BKUnauthorizedAccessException,
)
from labkit.model.ledger import LedgerMetadata, LedgerState
from labkit.model.wire import MAX_FRAME_SIZE, Answer, Opcode, encode_add
from labkit.trace.recorder import Recorder

_OVERHEAD = 128
"""At most this much of a frame goes to lengths, headers, key and digest."""
MAX_PAYLOAD_SIZE = MAX_FRAME_SIZE - _OVERHEAD

_STOP_AT_ONCE = (BKLedgerFencedException, BKUnauthorizedAccessException)


@dataclass(slots=True)
class _PendingAdd:
    entry_id: int
    payload_size: int
    body: bytes
    confirmed: asyncio.Future[int]
    acked: set[int] = field(default_factory=set)
    failed: dict[int, BKException] = field(default_factory=dict)


class LedgerWriter:
    """Adds entries to a ledger that it created.

    Invariants: `last_add_confirmed` <= `last_add_pushed`; entries are confirmed in order of their
    ids; an entry is confirmed once `ack_quorum` bookies of its write set have it durable.
    """

    def __init__(
        self,
        ledger_id: int,
        metadata: LedgerMetadata,
        version: int,
        manager: LedgerManager,
        bookies: BookieClients,
        recorder: Recorder,
    ) -> None:
        self.ledger_id = ledger_id
        self.metadata = metadata
        self.last_add_pushed = NO_ENTRY_ID
        self.last_add_confirmed = NO_ENTRY_ID
        self.length = 0
        """Payload bytes pushed."""
        self.length_confirmed = 0
        """Payload bytes up to LastAddConfirmed."""
        self._version = version
        self._manager = manager
        self._recorder = recorder
        self._digest = make_digest(metadata.digest_type, metadata.password)
        self._master_key = make_master_key(metadata.password)
        self._clients = [bookies.get(name) for name in metadata.segments[-1].ensemble]
        self._pending: deque[_PendingAdd] = deque()
        self._ended: BKException | None = None

    def add(self, payload: bytes) -> asyncio.Future[int]:
        """Push an entry; the future gives its entry id once it is confirmed.

        Adds may be pushed without waiting for earlier ones.  The future fails with a `BKException`
        when the entry can no longer be confirmed; the bookies may have it all the same.
        Raises `BKIncorrectParameterException` for a payload above `MAX_PAYLOAD_SIZE` bytes, and
        `BKLedgerClosedException` or the error that ended this writer.
        """
        if self._ended is not None:
            raise self._ended
        if len(payload) > MAX_PAYLOAD_SIZE:
            raise BKIncorrectParameterException(
                f"a payload of {len(payload)} bytes; at most {MAX_PAYLOAD_SIZE} fit into a frame"
            )
        self.last_add_pushed += 1
        self.length += len(payload)
        entry_id = self.last_add_pushed
        entry = Entry(self.ledger_id, entry_id, self.last_add_confirmed, self.length, payload)
        body = encode_add(self._master_key, encode_entry(entry, self._digest))
        confirmed = asyncio.get_running_loop().create_future()
        pending = _PendingAdd(entry_id, len(payload), body, confirmed)
        self._pending.append(pending)
        self._send(pending)
        return confirmed

    async def confirmed(self) -> None:
        """Wait until everything pushed so far is confirmed.  Raises what the adds raise."""
        if self._pending:
            await asyncio.shield(self._pending[-1].confirmed)
        elif self._ended is not None and self.last_add_confirmed < self.last_add_pushed:
            raise self._ended

    async def close(self) -> None:
        """Fix the ledger's end at LastAddConfirmed.

        Adds not confirmed by now fail with `BKLedgerClosedException`; await them first.  Raises
        `BKMetadataVersionException` when somebody else closed the ledger at another entry.
        """
        self._end(BKLedgerClosedException(f"ledger {self.ledger_id} was closed by its writer"))
        last, length = self.last_add_confirmed, self.length_confirmed
        while self.metadata.state is not LedgerState.CLOSED:
            closed = self.metadata.closed(last, length)
            try:
                self._version = await self._manager.write(self.ledger_id, closed, self._version)
            except BKMetadataVersionException:
                self.metadata, self._version = await self._manager.read(self.ledger_id)
            else:
                self.metadata = closed
                self._recorder.record("ledger.closed", self.ledger_id, last)
        if self.metadata.last_entry_id != last:
            raise BKMetadataVersionException(
                f"ledger {self.ledger_id} was closed by somebody else at entry"
                f" {self.metadata.last_entry_id}; this writer had confirmed up to {last}"
            )

    def _send(self, pending: _PendingAdd) -> None:
        metadata, entry_id = self.metadata, pending.entry_id
        if self._recorder.listening:
            self._recorder.record("add.pushed", self.ledger_id, entry_id, size=pending.payload_size)
        for place in write_set(entry_id, metadata.ensemble_size, metadata.write_quorum):
            client = self._clients[place]
            if self._recorder.listening:
                self._recorder.record("add.sent", self.ledger_id, entry_id, peer=client.bookie)
            client.ask(
                Opcode.ADD,
                self.ledger_id,
                entry_id,
                pending.body,
                partial(self._answered, pending, place),
            )

    def _answered(self, pending: _PendingAdd, place: int, answer: Answer | BKException) -> None:
        failed = isinstance(answer, BKException)
        if self._recorder.listening:
            self._recorder.record(
                "add.failed" if failed else "add.acked",
                self.ledger_id,
                pending.entry_id,
                peer=self._clients[place].bookie,
                note=type(answer).__name__ if failed else "",
            )
        if isinstance(answer, BKException):
            pending.failed[place] = answer
            allowed = self.metadata.write_quorum - self.metadata.ack_quorum
            if len(pending.failed) > allowed or isinstance(answer, _STOP_AT_ONCE):
                self._give_up(pending, answer)
        else:
            pending.acked.add(place)
            self._confirm()

    def _confirm(self) -> None:
        """Confirm from the head of the queue as far as Qa acknowledgements go without a gap."""
        confirmed_before = self.last_add_confirmed
        while self._pending and len(self._pending[0].acked) >= self.metadata.ack_quorum:
            pending = self._pending.popleft()
            self.last_add_confirmed = pending.entry_id
            self.length_confirmed += pending.payload_size
            if not pending.confirmed.done():
                pending.confirmed.set_result(pending.entry_id)
        if self.last_add_confirmed > confirmed_before and self._recorder.listening:
            for entry_id in range(confirmed_before + 1, self.last_add_confirmed + 1):
                self._recorder.record("lac.advanced", self.ledger_id, entry_id)

    def _give_up(self, pending: _PendingAdd, error: BKException) -> None:
        """Without Qa acknowledgements this entry, and all after it, can never be confirmed."""
        if self._ended is None and len(pending.acked) < self.metadata.ack_quorum:
            self._end(error)

    def _end(self, error: BKException) -> None:
        if self._ended is None:
            self._ended = error
        abandoned, self._pending = self._pending, deque()
        for pending in abandoned:
            if not pending.confirmed.done():
                pending.confirmed.set_exception(error)
