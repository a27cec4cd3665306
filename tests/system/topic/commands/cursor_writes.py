"""The commands of the scripts for a cursor's writes: cursor `s` on a ledger with entries 0 to 99.

    cursor 5000          open it with this interval between writes, in ms
    reader               open a cursor without a store
    ack 4                acknowledge everything up to an entry
    batch 4 0 2          acknowledge a batch of three messages, except these
    seek 5, seek latest
    flush, close, delete, stop
    begin flush          call a method, and do not wait for it
    fail, fence, succeed let the calls of the store fail, or succeed again
    slow 3               let each call of the store last 3 seconds
    until 30             wait until that time
    state                print the mark-delete positions in memory and in the store
    batches              print how many batches are partly acknowledged, and the rest of batch 4

Every line of commands is followed by the calls of the store and their times, by "reported" if the
cursor reported a failed one, and by errors.
"""

import asyncio
from collections.abc import Callable
from typing import cast

from labkit.system.model.errors import BKWriteException, LabkitError
from labkit.system.topic.chain.guarded_node import ManagedLedgerFencedError
from labkit.system.topic.chain.ledger_chain import LedgerChain, LedgerInfo
from labkit.system.topic.cursors.acknowledged import CursorState
from labkit.system.topic.cursors.cursor import ManagedCursor
from labkit.system.topic.cursors.cursor_store import CursorStore
from tests.scripts import Commands

FENCED = ManagedLedgerFencedError("another owner")


class _Store:
    """A store whose calls last `lasts_s`, and fail while `error` is set."""

    def __init__(self, print_line: Callable[[str], None]) -> None:
        self.cursor_properties = (("filter", "a"),)
        self.error: LabkitError | None = None
        self.lasts_s = 0.0
        self._print_line = print_line

    async def write(self, state: CursorState) -> None:
        await self._call(f"write {state.mark_delete[1]}")

    async def close(self, state: CursorState) -> None:
        await self._call(f"close {state.mark_delete[1]}")

    async def delete(self) -> None:
        await self._call("delete")

    def report(self, error: LabkitError) -> None:
        self._print_line("reported")

    async def _call(self, name: str) -> None:
        self._print_line(f"{asyncio.get_running_loop().time():.1f} s {name}")
        if self.lasts_s:
            await asyncio.sleep(self.lasts_s)
        if self.error is not None:
            raise self.error


class CursorWritesCommands(Commands):
    def __init__(self) -> None:
        super().__init__([])
        self._store = _Store(self.print_line)
        self._begun: set[asyncio.Task[None]] = set()

    async def play(self, line: str) -> list[str]:
        await self.run(line)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        lines = self.output()
        return ["; ".join(lines)] if lines else []

    def _open(self, interval_ms: int, store: _Store | None) -> None:
        chain = LedgerChain([LedgerInfo(3, 100, 1, 1)])
        self._cursor = ManagedCursor(
            "s",
            CursorState(chain.start),
            chain,
            cast(CursorStore, store) if store else None,
            interval_ms,
            lambda error: self.print_line(f"fenced: {error}"),
        )

    async def cursor(self, interval_ms: int) -> None:
        self._open(interval_ms, self._store)

    async def reader(self) -> None:
        self._open(1000, None)
        properties = dict(self._cursor.cursor_properties)
        self.print_line(f"durable: {self._cursor.is_durable}; properties: {properties}")

    async def ack(self, entry_id: int) -> None:
        self._cursor.acknowledge_up_to((3, entry_id))

    async def batch(self, entry_id: int, *left: int) -> None:
        self._cursor.acknowledge_batch((3, entry_id), 3, sum(1 << index for index in left))

    async def seek(self, start: int | str) -> None:
        await self._cursor.reset("latest" if isinstance(start, str) else (3, start))

    async def flush(self) -> None:
        await self._cursor.flush()

    async def close(self) -> None:
        await self._cursor.close()

    async def delete(self) -> None:
        await self._cursor.delete()

    async def stop(self) -> None:
        self._cursor.stop(FENCED)

    async def begin(self, method: str) -> None:
        self._begun.add(asyncio.create_task(getattr(self._cursor, method)()))
        await asyncio.sleep(0)

    # The store

    async def fail(self) -> None:
        self._store.error = BKWriteException("no bookie responds")

    async def fence(self) -> None:
        self._store.error = FENCED

    async def succeed(self) -> None:
        self._store.error = None

    async def slow(self, lasts_s: float) -> None:
        self._store.lasts_s = lasts_s

    async def until(self, time_s: float) -> None:
        await asyncio.sleep(time_s - asyncio.get_running_loop().time())

    # The state

    async def state(self) -> None:
        memory, store = self._cursor.mark_delete[1], self._cursor.durable_mark_delete[1]
        self.print_line(f"mark-delete: {memory}, stored: {store}")

    async def batches(self) -> None:
        left = self._cursor.unacknowledged_in_batch((3, 4))
        self.print_line(f"partly acknowledged: {self._cursor.batch_count}; left of 4: {left}")
