"""A bookie: requests in, answers out.

In BookKeeper: `proto/BookieRequestProcessor.java`, `bookie/BookieImpl.java`.
"""

import asyncio
from collections.abc import Sequence

from labkit.bookie.checkpoints import Checkpoints, OnSpace
from labkit.bookie.commit import GroupCommit, Pending, RunBlocking
from labkit.model.entry import NO_ENTRY_ID
from labkit.model.errors import (
    LedgerFencedException,
    NoEntryException,
    NoLedgerException,
    StorageDamagedException,
    UnauthorizedAccessException,
)
from labkit.model.net import Connection, OnBodies
from labkit.model.wire import (
    MASTER_KEY_SIZE,
    AddRequest,
    Code,
    Flag,
    Opcode,
    ReadRequest,
    decode_requests,
    encode_answer,
    encode_bad_request,
)
from labkit.storage.log_mark import LogMark
from labkit.storage.store import LedgerStore
from labkit.trace.recorder import Recorder


class Bookie:
    """Serves one `LedgerStore`."""

    def __init__(
        self,
        store: LedgerStore,
        recorder: Recorder,
        write_journals: Sequence[RunBlocking],
        write_entries: RunBlocking,
        flush_interval_ms: int,
        on_space: OnSpace,
    ) -> None:
        """`write_journals` (one for each of the store's journals) and `write_entries` run the disk
        work, each in order.
        """
        self._store = store
        self._recorder = recorder
        self._commits = [
            GroupCommit(journal, write_journal, recorder, store.config, self._go_on)
            for journal, write_journal in zip(store.journals, write_journals, strict=True)
        ]
        self._checkpoints = Checkpoints(
            store, write_entries, flush_interval_ms, self._go_on, on_space
        )
        self._held: list[Connection] = []
        self._read_only = False

    async def run(self) -> None:
        """Serve until cancelled.  Raises `OSError` when the disk fails: the bookie must stop."""
        failed: list[BaseException] = []
        try:
            async with asyncio.TaskGroup() as group:
                for commit in self._commits:
                    group.create_task(commit.run())
                group.create_task(self._checkpoints.run())
        except* OSError as errors:
            failed += errors.exceptions
        if failed:
            # Raised out here: what is raised inside `except*` may come out wrapped in a group.
            raise failed[0]

    @property
    def read_only(self) -> bool:
        """Refuse adds but those of high priority: recovery must be able to finish."""
        return self._read_only

    @read_only.setter
    def read_only(self, read_only: bool) -> None:
        self._read_only = read_only
        self._go_on()

    def accept(self, connection: Connection) -> OnBodies:
        """A client connected; returns what takes its frames."""

        def on_bodies(bodies: Sequence[bytes]) -> None:
            self._handle(connection, bodies)

        return on_bodies

    def _handle(self, connection: Connection, bodies: Sequence[bytes]) -> None:
        """All requests of one receive."""
        answers: list[bytes] = []
        adds: list[Pending] = []
        fences: list[Pending] = []
        for request in decode_requests(bodies):
            if isinstance(request, AddRequest):
                self._add(connection, request, answers, adds)
            elif isinstance(request, ReadRequest):
                self._read(connection, request, answers, fences)
            else:
                answers.append(encode_bad_request(request))
        if answers:
            connection.send(answers)
        if adds and self._recorder.listening:
            self._record_adds(adds)
        if adds or fences:
            self._wait(adds + fences)
            self._checkpoints.consider()
        if self._must_hold:
            # Back-pressure: the client's frames wait in its own buffers.
            connection.pause()
            self._held.append(connection)

    def _add(
        self,
        connection: Connection,
        request: AddRequest,
        answers: list[bytes],
        adds: list[Pending],
    ) -> None:
        ledger_id, entry_id, flags, master_key, entry = request
        if self.read_only and not flags & Flag.HIGH_PRIORITY:
            answers.append(encode_answer(Opcode.ADD, Code.READ_ONLY, ledger_id, entry_id))
            return
        recovery = bool(flags & Flag.RECOVERY_ADD)
        try:
            mark = self._store.add_entry(ledger_id, entry_id, entry, master_key, recovery=recovery)
        except (LedgerFencedException, UnauthorizedAccessException, *_UNREADABLE) as error:
            code = _code_of(error)
            answers.append(encode_answer(Opcode.ADD, code, ledger_id, entry_id))
        else:
            answer = encode_answer(Opcode.ADD, Code.OK, ledger_id, entry_id)
            adds.append(Pending(connection, answer, ledger_id, entry_id, mark))

    def _read(
        self,
        connection: Connection,
        request: ReadRequest,
        answers: list[bytes],
        fences: list[Pending],
    ) -> None:
        ledger_id, entry_id, flags, master_key = request
        mark: LogMark | None = None
        try:
            if flags & Flag.FENCE:
                mark = self._fence(ledger_id, master_key)
            in_memory = self._store.is_in_memory(ledger_id, entry_id)
            entry = self._store.read_entry(ledger_id, entry_id)
        except (*_REFUSALS, *_UNREADABLE) as error:
            answer = encode_answer(Opcode.READ, _code_of(error), ledger_id, entry_id)
        else:
            if self._recorder.listening and entry_id >= 0:
                where = "in the memtable" if in_memory else "in the entry log"
                self._recorder.record("read.served", ledger_id, entry_id, note=where)
            answer = encode_answer(Opcode.READ, Code.OK, ledger_id, entry_id, entry)
        if mark is None:
            answers.append(answer)
        else:
            # A negative answer, too, tells the reader that this ledger is fenced here.
            fences.append(Pending(connection, answer, ledger_id, NO_ENTRY_ID, mark))

    def _fence(self, ledger_id: int, master_key: bytes) -> LogMark:
        if len(master_key) != MASTER_KEY_SIZE:
            raise UnauthorizedAccessException("a fencing read needs the ledger's master key")
        mark = self._store.fence(ledger_id, master_key)
        self._recorder.record("ledger.fenced", ledger_id)
        return mark

    def _wait(self, pending: list[Pending]) -> None:
        """Each answer waits for the journal that its ledger's records go to."""
        count = len(self._commits)
        if count == 1:
            self._commits[0].wait(pending)
            return
        for number, commit in enumerate(self._commits):
            if mine := [item for item in pending if item.ledger_id % count == number]:
                commit.wait(mine)

    @property
    def _must_hold(self) -> bool:
        """Whether clients must wait.  A read-only bookie refuses instead, so reads go on."""
        return self._store.is_overfull and not self._read_only

    def _go_on(self) -> None:
        """Something was written: there may be room for those who were held back."""
        if self._held and not self._must_hold:
            held, self._held = self._held, []
            for connection in held:
                connection.resume()

    def _record_adds(self, adds: list[Pending]) -> None:
        entries = [(add.ledger_id, add.entry_id) for add in adds]
        self._recorder.record_entries("memtable.put", entries)
        for add in adds:
            self._recorder.record(
                "journal.appended",
                add.ledger_id,
                add.entry_id,
                file=add.mark.file_name,
                offset=add.mark.offset,
            )


_REFUSALS = (
    LedgerFencedException,
    UnauthorizedAccessException,
    NoLedgerException,
    NoEntryException,
)
_UNREADABLE = (StorageDamagedException, OSError)

_CODES: dict[type[Exception], Code] = {
    LedgerFencedException: Code.FENCED,
    UnauthorizedAccessException: Code.UNAUTHORIZED,
    NoLedgerException: Code.NO_LEDGER,
    NoEntryException: Code.NO_ENTRY,
}


def _code_of(error: Exception) -> Code:
    """Only what is certain gets a code of its own; all else is "could not"."""
    return _CODES.get(type(error), Code.IO_ERROR)
