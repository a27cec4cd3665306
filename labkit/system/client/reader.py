"""A reader of a ledger: any number of them, none disturbs the writer.

In BookKeeper: `client/ReadOnlyLedgerHandle.java`, `client/LedgerHandle.java` (its reads).
"""

import asyncio
from collections.abc import AsyncIterator
from typing import ClassVar

from labkit.system.client.batch_read import BatchReads
from labkit.system.client.context import ClientContext
from labkit.system.client.lac_reads import LacReads
from labkit.system.client.reads import BookieReads, SequenceRead, write_sets
from labkit.system.metadata.store import MetadataUnavailableError
from labkit.system.model.entry import NO_ENTRY_ID, Entry
from labkit.system.model.errors import PROVES_ABSENCE, BKException, BKReadException
from labkit.system.model.ledger import LedgerMetadata, LedgerState

_AT_ONCE = 256
"""Entries that `read` asks for together: enough for every bookie to have some to read."""


class LedgerReader:
    """Reads entries up to LastAddConfirmed.

    Invariant: an entry read was confirmed, and its digest is right; so every later reader gets it,
    too.

    A reader may be kept for any time: it learns when the ensemble changes and when the ledger
    is closed.
    """

    reads_class: ClassVar[type[BookieReads]] = BookieReads

    def __init__(self, ledger_id: int, metadata: LedgerMetadata, context: ClientContext) -> None:
        self.ledger_id = ledger_id
        self.metadata = metadata
        self.last_add_confirmed = metadata.last_entry_id
        self._context = context
        self.reads = self.reads_class(ledger_id, metadata, context)
        self.batches = BatchReads(ledger_id, metadata, context)
        self._lacs = LacReads(ledger_id, metadata, context)
        self.is_watching = False
        self._changed: asyncio.Future[None] | None = None
        """Done when the metadata has changed; None while no call waits for that."""

    @property
    def is_closed(self) -> bool:
        """Whether the ledger is known to be closed: nothing comes after LastAddConfirmed."""
        return self.metadata.state is LedgerState.CLOSED

    # How far the writer has confirmed

    async def read_last_add_confirmed(self) -> int:
        """Ask the bookies how far the writer has confirmed; of a closed ledger it is known.

        Finds every confirmation that reached a bookie before this call.  An entry carries the
        LastAddConfirmed of the moment it was packed, so the newest entry of an open ledger shows as
        confirmed only after the next one.  Raises `BKReadException` when too few bookies answer.
        """
        if not await self.check_closed():
            entries = await self.reads.last_entries(self.metadata)
            self._confirmed_to(max((e.last_add_confirmed for e in entries), default=NO_ENTRY_ID))
        return self.last_add_confirmed

    async def try_read_last_add_confirmed(self) -> int:
        """As `read_last_add_confirmed`, but the first bookie that knows more is enough: cheap, but
        more may be confirmed than it returns.  Raises `BKReadException` when none answers.
        """
        if await self.check_closed():
            return self.last_add_confirmed
        ensemble = self.metadata.segments[-1].ensemble
        replies = self.reads.ask_all(ensemble, NO_ENTRY_ID)
        answered = False
        for _ in ensemble:
            _, reply = await replies.get()
            answered = answered or isinstance(reply, (Entry, *PROVES_ABSENCE))
            if isinstance(reply, Entry) and reply.last_add_confirmed > self.last_add_confirmed:
                self._confirmed_to(reply.last_add_confirmed, "the first answer")
                return self.last_add_confirmed
        if not answered:
            raise BKReadException(
                f"LastAddConfirmed of ledger {self.ledger_id}: none of {', '.join(ensemble)}"
                " answers"
            )
        return self.last_add_confirmed

    async def read_last_add_confirmed_and_entry(
        self, entry_id: int, timeout_s: float
    ) -> tuple[int, Entry | None]:
        """Wait until an entry is confirmed, and read it: LastAddConfirmed and the entry.

        No entry if the ledger is closed before it, or after `timeout_s`.  Raises what
        `read_entry` raises, and the most telling error when no bookie can be waited for.
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
        if entry_id > self.last_add_confirmed:
            return self.last_add_confirmed, None
        return self.last_add_confirmed, await self.read_entry(entry_id)

    async def _wait_for_change(self, wait_s: float) -> Entry | None:
        """Until LastAddConfirmed moves, the metadata changes, or the time is up; the entry behind
        LastAddConfirmed if it came along.
        """
        if not self.is_watching:
            return None
        loop = asyncio.get_running_loop()
        known = self.last_add_confirmed
        # A closed ledger has no further news, and a new ensemble must be asked instead.
        changed = self._changed = loop.create_future()
        poll = loop.create_task(self._lacs.long_poll(self.metadata, known, wait_s))
        try:
            await asyncio.wait((poll, changed), return_when=asyncio.FIRST_COMPLETED)
        finally:
            poll.cancel()
        if not poll.done():
            return None
        confirmed, entry = poll.result()
        if confirmed > known:
            self._confirmed_to(confirmed)
        return entry

    async def read_explicit_last_add_confirmed(self) -> int:
        """As `read_last_add_confirmed`, and explicit LACs count, too: so it
        can be the newest entry.  Raises `BKReadException` when too few bookies answer.
        """
        if not await self.check_closed():
            self._confirmed_to(await self._lacs.explicit(self.metadata))
        return self.last_add_confirmed

    def _confirmed_to(self, last_add_confirmed: int, note: str = "") -> None:
        """Never go back: a bookie that missed the newest entries reports less."""
        self.last_add_confirmed = max(self.last_add_confirmed, last_add_confirmed)
        self._context.recorder.record(
            "lac.read", self.ledger_id, self.last_add_confirmed, note=note
        )

    # Entries

    async def read(self, first: int = 0, last: int | None = None) -> AsyncIterator[Entry]:
        """Entries `first` to `last` (default: LastAddConfirmed), one after the other.

        Raises what `read_entry` raises.
        """
        last = self.last_add_confirmed if last is None else last
        for start in range(first, last + 1, _AT_ONCE):
            for entry in await self.read_entries(start, min(last, start + _AT_ONCE - 1)):
                yield entry

    async def read_entry(self, entry_id: int) -> Entry:
        """One entry, from the first bookie of its write set that has it.

        Raises `BKReadException` for an id beyond LastAddConfirmed, else the most telling error of
        the bookies asked: one that proves nothing counts more than "no such entry".
        """
        [entry] = await self.read_entries(entry_id, entry_id)
        return entry

    async def read_entries(self, first: int, last: int) -> list[Entry]:
        """Entries `first` to `last`, all asked for at once.  Raises what `read_entry` raises."""
        for entry_id in (first, last):
            self._check_readable(entry_id)
        ensembles = self.metadata.segments
        try:
            return await self._read_each(first, last)
        except BKException:
            # They may have moved to other bookies: then "no such entry" here would be wrong.
            if not await self._learn_new_ensembles(ensembles):
                raise
        return await self._read_each(first, last)

    async def _read_each(self, first: int, last: int) -> list[Entry]:
        return await SequenceRead(self.reads, write_sets(self.metadata, first, last)).run()

    async def read_batch(self, first: int, max_count: int, max_size: int) -> list[Entry]:
        """Entries from `first` on in one request: at least one, at most `max_count` (0: any number)
        and, after the first, at most `max_size` bytes.

        Bookies answer with what they store in a row, so it needs a ledger with as many copies as
        bookies (E = Qw); of another one, or where a bookie does not know such requests, this reads
        one entry after the other.  Raises what `read_entry` raises.
        """
        self._check_readable(first)
        most = self.last_add_confirmed - first + 1
        count = min(max_count, most) if max_count > 0 else most
        entries = await self.batches.read(self.metadata, first, count, max_size)
        return entries or await self._read_up_to(first, count, max_size)

    async def _read_up_to(self, first: int, count: int, max_size: int) -> list[Entry]:
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
                f"entry {entry_id} of ledger {self.ledger_id}: readable are 0 to"
                f" {self.last_add_confirmed} (LastAddConfirmed)"
            )

    # Metadata

    async def check_closed(self) -> bool:
        """Whether the ledger is closed.  The metadata is read when it may have changed."""
        if not self.is_closed and not self.is_watching:
            await self._read_metadata()
        return self.is_closed

    async def _learn_new_ensembles(self, known: tuple[object, ...]) -> bool:
        """Whether the ledger's ensembles are others than this reader knew."""
        try:
            await self._read_metadata()
        except MetadataUnavailableError:
            return False
        return self.metadata.segments != known

    async def _read_metadata(self) -> None:
        has_changed = False

        def changed() -> None:
            nonlocal has_changed
            has_changed = True
            self.is_watching = False
            if self._changed is not None and not self._changed.done():
                self._changed.set_result(None)

        self.metadata, _ = await self._context.manager.read(self.ledger_id, changed)
        # The watch may have fired before the answer came.
        self.is_watching = not has_changed
        if self.is_closed:
            self._confirmed_to(self.metadata.last_entry_id)
