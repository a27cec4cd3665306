"""The cluster as a learner's client sees it: requests to single bookies, and versioned metadata.

Which bookie to ask, how many answers are enough and what an error proves is the learner's part.
Everything that is asked and answered here is reported to the trace, so that `labkit.system.check`
judges the learner's client as it judges labkit's.
"""

import asyncio
import zlib
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from labkit.system.client.context import ClientContext
from labkit.system.client.reads import BookieReads
from labkit.system.model.entry import NO_ENTRY_ID, Entry, encode_entry, make_digest, make_master_key
from labkit.system.model.errors import BKException
from labkit.system.model.ledger import LedgerMetadata, LedgerState, Segment
from labkit.system.model.wire import Flag, encode_add

T = TypeVar("T")


class Cluster:
    """Bookies and metadata, for one ledger.

    Every call may raise a `LabkitError`: of a bookie a `BKException`, and of metadata also
    `MetadataUnavailableError`, after which a change may or may not be stored.
    """

    def __init__(self, ledger_id: int, metadata: LedgerMetadata, context: ClientContext) -> None:
        self.ledger_id = ledger_id
        self._context = context
        self._recorder = context.recorder
        self._reads = BookieReads(ledger_id, metadata, context)
        self._digest = make_digest(metadata.digest_type, metadata.password)
        self._master_key = make_master_key(metadata.password)
        self.is_closed = False
        """Whether the metadata said so when they were read or written last."""
        self._known: tuple[Segment, ...] = metadata.segments
        """The segments that the trace has."""
        self._before_request: Callable[[int], None] = _nothing
        self._failed: Callable[[BaseException], None] = _raise

    # Bookies

    async def add_entry(self, bookie: str, entry: Entry, *, recovery: bool = False) -> None:
        """Store the entry on that bookie; returns when it is on its disk.

        Raises `BKLedgerFencedException` when the bookie takes no more of this ledger's adds, unless
        it is a `recovery` add, and another `BKException` when the bookie is down, silent for 5 s or
        cannot write: the bookie may still have the entry.
        """
        self._before_request(NO_ENTRY_ID)
        added: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        flags = Flag.RECOVERY_ADD | Flag.HIGH_PRIORITY if recovery else 0
        request = encode_add(self._master_key, encode_entry(entry, self._digest), flags)
        self._recorder.record("add.sent", self.ledger_id, entry.entry_id, peer=bookie)
        client = self._context.bookies.get(bookie)
        client.add(self.ledger_id, entry.entry_id, request, _added, added)
        kind, note = "add.acked", ""
        try:
            await added
        except BKException as error:
            kind, note = "add.failed", type(error).__name__
            raise
        finally:
            self._recorder.record(kind, self.ledger_id, entry.entry_id, peer=bookie, note=note)

    async def read_entry(self, bookie: str, entry_id: int, *, fence: bool = False) -> Entry:
        """That bookie's copy of an entry, its digest checked.  With `fence` the bookie takes no
        more adds to this ledger but recovery's, before it answers.

        Raises `BKNoSuchEntryException` or `BKNoSuchLedgerExistsException` (both are in
        `PROVES_ABSENCE`) when the bookie looked and has no copy, and another `BKException` when
        that is not known: it is down, silent, or cannot read what it has.
        """
        self._before_request(entry_id)
        key = self._master_key if fence else b""
        replied: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()

        def on_reply(_: str, __: int, reply: Entry | BKException) -> None:
            if replied.done():
                return  # The one who asked was cancelled.
            if isinstance(reply, Entry):
                replied.set_result(reply)
            else:
                replied.set_exception(reply)

        self._reads.ask(bookie, entry_id, on_reply, fence_key=key)
        return await replied

    async def read_last_entry(self, bookie: str, *, fence: bool = False) -> Entry:
        """The entry with the highest id that the bookie has of this ledger; raises as
        `read_entry`.  Its `last_add_confirmed` is what the writer had confirmed when it packed it.
        """
        return await self.read_entry(bookie, NO_ENTRY_ID, fence=fence)

    async def writable_bookies(self) -> list[str]:
        """All bookies that take writes now, sorted by name."""
        return await self._context.watcher.writable()

    # Metadata

    async def read_metadata(self) -> tuple[LedgerMetadata, int]:
        """The ledger's metadata as stored now, and their version."""
        metadata, version = await self._context.manager.read(self.ledger_id)
        self._record_segments(metadata)
        self.is_closed = metadata.state is LedgerState.CLOSED
        return metadata, version

    async def write_metadata(self, metadata: LedgerMetadata, version: int) -> int:
        """Store the metadata if the stored ones still have that version; returns the new version.

        Raises `BKMetadataVersionException` when another client was first: nothing was stored.
        """
        wanted = replace(metadata, c_token=0)
        version = await self._context.manager.write(self.ledger_id, wanted, version)
        self._record_segments(metadata)
        self.is_closed = metadata.state is LedgerState.CLOSED
        if self.is_closed:
            last, length = metadata.last_entry_id, metadata.length
            self._recorder.record("ledger.closed", self.ledger_id, last, size=length)
        return version

    # Tasks

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run it beside what runs now, from the next turn of the event loop on.

        An error that it does not catch itself is a mistake of its author, and `check` shows it.
        """
        asyncio.get_running_loop().create_task(coroutine).add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._failed(error)

    # For the adapter

    def watch(
        self, failed: Callable[[BaseException], None], before_request: Callable[[int], None]
    ) -> None:
        """Report uncaught errors, and call a function with the entry that is
        looked for, or -1, before each request to a bookie.
        """
        self._failed, self._before_request = failed, before_request

    def pushed(self, entry_id: int, payload: bytes) -> None:
        """Report that the writer's caller handed it this entry."""
        note = f"{zlib.crc32(payload):08x}"
        self._recorder.record("add.pushed", self.ledger_id, entry_id, size=len(payload), note=note)

    def record(self, kind: str, entry_id: int = NO_ENTRY_ID, note: str = "") -> None:
        """Report what the learner's client has come to."""
        self._recorder.record(kind, self.ledger_id, entry_id, note=note)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The segments as this client read or wrote them last."""
        return self._known

    def _record_segments(self, metadata: LedgerMetadata) -> None:
        for segment in metadata.segments:
            if segment not in self._known:
                names = ",".join(segment.ensemble)
                self.record("ensemble.set", segment.first_entry_id, names)
        self._known = metadata.segments


def _added(stored: "Sequence[asyncio.Future[None]]", error: BKException | None) -> None:
    for added in stored:
        if added.done():
            continue
        if error is None:
            added.set_result(None)
        else:
            added.set_exception(error)


def _nothing(_: int) -> None:
    pass


def _raise(error: BaseException) -> None:
    raise error
