"""A bookie's answers in protocol version 2: adds and reads, what a busy cluster speaks.

In BookKeeper: `proto/WriteEntryProcessor.java`, `proto/ReadEntryProcessor.java`.
"""

from collections.abc import Sequence
from typing import Protocol

from labkit.system.bookie.batch_read import read_batch
from labkit.system.bookie.channel import Batch
from labkit.system.bookie.commit import Pending
from labkit.system.bookie.refusals import REFUSALS, UNREADABLE, code_of
from labkit.system.bookie.turns import Turns
from labkit.system.model.batch_read import encode_batch_answer
from labkit.system.model.entry import NO_ENTRY_ID
from labkit.system.model.errors import LedgerFencedException, UnauthorizedAccessException
from labkit.system.model.wire import (
    AddBatch,
    AuthRequest,
    BadRequest,
    BatchReadRequest,
    Code,
    Flag,
    Opcode,
    ReadRequest,
    decode_requests,
    encode_answer,
    encode_bad_request,
    encode_no_authentication,
)
from labkit.system.storage.log_mark import LogMark
from labkit.system.storage.store import LedgerStore

# Looking a member up in its enumeration costs as much as packing an answer.
_HIGH_PRIORITY, _RECOVERY_ADD, _FENCE = Flag.HIGH_PRIORITY, Flag.RECOVERY_ADD, Flag.FENCE
_READ, _OK = Opcode.READ, Code.OK


class BookieOperations(Protocol):
    """What both wire protocols need of the bookie whose connections speak them."""

    @property
    def read_only(self) -> bool:
        """Whether only adds of high priority are taken."""

    def fence(self, ledger_id: int, master_key: bytes) -> LogMark:
        """Fence the ledger; answer only once the journal is synced past the place returned.

        Raises `UnauthorizedAccessException`.
        """

    def read(self, ledger_id: int, entry_id: int) -> bytes:
        """The entry's bytes.  Raises what `LedgerStore.read_entry` raises."""

    def disk_space(self) -> tuple[int, int]:
        """Bytes that the ledger directories' file systems have, and bytes that are free."""


class ProtocolV2:
    """Answers the connections that speak version 2."""

    def __init__(self, bookie: BookieOperations, store: LedgerStore, turns: Turns) -> None:
        self._bookie = bookie
        self._store = store
        self._turns = turns
        self._has_one_journal = len(store.journals) == 1

    def serve(self, batch: Batch, bodies: Sequence[bytes]) -> None:
        """The requests of one receive: adds now, the others in their turn."""
        for request in decode_requests(bodies):
            if isinstance(request, AddBatch):
                for add in [request] if self._has_one_journal else request.by_ledger():
                    self._add(batch, add)
            elif isinstance(request, ReadRequest | BatchReadRequest):
                self._turns.serve_or_queue(batch, self._read, request)
            else:
                self._turns.serve_or_queue(batch, _reply, request)

    def _add(self, batch: Batch, add: AddBatch) -> None:
        flags, master_key, ledger_ids, entry_ids, entries = add
        if self._bookie.read_only and not flags & _HIGH_PRIORITY:
            batch.answers += add.answers(Code.READ_ONLY)
            return
        recovery = bool(flags & _RECOVERY_ADD)
        try:
            mark = self._store.add_entries(
                ledger_ids, entry_ids, entries, master_key, recovery=recovery
            )
        except (LedgerFencedException, UnauthorizedAccessException, *UNREADABLE) as error:
            parts = add.by_ledger()
            if len(parts) == 1:
                batch.answers += add.answers(code_of(error))
            else:
                # Only one of them may be the reason.
                for part in parts:
                    self._add(batch, part)
        else:
            connection, done = batch.channel.connection, add.answers(_OK)
            batch.adds.append(Pending(connection, done, ledger_ids, entry_ids, entries, mark))

    def _read(self, batch: Batch, request: ReadRequest | BatchReadRequest) -> None:
        ledger_id = request.ledger_id
        mark: LogMark | None = None
        count = 1
        try:
            if request.flags & _FENCE:
                mark = self._bookie.fence(ledger_id, request.master_key)
            if isinstance(request, ReadRequest):
                entry = self._bookie.read(ledger_id, request.entry_id)
                answer = encode_answer(_READ, _OK, ledger_id, request.entry_id, entry)
            else:
                pieces, count = read_batch(self._bookie.read, self._store, request)
                answer = encode_batch_answer(request, _OK, pieces)
        except (*REFUSALS, *UNREADABLE) as error:
            code = code_of(error)
            if isinstance(request, ReadRequest):
                answer = encode_answer(_READ, code, ledger_id, request.entry_id)
            else:
                answer = encode_batch_answer(request, code, ())
        if mark is None:
            batch.answer(answer, count)
            return
        # A negative answer, too, tells the reader that this ledger is fenced here.
        connection = batch.channel.connection
        pending = Pending(connection, [answer], [ledger_id], [NO_ENTRY_ID], [b""], mark)
        batch.answer_when_synced(pending)


def _reply(batch: Batch, request: AuthRequest | BadRequest) -> None:
    if isinstance(request, AuthRequest):
        batch.answer(encode_no_authentication())
    else:
        batch.answer(encode_bad_request(request))
