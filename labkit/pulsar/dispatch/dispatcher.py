"""What every dispatcher does: a task that reads entries while its consumers have permits.

The task sleeps until something changes (an entry is confirmed, a FLOW came, a consumer joined or
left, an entry is to be delivered again), then takes turns until there is nothing to do.  An entry
that cannot be read stays where it is: the task tries again after a pause, and skips nothing.

In Pulsar: `AbstractBaseDispatcher.java`, `PersistentDispatcherMultipleConsumers.readMoreEntries`.
"""

import asyncio
from collections.abc import Sequence

from labkit.model.errors import LabkitError
from labkit.pulsar.dispatch.consumer import Consumer
from labkit.pulsar.dispatch.entry import Entry, read_entry
from labkit.topic.chain import Position
from labkit.topic.cursor import ManagedCursor
from labkit.topic.managed_ledger import ManagedLedger

MAX_ENTRIES = 100
MAX_BYTES = 4 * 1024 * 1024
"""Of one read (Pulsar: dispatcherMaxReadBatchSize, dispatcherMaxReadSizeBytes)."""

_RETRY_S = 0.1


def after(position: Position) -> Position:
    """The place behind an entry, or behind the beginning of a ledger."""
    ledger_id, entry_id = position
    return ledger_id, entry_id + 1


class Dispatcher:
    """Hands a subscription's entries out, from the cursor's mark-delete position on.

    It lives as long as the subscription has consumers.
    """

    def __init__(self, ledger: ManagedLedger, cursor: ManagedCursor) -> None:
        self.consumers: list[Consumer] = []
        self._ledger = ledger
        self._cursor = cursor
        self._next = after(cursor.mark_delete)
        self._messages_per_entry = 1
        self._changed = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(_tell_if_broken)

    def wake(self) -> None:
        """Something changed: look again."""
        self._changed.set()

    def stop(self) -> None:
        """Hand out nothing more."""
        self._task.cancel()

    def add(self, consumer: Consumer) -> None:
        """A consumer joins.  Raises `BrokerError` when it may not."""
        raise NotImplementedError

    def remove(self, consumer: Consumer) -> None:
        """A consumer left: what it did not acknowledge goes to the others."""
        raise NotImplementedError

    def acknowledged(self, consumer: Consumer, positions: Sequence[Position]) -> None:
        """The consumer acknowledged these entries, all of their messages."""
        raise NotImplementedError

    def redeliver(self, consumer: Consumer, positions: Sequence[Position], epoch: int) -> None:
        """The consumer asks for these entries again; for all that it has if none are named."""
        raise NotImplementedError

    async def _turn(self) -> bool:
        """Hand out what can be; whether there may be more to do at once."""
        raise NotImplementedError

    async def _run(self) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                while await self._turn():  # noqa: ASYNC110 - others have their turn
                    await asyncio.sleep(0)
            except LabkitError:  # Too few bookies answer: consumers wait until they do.
                await asyncio.sleep(_RETRY_S)
                self._changed.set()

    async def _read(self, start: Position, max_messages: int) -> list[Entry]:
        """The next entries from `start` on, about as many as hold so many messages."""
        wanted = max(1, min(MAX_ENTRIES, -(-max_messages // self._messages_per_entry)))
        entries = [read_entry(e) for e in await self._ledger.read(start, wanted, MAX_BYTES)]
        if entries:
            messages = sum(entry.message_count for entry in entries)
            self._messages_per_entry = max(1, messages // len(entries))
        return entries


def _tell_if_broken(task: asyncio.Task[None]) -> None:
    """What nobody has foreseen goes to the loop's handler of errors, not to nowhere."""
    if not task.cancelled():
        task.result()
