"""A bookie server: dispatches requests to the protocols and sends their responses.

In BookKeeper: `proto/BookieRequestProcessor.java`, `bookie/BookieImpl.java`.
"""

import asyncio
from collections.abc import Callable, Sequence
from itertools import chain

from labkit.system.bookie.batch_read import source_of
from labkit.system.bookie.channel import Batch, Channel, Pause
from labkit.system.bookie.checkpoints import Checkpoints, OnCheckpointEnd
from labkit.system.bookie.commit import GroupCommit, Pending, RunInThread
from labkit.system.bookie.error_codes import STORAGE_ERRORS
from labkit.system.bookie.long_poll import LongPolls
from labkit.system.bookie.protocol_v2 import ProtocolV2
from labkit.system.bookie.protocol_v3 import ProtocolV3
from labkit.system.bookie.turns import Turns
from labkit.system.model.errors import UnauthorizedAccessException
from labkit.system.model.net import Connection, OnBodies
from labkit.system.model.wire import MASTER_KEY_SIZE
from labkit.system.model.wire_v3 import is_version_3
from labkit.system.storage.log_mark import LogMark
from labkit.system.storage.store import LedgerStore


class Bookie:
    def __init__(
        self,
        store: LedgerStore,
        run_in_journal_threads: Sequence[RunInThread],
        run_in_flush_thread: RunInThread,
        flush_interval_ms: int,
        on_checkpoint_end: OnCheckpointEnd,
        disk_space: Callable[[], tuple[int, int]] = lambda: (0, 0),
    ) -> None:
        """`run_in_journal_threads` contains one runner per journal. `disk_space` returns the total
        and free bytes of the file systems that contain the ledger directories.
        """
        self.disk_space = disk_space
        self._store = store
        self._recorder = store.recorder
        self._commits = [
            GroupCommit(journal, run, store.recorder, store.config, self._resume_clients)
            for journal, run in zip(store.journals, run_in_journal_threads, strict=True)
        ]
        self._checkpoints = Checkpoints(
            store, run_in_flush_thread, flush_interval_ms, self._resume_clients, on_checkpoint_end
        )
        self._polls = LongPolls()
        self._turns = Turns(self._finish)
        self._v2 = ProtocolV2(self, store, self._turns)
        self._v3 = ProtocolV3(self, store, self._polls, run_in_flush_thread, self._turns)
        self._held: dict[Channel, None] = {}
        """Channels that are paused until there is space."""
        self._read_only = False

    async def run(self) -> None:
        """Serve clients until cancelled. Raises `OSError` if a disk fails, and
        `StorageDamagedException` if a checkpoint reads corrupt data. In both cases, the bookie must
        stop.
        """
        failed: list[BaseException] = []
        try:
            async with asyncio.TaskGroup() as group:
                for commit in self._commits:
                    group.create_task(commit.run())
                group.create_task(self._checkpoints.run())
        except* STORAGE_ERRORS as errors:
            failed += errors.exceptions
        if failed:
            # If the error were raised inside `except*`, it would be wrapped in an exception group.
            raise failed[0]

    @property
    def read_only(self) -> bool:
        """Whether the disk monitor has made the bookie read-only (see `rejects_adds`)."""
        return self._read_only

    @read_only.setter
    def read_only(self, read_only: bool) -> None:
        self._read_only = read_only
        self._resume_clients()

    def accept(self, connection: Connection) -> OnBodies:
        """Accept a client, and return the callback that receives its frames. The first frame
        determines the protocol version.
        """
        channel = self._turns.open(connection)
        connection.when_closed(lambda: self._held.pop(channel, None))
        serve: Callable[[Batch, Sequence[bytes]], None] | None = None

        def on_bodies(bodies: Sequence[bytes]) -> None:
            nonlocal serve
            if serve is None:
                serve = self._v3.serve if is_version_3(bodies[0]) else self._v2.serve
            batch = Batch(channel)
            serve(batch, bodies)
            self._finish(batch)

        return on_bodies

    def rejects_adds(self, *, high_priority: bool) -> bool:
        return self._read_only and (not high_priority or self._store.is_overfull)

    def fence(self, ledger_id: int, master_key: bytes) -> LogMark:
        if len(master_key) != MASTER_KEY_SIZE:
            raise UnauthorizedAccessException("a fencing read needs the ledger's master key")
        mark = self._store.fence(ledger_id, master_key)
        self._recorder.record("ledger.fenced", ledger_id)
        self._polls.end_all(ledger_id)
        return mark

    def read(self, ledger_id: int, entry_id: int) -> bytes:
        where = ""
        if self._recorder.listening:
            # Look this up before the read, because a flush that ends during the read may remove the
            # entry from the memtable.
            where = source_of(self._store, ledger_id, entry_id)
        entry = self._store.read_entry(ledger_id, entry_id)
        if where and entry_id >= 0:
            self._recorder.record("read.served", ledger_id, entry_id, detail=where)
        return entry

    def _finish(self, batch: Batch) -> None:
        channel, adds, others, deferred = batch.channel, batch.adds, batch.others, batch.deferred
        if batch.responses:
            channel.connection.send(batch.responses)
        if adds or others or deferred:
            if self._recorder.listening and (adds or deferred):
                self._record_adds(adds + deferred)
            self._respond_later(adds + others, deferred)
            self._checkpoints.start_if_needed()
            if not self._polls.is_empty:
                self._v3.advance_polls(
                    dict.fromkeys(chain.from_iterable(add.ledger_ids for add in adds + deferred))
                )
        self._turns.hold_back(channel)
        if self._must_hold and not channel.is_closed:
            channel.pause(Pause.SPACE)
            self._held[channel] = None

    def _respond_later(self, pending: list[Pending], deferred: list[Pending]) -> None:
        """Pass each response to the group commit of its ledger's journal."""
        if len(self._commits) == 1:  # Fast path, because most bookies have one journal.
            self._commits[0].respond_later(pending, deferred)
            return
        journal_of = self._store.journal_of
        for commit in self._commits:
            own_pending = [p for p in pending if journal_of(p.ledger_ids[0]) is commit.journal]
            own_deferred = [p for p in deferred if journal_of(p.ledger_ids[0]) is commit.journal]
            if own_pending or own_deferred:
                commit.respond_later(own_pending, own_deferred)

    @property
    def _must_hold(self) -> bool:
        """Whether clients must wait for space. Clients of a read-only bookie do not wait, because
        the bookie rejects their adds anyway, and they can still read.
        """
        return self._store.is_overfull and not self._read_only

    def _resume_clients(self) -> None:
        if self._held and not self._must_hold:
            held, self._held = self._held, {}
            for channel in held:
                channel.resume(Pause.SPACE)

    def _record_adds(self, adds: list[Pending]) -> None:
        entries = [ids for add in adds for ids in zip(add.ledger_ids, add.entry_ids, strict=True)]
        self._recorder.record_entries("memtable.put", entries)
        for add in adds:
            add.record(self._recorder, "journal.appended")
