"""Group commit: answers wait here for the journal sync that covers them.

While one group is being written, the next one gathers; so groups grow with the load and a lone add
waits for no other.  (BookKeeper by default waits two milliseconds for more adds; here it is
optional.)

Adds with deferred sync are answered once they are written, before the sync.  A group of nothing
else is not synced at all, until a request waits for a sync or its file ends.

In BookKeeper: `bookie/Journal.java` (run, ForceWriteThread).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from labkit.system.model.length_prefixed import LENGTH_SIZE
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.journal import Journal, JournalGroup
from labkit.system.storage.log_mark import LogMark
from labkit.system.trace.recorder import Recorder

T = TypeVar("T")


class RunBlocking(Protocol):
    """Runs calls that wait for the disk, off the event loop, one after the other."""

    def __call__(self, call: Callable[[], T], /) -> Awaitable[T]:
        """What the call returns; raises what it raises."""


class Sink(Protocol):
    """Takes answers: a client's connection."""

    def send(self, bodies: Sequence[bytes]) -> None:
        """Send them, in one write."""


class Pending(NamedTuple):
    """Answers that may be sent once their journal records are durable.

    `records` are the records' bodies, one for each entry; they lie one behind the other from `mark`
    on, in the journal of all these ledgers.
    """

    connection: Sink
    answers: Sequence[bytes]
    ledger_ids: Sequence[int]
    entry_ids: Sequence[int]
    records: Sequence[bytes]
    mark: LogMark

    def record(self, recorder: Recorder, kind: str, size: int = -1) -> None:
        """Report the same event for each entry, with the place of its journal record."""
        file, offset = self.mark.file_name, self.mark.offset
        # Not strict: a force waits for the journal of a ledger, and has no records.
        columns = zip(self.ledger_ids, self.entry_ids, self.records, strict=False)
        for ledger_id, entry_id, record in columns:
            recorder.record(kind, ledger_id, entry_id, file=file, offset=offset, size=size)
            offset += LENGTH_SIZE + len(record)


class GroupCommit:
    """Writes the journal group by group and releases the answers of each."""

    def __init__(
        self,
        journal: Journal,
        run_blocking: RunBlocking,
        recorder: Recorder,
        config: StorageConfig,
        on_synced: Callable[[], None],
    ) -> None:
        """`on_synced` is called after each group."""
        self._journal = journal
        self._run_blocking = run_blocking
        self._recorder = recorder
        self._config = config
        self._on_synced = on_synced
        self._waiting: list[Pending] = []
        self._deferred: list[Pending] = []
        self._unsynced: JournalGroup | None = None
        """The last group, if it is written and not synced."""
        self._to_report: list[Pending] = []
        """Adds that were answered and are not synced; kept only while the trace has a listener."""
        self._something_waits = asyncio.Event()
        self._group_is_full = asyncio.Event()

    def wait(self, pending: list[Pending], deferred: list[Pending]) -> None:
        """Hold the answers of `pending` until everything up to now is durable, and those of
        `deferred` until their records are written.
        """
        self._waiting += pending
        self._deferred += deferred
        self._something_waits.set()
        if group_is_full(self._journal.group_bytes, self._journal.group_records, self._config):
            self._group_is_full.set()

    async def run(self) -> None:
        """Commit forever.

        Raises `OSError` when the journal cannot be written or synced.  What the disk holds is then
        unknown, so nothing that still waits is ever answered and the bookie must stop.
        """
        while True:
            await self._something_waits.wait()
            if not self._config.journal_flush_when_queue_empty:
                await self._gather()
            # Before the group is sealed: what comes while it is written sets it again.
            self._something_waits.clear()
            group = self._journal.seal()
            # Taken with the group: these answers wait for its records and for no later ones.
            ready, self._waiting = self._waiting, []
            deferred, self._deferred = self._deferred, []
            if deferred or self._unsynced is not None:
                await self._write_then_sync(group, deferred, must_sync=bool(ready))
            elif group is not None:
                await self._run_blocking(partial(self._journal.write, group))
                self._journal.mark_synced(group)
            self._report(ready)
            _send(ready)
            self._on_synced()

    async def _write_then_sync(
        self, group: JournalGroup | None, deferred: list[Pending], *, must_sync: bool
    ) -> None:
        """The answers of `deferred` leave between the two."""
        if group is not None:
            await self._run_blocking(partial(self._journal.put, group))
            self._unsynced = group
            _send(deferred)
            if self._recorder.listening:
                self._to_report += deferred
            # A sync covers one file, and the next group goes into another.
            must_sync = must_sync or group.ends_file
        if must_sync and self._unsynced is not None:
            await self._run_blocking(self._journal.sync)
            self._journal.mark_synced(self._unsynced)
            self._unsynced = None
            synced, self._to_report = self._to_report, []
            self._report(synced)

    async def _gather(self) -> None:
        """Give the group time to grow."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._config.journal_max_group_wait_ms / 1000):
                await self._group_is_full.wait()
        self._group_is_full.clear()

    def _report(self, synced: list[Pending]) -> None:
        if self._recorder.listening:
            size = sum(len(pending.entry_ids) for pending in synced)
            for pending in synced:
                pending.record(self._recorder, "journal.synced", size)


def _send(ready: list[Pending]) -> None:
    """The answers, in one write for each connection."""
    # By identity: a connection need not be hashable.
    by_connection: dict[int, tuple[Sink, list[bytes]]] = {}
    for pending in ready:
        connection = pending.connection
        answers = by_connection.setdefault(id(connection), (connection, []))[1]
        answers += pending.answers
    for connection, answers in by_connection.values():
        connection.send(answers)


def group_is_full(group_bytes: int, group_records: int, config: StorageConfig) -> bool:
    """Whether a group waits for no more records.

    In BookKeeper: `Journal.run` (bufferedWritesThreshold, bufferedEntriesThreshold).
    """
    bytes_limit = config.journal_buffered_writes_threshold
    records_limit = config.journal_buffered_entries_threshold
    return 0 < bytes_limit < group_bytes or 0 < records_limit < group_records
