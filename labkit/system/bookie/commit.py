"""Group commit: one journal sync makes the records of many requests durable.

While one group of records is being written, the next group is collected, so groups grow with the
load. (By default, BookKeeper also waits two milliseconds for more adds, which is optional here.)

The responses to a group are sent after the sync, except responses to adds with deferred sync, which
are sent after the write. A group that contains only such adds is not synced until another request
needs a sync, or the next group starts a new journal file.

In BookKeeper: `bookie/Journal.java` (run, ForceWriteThread).
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from labkit.system.model.length_prefixed import LENGTH_SIZE
from labkit.system.model.net import Connection
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.journal import Journal, JournalGroup
from labkit.system.storage.log_mark import LogMark
from labkit.system.trace.recorder import Recorder

T = TypeVar("T")


class RunInThread(Protocol):
    """Runs blocking disk operations outside the event loop, one after another."""

    def __call__(self, call: Callable[[], T], /) -> Awaitable[T]: ...


class Pending(NamedTuple):
    """Responses that will be sent after the journal has been synced or, for deferred adds, written.

    All of these ledgers use the same journal. The trace reports `entry_ids`. For adds, `records`
    contains the entries, whose journal records are contiguous and start at `traced_at`.
    """

    connection: Connection
    responses: Sequence[bytes]
    ledger_ids: Sequence[int]
    entry_ids: Sequence[int]
    records: Sequence[bytes]
    traced_at: LogMark
    on_sent: Callable[[], None] | None = None
    """Called once the responses have been sent."""

    def record(self, recorder: Recorder, kind: str, size: int = -1) -> None:
        """Record an event for each entry, with the position of the entry's journal record."""
        file, offset = self.traced_at.file_name, self.traced_at.offset
        # A force request has a ledger but no records, so nothing is recorded for it.
        columns = zip(self.ledger_ids, self.entry_ids, self.records, strict=False)
        for ledger_id, entry_id, record in columns:
            recorder.record(kind, ledger_id, entry_id, file=file, offset=offset, size=size)
            offset += LENGTH_SIZE + len(record)


class GroupCommit:
    def __init__(
        self,
        journal: Journal,
        run_in_journal_thread: RunInThread,
        recorder: Recorder,
        config: StorageConfig,
        on_group_done: Callable[[], None],
    ) -> None:
        """`on_group_done` is called after each group."""
        self.journal = journal
        self._run_in_journal_thread = run_in_journal_thread
        self._recorder = recorder
        self._config = config
        self._on_group_done = on_group_done
        self._waiting: list[Pending] = []
        self._deferred: list[Pending] = []
        self._unsynced: JournalGroup | None = None
        """The last group, if it has been written but not synced."""
        self._to_report: list[Pending] = []
        """Deferred adds to report once synced; filled only if the trace has a listener."""
        self._something_waits = asyncio.Event()
        self._group_is_full = asyncio.Event()

    def respond_later(self, pending: list[Pending], deferred: list[Pending]) -> None:
        """Send the `pending` responses once all records appended so far are durable, and the
        `deferred` ones once their records have been written.
        """
        self._waiting += pending
        self._deferred += deferred
        self._something_waits.set()
        if group_is_full(self.journal.group_bytes, self.journal.group_records, self._config):
            self._group_is_full.set()

    async def run(self) -> None:
        """Write and sync groups of records forever.

        Raises `OSError` if the journal cannot be written or synced; the contents of the disk are
        then unknown, and the bookie must stop.
        """
        while True:
            await self._something_waits.wait()
            if not self._config.journal_flush_when_queue_empty:
                await self._gather()
            # Clear the event first, because requests that arrive during the write set it again.
            self._something_waits.clear()
            group = self.journal.seal()
            ready, self._waiting = self._waiting, []
            deferred, self._deferred = self._deferred, []
            if deferred or self._unsynced is not None:
                await self._write_then_sync(group, deferred, must_sync=bool(ready))
            elif group is not None:
                await self._run_in_journal_thread(partial(self.journal.write_and_sync, group))
                self.journal.note_synced(group)
            self._report(ready)
            _send(ready)
            self._on_group_done()

    async def _write_then_sync(
        self, group: JournalGroup | None, deferred: list[Pending], *, must_sync: bool
    ) -> None:
        """Write and sync a group. Send the `deferred` responses after the write and before the
        sync.
        """
        if group is not None:
            await self._run_in_journal_thread(partial(self.journal.write_unsynced, group))
            self._unsynced = group
            _send(deferred)
            if self._recorder.listening:
                self._to_report += deferred
            # A sync covers only one file, and the next group is written to a new one.
            must_sync = must_sync or group.ends_file
        if must_sync and self._unsynced is not None:
            await self._run_in_journal_thread(self.journal.sync)
            self.journal.note_synced(self._unsynced)
            self._unsynced = None
            synced, self._to_report = self._to_report, []
            self._report(synced)

    async def _gather(self) -> None:
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
    by_connection: dict[Connection, list[bytes]] = {}
    for pending in ready:
        responses = by_connection.setdefault(pending.connection, [])
        responses += pending.responses
    for connection, responses in by_connection.items():
        connection.send(responses)
    for pending in ready:
        if pending.on_sent is not None:
            pending.on_sent()


def group_is_full(group_bytes: int, group_records: int, config: StorageConfig) -> bool:
    """Return whether to write a group without waiting for more records.

    In BookKeeper: `Journal.run` (bufferedWritesThreshold, bufferedEntriesThreshold).
    """
    bytes_limit = config.journal_buffered_writes_threshold
    records_limit = config.journal_buffered_entries_threshold
    return 0 < bytes_limit < group_bytes or 0 < records_limit < group_records
