"""The base class of dispatchers: a task that reads entries while consumers have permits.

The task sleeps until something changes: an entry is confirmed, a FLOW arrives, a consumer joins or
leaves, or an entry must be redelivered. It then calls `dispatch_some` until there is nothing left
to do. If an entry cannot be read, the task does not skip it. Instead, it retries with exponential
backoff, or sooner if a consumer sends a request.

In Pulsar: `AbstractBaseDispatcher.java`, `PersistentDispatcherMultipleConsumers.readMoreEntries`.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from labkit.system.broker.dispatch.consumer import Consumer
from labkit.system.broker.dispatch.entry import MessageEntry, read_entry
from labkit.system.model.errors import LabkitError
from labkit.system.topic.backoff import Backoff
from labkit.system.topic.chain.ledger_chain import Position
from labkit.system.topic.cursors.cursor import ManagedCursor
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.trace.recorder import Recorder

MAX_READ_ENTRIES = 100
MAX_READ_BYTES = 4 * 1024 * 1024
"""Limits for one read (Pulsar: dispatcherMaxReadBatchSize, dispatcherMaxReadSizeBytes)."""


@dataclass(frozen=True, slots=True)
class DispatchContext:
    """The context that all dispatchers of a topic share; `topic` is the topic's full name."""

    topic: str
    wall_clock_ms: Callable[[], int]
    recorder: Recorder
    initial_backoff_ms: int
    max_backoff_ms: int


def after(position: Position) -> Position:
    """Return the next position. For (L, -1), return the position of ledger L's first entry."""
    ledger_id, entry_id = position
    return ledger_id, entry_id + 1


class Dispatcher:
    """Sends entries to a subscription's consumers. Exists only while consumers are connected."""

    def __init__(
        self, ledger: ManagedLedger, cursor: ManagedCursor, context: DispatchContext
    ) -> None:
        self.consumers: list[Consumer] = []
        self._context = context
        self._backoff = Backoff(context.initial_backoff_ms / 1000, context.max_backoff_ms / 1000)
        self._retry_event = asyncio.Event()
        self._ledger = ledger
        self.cursor = cursor
        self.next_position = self._read_position = after(cursor.mark_delete)
        self.messages_per_entry = 1
        self._wake_event = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._on_task_done)
        self.on_failed: Callable[[], None] = lambda: None
        """Called if the dispatcher ends with an uncaught exception."""

    def wake(self) -> None:
        self._wake_event.set()

    def retry(self) -> None:
        """End the pause after a failed read, because a consumer has sent a request."""
        self._retry_event.set()
        self.wake()

    def skip(self) -> None:
        """Continue after the mark-delete position, which an admin or expiry has moved."""
        self.next_position = max(self.next_position, after(self.cursor.mark_delete))
        self.wake()

    def stop(self) -> None:
        self._task.cancel()

    def add(self, consumer: Consumer) -> None:
        """Add a consumer. Raises `BrokerError` if the consumer cannot join."""
        raise NotImplementedError

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer and redeliver its unacknowledged entries to the others."""
        raise NotImplementedError

    def entries_acknowledged(self, consumer: Consumer, positions: Sequence[Position]) -> None:
        """Record that the consumer has completely acknowledged these entries."""
        raise NotImplementedError

    def redeliver(self, consumer: Consumer, positions: Sequence[Position], epoch: int) -> None:
        """Redeliver these entries of the consumer, or all of its entries if the list is empty."""
        raise NotImplementedError

    async def dispatch_some(self) -> bool:
        """Read and send some entries. Return whether there may be more to do immediately."""
        raise NotImplementedError

    async def _run(self) -> None:
        while True:
            await self._wake_event.wait()
            self._wake_event.clear()
            try:
                while await self.dispatch_some():  # noqa: ASYNC110 - let other tasks run
                    await asyncio.sleep(0)
            except LabkitError as error:  # Too few bookies responded.
                await self._pause(error)

    async def _pause(self, error: LabkitError) -> None:
        pause_s = self._backoff.next_pause_s()
        self._context.recorder.record(
            "dispatch.delayed",
            *self._read_position,
            topic=self._context.topic,
            subscription=self.cursor.name,
            explanation=str(error),
            seconds=pause_s,
        )
        # Only a request that arrives after the failed read ends the pause.
        self._retry_event.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._retry_event.wait()
        self._wake_event.set()

    def entries_for_permits(self, permits: int) -> int:
        return max(1, -(-permits // self.messages_per_entry))

    async def read_entries(self, start: Position, max_entries: int) -> list[MessageEntry]:
        self._read_position = start
        wanted = min(MAX_READ_ENTRIES, max_entries)
        entries = [read_entry(e) for e in await self._ledger.read(start, wanted, MAX_READ_BYTES)]
        self._backoff.reset()
        if corrupt := [entry for entry in entries if entry.error is not None]:
            self._discard(corrupt)
        if entries:
            messages = sum(entry.message_count for entry in entries)
            self.messages_per_entry = max(1, messages // len(entries))
        return entries

    def _discard(self, corrupt: Sequence[MessageEntry]) -> None:
        """Acknowledge entries that no client can decode. Otherwise, Pulsar's C++ client would
        disconnect, reconnect, and receive them again.
        """
        self.cursor.acknowledge([entry.position for entry in corrupt])
        for entry in corrupt:
            self._context.recorder.record(
                "entry.discarded",
                *entry.position,
                topic=self._context.topic,
                subscription=self.cursor.name,
                explanation=str(entry.error),
            )

    def _on_task_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled():
            self.on_failed()
            task.result()  # The event loop reports the exception.
