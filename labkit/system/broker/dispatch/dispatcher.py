"""What every dispatcher does: a task that reads entries while its consumers have permits.

The task sleeps until something changes (an entry is confirmed, a FLOW came, a consumer joined or
left, an entry must be delivered again), then takes turns until there is nothing to do.  An entry
that cannot be read stays where it is: the task tries again after a pause, longer each time, or when
a consumer asks for more; it skips nothing.

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
from labkit.system.topic.chain.chain import Position
from labkit.system.topic.cursors.cursor import ManagedCursor
from labkit.system.topic.managed_ledger import ManagedLedger
from labkit.system.trace.recorder import Recorder

MAX_ENTRIES = 100
MAX_BYTES = 4 * 1024 * 1024
"""Limits of one read (Pulsar: dispatcherMaxReadBatchSize, dispatcherMaxReadSizeBytes)."""


@dataclass(frozen=True, slots=True)
class DispatchContext:
    """Shared by all dispatchers of the topic with this full name.

    After a failed read the next one waits `first_pause_ms`, then longer, up to `longest_pause_ms`.
    """

    topic: str
    wall_clock_ms: Callable[[], int]
    recorder: Recorder
    first_pause_ms: int
    longest_pause_ms: int


def after(position: Position) -> Position:
    """The position after this one; after (L, -1), the first entry of L."""
    ledger_id, entry_id = position
    return ledger_id, entry_id + 1


class Dispatcher:
    """Hands a subscription's entries out, from the cursor's mark-delete position on.

    It lives as long as the subscription has consumers.
    """

    def __init__(
        self, ledger: ManagedLedger, cursor: ManagedCursor, context: DispatchContext
    ) -> None:
        self.consumers: list[Consumer] = []
        self._context = context
        self._pauses = Backoff(context.first_pause_ms / 1000, context.longest_pause_ms / 1000)
        self._asked = asyncio.Event()
        self._ledger = ledger
        self.cursor = cursor
        self.next_position = self._reading = after(cursor.mark_delete)
        self.messages_per_entry = 1
        self._changed = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(_raise_error)

    def wake(self) -> None:
        """Let the task look again: something changed."""
        self._changed.set()

    def retry(self) -> None:
        """Look again at a consumer's request, without the pause after a failed read."""
        self._asked.set()
        self.wake()

    def skip(self) -> None:
        """Continue after mark-delete: an administrator has acknowledged entries."""
        self.next_position = max(self.next_position, after(self.cursor.mark_delete))
        self.wake()

    def stop(self) -> None:
        """Hand out nothing more."""
        self._task.cancel()

    def add(self, consumer: Consumer) -> None:
        """Add a consumer.  Raises `BrokerError` when it may not join."""
        raise NotImplementedError

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer: its unacknowledged entries go to the others."""
        raise NotImplementedError

    def acknowledged(self, consumer: Consumer, positions: Sequence[Position]) -> None:
        """Note that the consumer acknowledged these entries, all of their messages."""
        raise NotImplementedError

    def redeliver(self, consumer: Consumer, positions: Sequence[Position], epoch: int) -> None:
        """Deliver these entries of the consumer again; all that it has if none are named."""
        raise NotImplementedError

    async def turn(self) -> bool:
        """Hand out entries; returns whether there may be more to do at once."""
        raise NotImplementedError

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                while await self.turn():  # noqa: ASYNC110 - others have their turn
                    await asyncio.sleep(0)
            except LabkitError as error:  # Too few bookies answer: consumers wait until they do.
                await self._pause(error)

    async def _pause(self, error: LabkitError) -> None:
        pause_s = self._pauses.failed()
        note = f"{self.cursor.name} of {self._context.topic}: {error}; for {pause_s:g} s"
        self._context.recorder.record("dispatch.delayed", *self._reading, note=note)
        # Only a later request shortens the pause: the failure has answered the earlier ones.
        self._asked.clear()
        with suppress(TimeoutError):
            async with asyncio.timeout(pause_s):
                await self._asked.wait()
        self._changed.set()

    def entries_for(self, permits: int) -> int:
        """How many entries have about as many messages as there are permits."""
        return max(1, -(-permits // self.messages_per_entry))

    async def read_entries(self, start: Position, max_entries: int) -> list[MessageEntry]:
        """The next entries from `start` on."""
        self._reading = start
        wanted = min(MAX_ENTRIES, max_entries)
        entries = [read_entry(e) for e in await self._ledger.read(start, wanted, MAX_BYTES)]
        self._pauses.succeeded()
        if entries:
            messages = sum(entry.message_count for entry in entries)
            self.messages_per_entry = max(1, messages // len(entries))
        return entries


def _raise_error(task: asyncio.Task[None]) -> None:
    """Hand an unexpected error to the loop's exception handler, so that it is not lost."""
    if not task.cancelled():
        task.result()
