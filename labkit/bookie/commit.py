"""Group commit: answers wait here for the journal sync that covers them.

While one group is being written, the next one gathers; so groups grow with the load and a lone add
waits for nobody.  (BookKeeper by default waits two milliseconds for company; so can this one.)

In BookKeeper: `bookie/Journal.java` (run, ForceWriteThread).
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

from labkit.model.net import Connection
from labkit.storage.config import StorageConfig
from labkit.storage.journal import Journal
from labkit.storage.log_mark import LogMark
from labkit.trace.recorder import Recorder

T = TypeVar("T")


class RunBlocking(Protocol):
    """Runs calls that wait for the disk, off the event loop, one after the other."""

    def __call__(self, call: Callable[[], T], /) -> Awaitable[T]:
        """What the call returns; raises what it raises."""


class Pending(NamedTuple):
    """An answer that may be sent once its journal record, at `mark`, is durable."""

    connection: Connection
    answer: bytes
    ledger_id: int
    entry_id: int
    mark: LogMark


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
        self._something_waits = asyncio.Event()
        self._group_is_full = asyncio.Event()

    def wait(self, pending: list[Pending]) -> None:
        """Hold these answers until their records are durable."""
        self._waiting += pending
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
            self._something_waits.clear()
            group = self._journal.seal()
            if group is None:
                continue
            ready, self._waiting = self._waiting, []
            await self._run_blocking(partial(self._journal.write, group))
            self._journal.mark_synced(group)
            self._release(ready)
            self._on_synced()

    async def _gather(self) -> None:
        """Give the group time to grow."""
        with suppress(TimeoutError):
            async with asyncio.timeout(self._config.journal_max_group_wait_ms / 1000):
                await self._group_is_full.wait()
        self._group_is_full.clear()

    def _release(self, ready: list[Pending]) -> None:
        if self._recorder.listening:
            for pending in ready:
                self._recorder.record(
                    "journal.synced",
                    pending.ledger_id,
                    pending.entry_id,
                    file=pending.mark.file_name,
                    offset=pending.mark.offset,
                    size=len(ready),
                )
        by_connection: dict[int, tuple[Connection, list[bytes]]] = {}
        for pending in ready:
            connection = pending.connection
            by_connection.setdefault(id(connection), (connection, []))[1].append(pending.answer)
        for connection, answers in by_connection.values():
            connection.send(answers)


def group_is_full(group_bytes: int, group_records: int, config: StorageConfig) -> bool:
    """Whether a group waits for no more records.

    In BookKeeper: `Journal.run` (bufferedWritesThreshold, bufferedEntriesThreshold).
    """
    bytes_limit = config.journal_buffered_writes_threshold
    records_limit = config.journal_buffered_entries_threshold
    return 0 < bytes_limit < group_bytes or 0 < records_limit < group_records
