"""Reads a ledger, which may be closed or still being written, without disturbing its writer.

A reader never reads beyond LastAddConfirmed. It learns LastAddConfirmed from the entries that
bookies store (`read_last_add_confirmed`), from explicit LACs (`read_explicit_last_add_confirmed`),
from long polls (`read_last_add_confirmed_and_entry`), or from the metadata of a closed ledger.

In BookKeeper: `client/ReadOnlyLedgerHandle.java`, `client/LedgerHandle.java` (its reads).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import ClassVar

from labkit.system.client.batch_read import BatchReads
from labkit.system.client.context import ClientContext
from labkit.system.client.lac_reads import LacReads
from labkit.system.client.metadata_update import with_credentials
from labkit.system.client.reads import BookieReads, SequenceRead, bookies_by_entry
from labkit.system.metadata.store import MetadataUnavailableError
from labkit.system.model.entry import NO_ENTRY_ID, Entry
from labkit.system.model.errors import PROVES_ABSENCE, BKException, BKReadException
from labkit.system.model.ledger import LedgerMetadata, LedgerState

_CHUNK_SIZE = 256
"""How many entries `read` requests in parallel; enough to keep every bookie busy."""


class LedgerReader:
    """Reads entries up to LastAddConfirmed, and notices when the ensemble changes or the ledger is
    closed.

    Invariant: every returned entry was confirmed and has a correct digest, so all later readers get
    the same entry.
    """

    reads_class: ClassVar[type[BookieReads]] = BookieReads

    def __init__(self, ledger_id: int, metadata: LedgerMetadata, context: ClientContext) -> None:
        self.ledger_id = ledger_id
        self.metadata = metadata
        self.last_add_confirmed = metadata.last_entry_id
        self._context = context
        self.bookie_reads = self.reads_class(ledger_id, metadata, context)
        self.batch_reads = BatchReads(ledger_id, metadata, context)
        self._lac_reads = LacReads(ledger_id, metadata, context)
        self._changed: asyncio.Future[None] | None = None
        """Done once the metadata has changed since it was last read; None before the first read."""

    @property
    def is_closed(self) -> bool:
        return self.metadata.state is LedgerState.CLOSED

    @property
    def is_watching(self) -> bool:
        """Whether a watch is set, so that `metadata` is up to date."""
        return self._changed is not None and not self._changed.done()

    # LastAddConfirmed

    async def read_last_add_confirmed(self) -> int:
        """Ask the bookies for the LastAddConfirmed in their newest entries, unless the ledger is
        closed. This ignores explicit LACs.

        Bookies learn this value from entries. So the newest entry of an open ledger is not reported
        as confirmed until the next entry has been stored. Raises `BKReadException` if too few
        bookies respond.
        """
        if not await self.check_closed():
            entries = await self.bookie_reads.last_entries(self.metadata)
            self._advance_to(max((e.last_add_confirmed for e in entries), default=NO_ENTRY_ID))
        return self.last_add_confirmed

    async def try_read_last_add_confirmed(self) -> int:
        """Like `read_last_add_confirmed`, but return as soon as one bookie reports progress. The
        result may therefore be too low. Raises `BKReadException` if no bookie responds.
        """
        if await self.check_closed():
            return self.last_add_confirmed
        ensemble = self.metadata.segments[-1].ensemble
        replies = self.bookie_reads.ask_all(ensemble, NO_ENTRY_ID)
        has_response = False
        for _ in ensemble:
            _, reply = await replies.get()
            has_response = has_response or isinstance(reply, (Entry, *PROVES_ABSENCE))
            if isinstance(reply, Entry) and reply.last_add_confirmed > self.last_add_confirmed:
                self._advance_to(reply.last_add_confirmed, detail="the first response")
                return self.last_add_confirmed
        if not has_response:
            raise BKReadException(
                f"cannot read LastAddConfirmed of ledger {self.ledger_id}: none of"
                f" {', '.join(ensemble)} responded"
            )
        return self.last_add_confirmed

    async def read_last_add_confirmed_and_entry(
        self, entry_id: int, timeout_s: float
    ) -> tuple[int, Entry | None]:
        """Wait until an entry is confirmed and read it. Return LastAddConfirmed and the entry.

        The entry is None if the ledger is closed at an earlier entry, or if `timeout_s` expires.
        Raises the errors of `read_entry` and `LacReads.long_poll`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while entry_id > self.last_add_confirmed and not await self.check_closed():
            left_s = deadline - loop.time()
            if left_s <= 0:
                break
            entry = await self._wait_for_change(left_s)
            if entry is not None and entry.entry_id == entry_id:
                return self.last_add_confirmed, entry
        is_confirmed = entry_id <= self.last_add_confirmed
        return self.last_add_confirmed, await self.read_entry(entry_id) if is_confirmed else None

    async def _wait_for_change(self, wait_s: float) -> Entry | None:
        """Wait until LastAddConfirmed advances, the metadata changes, or `wait_s` has elapsed.

        If a response contains the entry after the previous LastAddConfirmed, return that entry.
        """
        if self._changed is None or self._changed.done():
            return None
        lac_before = self.last_add_confirmed
        poll = asyncio.create_task(self._lac_reads.long_poll(self.metadata, lac_before, wait_s))
        try:
            # Also stop when the metadata changes, because either the ledger was closed, or its
            # ensemble was changed and other bookies must be polled.
            await asyncio.wait((poll, self._changed), return_when=asyncio.FIRST_COMPLETED)
        finally:
            poll.cancel()
        if not poll.done():
            return None
        lac, entry = poll.result()
        if lac > lac_before:
            self._advance_to(lac)
        return entry

    async def read_explicit_last_add_confirmed(self) -> int:
        """Like `read_last_add_confirmed`, but also consider explicit LACs."""
        if not await self.check_closed():
            self._advance_to(await self._lac_reads.highest(self.metadata))
        return self.last_add_confirmed

    def _advance_to(self, last_add_confirmed: int, *, detail: str = "") -> None:
        # A bookie that missed the newest entries reports a lower value.
        self.last_add_confirmed = max(self.last_add_confirmed, last_add_confirmed)
        self._context.recorder.record(
            "lac.read", self.ledger_id, self.last_add_confirmed, detail=detail
        )

    # Entries

    async def read(self, first: int = 0, last: int | None = None) -> AsyncIterator[Entry]:
        """Yield the entries from `first` to `last` (default: LastAddConfirmed)."""
        last = self.last_add_confirmed if last is None else last
        for start in range(first, last + 1, _CHUNK_SIZE):
            for entry in await self.read_entries(start, min(last, start + _CHUNK_SIZE - 1)):
                yield entry

    async def read_entry(self, entry_id: int) -> Entry:
        """Read an entry from the first bookie of its write set that has it.

        Raises `BKReadException` if the id is beyond LastAddConfirmed. If no bookie returns the
        entry, raises the `most_informative` of their errors.
        """
        [entry] = await self.read_entries(entry_id, entry_id)
        return entry

    async def read_entries(self, first: int, last: int) -> list[Entry]:
        """Read the entries from `first` to `last` in parallel, like `read_entry`."""
        for entry_id in (first, last):
            self._check_readable(entry_id)
        segments_before = self.metadata.segments
        try:
            return await self._read_from_write_sets(first, last)
        except BKException:
            # The entries may have been moved to other bookies in the meantime.
            with suppress(MetadataUnavailableError):
                await self._read_metadata()
            if self.metadata.segments == segments_before:
                raise
        return await self._read_from_write_sets(first, last)

    async def _read_from_write_sets(self, first: int, last: int) -> list[Entry]:
        bookies = bookies_by_entry(self.metadata, first, last)
        return await SequenceRead(self.bookie_reads, bookies).run()

    async def read_batch(self, first: int, max_count: int, max_size: int) -> list[Entry]:
        """Read entries with one request, starting with `first`.

        Returns at least one entry and at most `max_count` (0: no limit). Their payloads total at
        most `max_size` bytes, unless the first entry alone is larger. If a batch read is not
        possible, reads the entries one by one. Raises the errors of `read_entry`.
        """
        self._check_readable(first)
        available = self.last_add_confirmed - first + 1
        count = min(max_count, available) if max_count > 0 else available
        entries = await self.batch_reads.read(self.metadata, first, count, max_size)
        return entries or await self._read_one_by_one(first, count, max_size)

    async def _read_one_by_one(self, first: int, count: int, max_size: int) -> list[Entry]:
        entries, size = [await self.read_entry(first)], 0
        while len(entries) < count:
            size += len(entries[-1].payload)
            entry = await self.read_entry(first + len(entries))
            if size + len(entry.payload) > max_size:
                break
            entries.append(entry)
        return entries

    def _check_readable(self, entry_id: int) -> None:
        if not 0 <= entry_id <= self.last_add_confirmed:
            raise BKReadException(
                f"entry {entry_id} of ledger {self.ledger_id} is not readable: LastAddConfirmed is"
                f" {self.last_add_confirmed}"
            )

    # Metadata

    async def check_closed(self) -> bool:
        """Return whether the ledger is closed. Read the metadata first if it may have changed."""
        if not self.is_closed and not self.is_watching:
            await self._read_metadata()
        return self.is_closed

    async def _read_metadata(self) -> None:
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_change() -> None:
            if not changed.done():
                changed.set_result(None)

        # The watch may fire before the response arrives.
        metadata, _ = await self._context.manager.read(self.ledger_id, on_change)
        self.metadata = with_credentials(metadata, self.metadata)
        self._changed = changed
        if self.is_closed:
            self._advance_to(self.metadata.last_entry_id)
