"""The clients of a chaos run, which write, read, recover and delete ledgers.

An inconclusive error (because a bookie did not respond, or too few bookies responded) is counted,
and the client continues, as an application would. An error that denies the existence of a confirmed
entry is a broken promise unless the ledger has been deleted.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.reader import LedgerReader
from labkit.system.client.writer import LedgerWriter
from labkit.system.model.errors import (
    BKNoSuchEntryException,
    BKNoSuchLedgerExistsException,
    LabkitError,
)
from tests.chaos.book import Book, Page, payload

SHAPES = ((3, 3, 2), (3, 3, 2), (3, 2, 2), (4, 3, 2), (3, 3, 3), (4, 2, 1))
"""E, Qw and Qa: ledgers with at least two copies, and at least one spare bookie as a
replacement.
"""
LONGEST_LEDGER = 400
LONGEST_BURST = 12
BETWEEN_BURSTS_S = 0.4
AFTER_AN_ERROR_S = 0.3
STUCK_S = 90.0
"""Longer than all timeouts of a client combined."""
RECENT = 8
KEPT_LEDGERS = 40
"""Ledgers older than the newest 40 are deleted once they have been closed and read completely."""
READ_AT_ONCE = 200
AWAY_S = 8.0
"""Bookies collect a deleted ledger within 2 s unless they are affected by a fault."""
DENIES = (BKNoSuchEntryException, BKNoSuchLedgerExistsException)


class Load:
    """Clients that keep a cluster busy until `stop` is called."""

    def __init__(self, book: Book, seed: int) -> None:
        self._book = book
        self._seed = seed
        self._is_over = False

    def stop(self) -> None:
        """Let every client stop after its current operation."""
        self._is_over = True

    async def write(self, client: BookKeeper, name: str) -> None:
        """Write one ledger after another, and close or abandon each ledger, or lose it to a
        recovery.
        """
        lots = random.Random(f"{self._seed} {name}")
        while not self._is_over:
            page: Page | None = None
            async with self._attempt(name, "writers ended"):
                writer = await client.create_ledger(*lots.choice(SHAPES))
                page = self._book.pages[writer.ledger_id] = Page()
                self._book.count("ledgers written")
                await self._fill(writer, lots)
                await self._finish(writer, page, lots)
            if page is not None and page.end is None:
                page.is_left = True

    async def _fill(self, writer: LedgerWriter, lots: random.Random) -> None:
        left = lots.randrange(1, LONGEST_LEDGER)
        while left > 0 and not self._is_over:
            for _ in range(min(left, lots.randrange(1, LONGEST_BURST))):
                entry_id = writer.last_add_pushed + 1
                added = writer.add(payload(writer.ledger_id, entry_id))
                added.add_done_callback(partial(self._added, writer.ledger_id))
                left -= 1
            await asyncio.sleep(lots.uniform(0, BETWEEN_BURSTS_S))
            await writer.drain()

    async def _finish(self, writer: LedgerWriter, page: Page, lots: random.Random) -> None:
        end = lots.random()
        if end < 0.5:
            await writer.all_confirmed()
        if end < 0.7:
            await writer.close()
            self._book.ends(writer.ledger_id, writer.last_add_confirmed)
        # In all other cases, leave the ledger open, as a crashed writer would.

    def _added(self, ledger_id: int, added: asyncio.Future[int]) -> None:
        if not added.cancelled() and added.exception() is None:
            self._book.confirmed(ledger_id, added.result())

    async def read(self, client: BookKeeper, name: str) -> None:
        """Read the confirmed entries of a recent ledger, then follow its writer for a while."""
        lots = random.Random(f"{self._seed} {name}")
        while not self._is_over:
            ledger_id = self._recent(lots)
            async with self._attempt(name, "reads failed", ledger_id):
                await self._follow(client, ledger_id, lots)
            await asyncio.sleep(lots.uniform(0, BETWEEN_BURSTS_S))

    async def _follow(self, client: BookKeeper, ledger_id: int, lots: random.Random) -> None:
        if ledger_id < 0:
            return
        reader = await client.open_ledger_no_recovery(ledger_id)
        first = lots.randrange(max(1, reader.last_add_confirmed + 1))
        last = min(reader.last_add_confirmed, first + READ_AT_ONCE)
        if first <= last:
            for entry in await reader.read_entries(first, last):
                self._book.read(entry)
        for entry_id in range(last + 1, last + 1 + lots.randrange(20)):
            _, found = await reader.read_last_add_confirmed_and_entry(entry_id, 1.0)
            if found is None:
                break
            self._book.read(found)
        if reader.is_closed:
            self._book.ends(ledger_id, reader.last_add_confirmed)

    async def recover(self, client: BookKeeper, name: str) -> None:
        """Open ledgers with recovery and read them, giving preference to abandoned ones."""
        lots = random.Random(f"{self._seed} {name}")
        while not self._is_over:
            await asyncio.sleep(lots.uniform(0.2, 3.0))
            ledger_id = self._to_recover(lots)
            async with self._attempt(name, "recoveries failed", ledger_id):
                await self.open_and_read(client, ledger_id)

    async def delete(self, client: BookKeeper, name: str) -> None:
        """Read old ledgers one last time and delete them."""
        while not self._is_over:
            await asyncio.sleep(AFTER_AN_ERROR_S)
            for ledger_id in self._book.kept[:-KEPT_LEDGERS]:
                async with self._attempt(name, "deletions failed", ledger_id):
                    await self.open_and_read(client, ledger_id)
                    self._book.pages[ledger_id].is_deleted = True
                    await client.delete_ledger(ledger_id)
                    self._book.count("ledgers deleted")

    async def come_back(self, client: BookKeeper, name: str) -> None:
        """Write to a ledger, delete it, pause, and write to it again.

        The trace shows whether a bookie accepted the late entry.
        """
        lots = random.Random(f"{self._seed} {name}")
        while not self._is_over:
            async with self._attempt(name, "late writers ended"):
                writer = await client.create_ledger(*lots.choice(SHAPES))
                self._book.pages[writer.ledger_id] = Page(is_deleted=True)
                await writer.add(payload(writer.ledger_id, 0))
                await client.delete_ledger(writer.ledger_id)
                await asyncio.sleep(lots.uniform(0, AWAY_S))
                self._book.count("ledgers written to after their deletion")
                for entry_id in range(1, lots.randrange(2, LONGEST_BURST)):
                    await writer.add(payload(writer.ledger_id, entry_id))

    async def open_and_read(self, client: BookKeeper, ledger_id: int) -> None:
        """Open the ledger with recovery and read all of its entries."""
        if ledger_id < 0:
            return
        reader: LedgerReader = await client.open_ledger(ledger_id)
        self._book.count("ledgers opened")
        self._book.ends(ledger_id, reader.last_add_confirmed)
        async for entry in reader.read():
            self._book.read(entry)

    def _recent(self, lots: random.Random) -> int:
        return lots.choice(self._book.kept[-RECENT:] or [-1])

    def _to_recover(self, lots: random.Random) -> int:
        """Return an abandoned ledger half of the time; otherwise any recent one."""
        pages = self._book.pages
        left = [n for n in self._book.kept if pages[n].is_left and pages[n].end is None]
        return lots.choice(left) if left and lots.random() < 0.5 else self._recent(lots)

    @asynccontextmanager
    async def _attempt(
        self, name: str, failed: str, ledger_id: int | None = None
    ) -> AsyncIterator[None]:
        """Count an error of the block as `failed`. The block must end in time, and must not deny
        the existence of an entry of the ledger, if one is given.
        """
        try:
            async with asyncio.timeout(STUCK_S):
                yield
        except LabkitError as error:
            kept = ledger_id is not None and not self._book.pages[ledger_id].is_deleted
            if kept and isinstance(error, DENIES):
                self._book.wrong(f"{name} learned of a confirmed entry: {error}")
            self._book.count(f"{failed} ({type(error).__name__})")
            await asyncio.sleep(AFTER_AN_ERROR_S)
        except TimeoutError:
            self._book.wrong(f"{name} was stuck for {STUCK_S:g} s")
