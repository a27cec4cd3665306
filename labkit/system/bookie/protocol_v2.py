"""Serves protocol version 2: the adds and reads of a busy cluster.

In BookKeeper: `proto/WriteEntryProcessor.java`, `proto/ReadEntryProcessor.java`.
"""

from collections.abc import Sequence
from typing import Protocol

from labkit.system.bookie.batch_read import read_batch
from labkit.system.bookie.channel import Batch
from labkit.system.bookie.commit import Pending
from labkit.system.bookie.error_codes import REJECTIONS, STORAGE_ERRORS, code_of
from labkit.system.bookie.turns import Turns
from labkit.system.model.batch_read import encode_batch_response
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
    encode_bad_request,
    encode_no_authentication,
    encode_response,
)
from labkit.system.storage.log_mark import LogMark
from labkit.system.storage.store import LedgerStore

# Look up these enum members only once: each lookup takes as long as encoding a response.
_HIGH_PRIORITY, _RECOVERY_ADD, _FENCE = Flag.HIGH_PRIORITY, Flag.RECOVERY_ADD, Flag.FENCE
_READ, _OK = Opcode.READ, Code.OK


class BookieOperations(Protocol):
    """The methods of a bookie that both wire protocols call. For everything else, the protocols
    call the store.
    """

    def rejects_adds(self, *, high_priority: bool) -> bool:
        """Return whether adds of this priority are rejected because the bookie is read-only. Even a
        read-only bookie accepts high-priority adds, which recoveries send, unless its memtable or a
        journal is full.
        """

    def fence(self, ledger_id: int, master_key: bytes) -> LogMark:
        """Fence the ledger, and return the position of the journal record. Pass the response to
        `Batch.respond_when_synced` even if it reports an error, because any response implies that
        the ledger is fenced.

        Raises `UnauthorizedAccessException`.
        """

    def read(self, ledger_id: int, entry_id: int) -> bytes:
        """Read an entry. Raises the same errors as `LedgerStore.read_entry`."""

    def disk_space(self) -> tuple[int, int]:
        """Return the total and the free disk space in bytes."""


class ProtocolV2:
    def __init__(self, bookie: BookieOperations, store: LedgerStore, turns: Turns) -> None:
        self._bookie = bookie
        self._store = store
        self._turns = turns
        self._has_one_journal = len(store.journals) == 1

    def serve(self, batch: Batch, bodies: Sequence[bytes]) -> None:
        """Serve adds immediately, and serve other requests when it is the channel's turn."""
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
        if self._bookie.rejects_adds(high_priority=bool(flags & _HIGH_PRIORITY)):
            batch.responses += add.responses(Code.READ_ONLY)
            return
        recovery = bool(flags & _RECOVERY_ADD)
        try:
            mark = self._store.add_entries(
                ledger_ids, entry_ids, entries, master_key, recovery=recovery
            )
        except (LedgerFencedException, UnauthorizedAccessException, *STORAGE_ERRORS) as error:
            ledgers = add.by_ledger()
            if len(ledgers) == 1:
                batch.responses += add.responses(code_of(error))
            else:
                # Add to each ledger separately, because possibly only some of the ledgers reject
                # adds.
                for each in ledgers:
                    self._add(batch, each)
        else:
            connection, done = batch.channel.connection, add.responses(_OK)
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
                response = encode_response(_READ, _OK, ledger_id, request.entry_id, entry)
            else:
                pieces, count = read_batch(self._bookie.read, self._store, request)
                response = encode_batch_response(request, _OK, pieces)
        except REJECTIONS + STORAGE_ERRORS as error:
            code = code_of(error)
            if isinstance(request, ReadRequest):
                response = encode_response(_READ, code, ledger_id, request.entry_id)
            else:
                response = encode_batch_response(request, code, ())
        if mark is None:
            batch.respond(response, count)
        else:
            batch.respond_when_synced(response, ledger_id, mark)


def _reply(batch: Batch, request: AuthRequest | BadRequest) -> None:
    if isinstance(request, AuthRequest):
        batch.respond(encode_no_authentication())
    else:
        batch.respond(encode_bad_request(request))
