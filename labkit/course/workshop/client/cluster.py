"""The cluster from the point of view of a learner's client: requests to individual bookies, and
versioned metadata.

The learner decides which bookies to ask, how many responses are enough, and what an error proves.
All requests and responses are recorded in the trace, so `labkit.system.check` checks the learner's
client just as it checks labkit's.
"""

import asyncio
import zlib
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar, Unpack

from labkit.system.client.context import ClientContext
from labkit.system.client.reads import BookieReads
from labkit.system.model.entry import NO_ENTRY_ID, Entry, encode_entry, make_digest, make_master_key
from labkit.system.model.errors import BKException
from labkit.system.model.ledger import LedgerMetadata, LedgerState, Segment
from labkit.system.model.wire import Flag, encode_add
from labkit.system.trace.events import Fields

T = TypeVar("T")


def _raise(error: BaseException) -> None:
    raise error


class Cluster:
    """The bookies and the metadata of one ledger.

    A client needs `ledger_id`, `spawn` and the coroutines. labkit calls the other methods itself,
    to record in the trace what the client does.

    Every call may raise a `LabkitError`. For requests to a bookie, it is a `BKException`. Calls
    that access metadata may also raise `MetadataUnavailableError`, after which a change may or may
    not have been stored.
    """

    def __init__(
        self,
        ledger_id: int,
        metadata: LedgerMetadata,
        context: ClientContext,
        failed: Callable[[BaseException], None] = _raise,
    ) -> None:
        """`failed` is called with the uncaught exceptions of spawned tasks."""
        self.ledger_id = ledger_id
        self._context = context
        self._recorder = context.recorder
        self._reads = BookieReads(ledger_id, metadata, context)
        self._digest = make_digest(metadata.digest_type, metadata.password)
        self._master_key = make_master_key(metadata.password)
        self.is_closed = False
        """Whether the ledger was closed when its metadata was last read or written."""
        self._segments: tuple[Segment, ...] = metadata.segments
        """The segments that this client last read or wrote."""
        self._failed = failed

    # Bookies

    async def add_entry(self, bookie: str, entry: Entry, *, recovery: bool = False) -> None:
        """Store the entry on that bookie, and return once it is on the bookie's disk.

        Raises `BKLedgerFencedException` if the ledger is fenced on the bookie, unless this is a
        `recovery` add. Raises another `BKException` if the bookie is down, does not respond for 5 s
        or cannot write; the bookie may still have stored the entry.
        """
        added: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        flags = Flag.RECOVERY_ADD | Flag.HIGH_PRIORITY if recovery else 0
        request = encode_add(self._master_key, encode_entry(entry, self._digest), flags)
        self.record("add.sent", entry.entry_id, peer=bookie)
        client = self._context.bookie_client.get(bookie)
        client.add(self.ledger_id, entry.entry_id, request, _added, added)
        kind, failure = "add.acked", ""
        try:
            await added
        except BKException as error:
            kind, failure = "add.failed", type(error).__name__
            raise
        finally:
            self.record(kind, entry.entry_id, peer=bookie, error=failure)

    async def read_entry(self, bookie: str, entry_id: int, *, fence: bool = False) -> Entry:
        """Return that bookie's copy of an entry, after checking its digest.

        With `fence`, the bookie fences the ledger before it responds: from then on it accepts only
        recovery adds. Raises `BKNoSuchEntryException` or `BKNoSuchLedgerExistsException` (both in
        `PROVES_ABSENCE`) if the bookie has no copy, and another `BKException` if it is unknown
        whether it has one, because the bookie is down, does not respond or cannot read its copy.
        """
        key = self._master_key if fence else b""
        replied: asyncio.Future[Entry] = asyncio.get_running_loop().create_future()

        def on_reply(_: str, __: int, reply: Entry | BKException) -> None:
            if replied.done():
                return  # The caller was cancelled.
            if isinstance(reply, Entry):
                replied.set_result(reply)
            else:
                replied.set_exception(reply)

        self._reads.ask(bookie, entry_id, on_reply, fence_key=key)
        return await replied

    async def read_last_entry(self, bookie: str, *, fence: bool = False) -> Entry:
        """Return the entry with the highest id that the bookie has of this ledger.

        The returned entry's `last_add_confirmed` is the last entry that the writer had confirmed
        when it created the returned entry. Raises the same errors as `read_entry`.
        """
        return await self.read_entry(bookie, NO_ENTRY_ID, fence=fence)

    async def writable_bookies(self) -> list[str]:
        """Return the names of all writable bookies, sorted."""
        return await self._context.watcher.writable()

    # Metadata

    async def read_metadata(self) -> tuple[LedgerMetadata, int]:
        """Return the ledger's stored metadata and its version."""
        metadata, version = await self._context.manager.read(self.ledger_id)
        self._record_segments(metadata)
        self.is_closed = metadata.state is LedgerState.CLOSED
        return metadata, version

    async def write_metadata(self, metadata: LedgerMetadata, version: int) -> int:
        """Store the metadata if the stored version is still `version`; return the new version.

        Raises `BKMetadataVersionException`, without storing anything, if another client was faster.
        """
        wanted = replace(metadata, c_token=0)
        version = await self._context.manager.write(self.ledger_id, wanted, version)
        self._record_segments(metadata)
        self.is_closed = metadata.state is LedgerState.CLOSED
        if self.is_closed:
            self.record("ledger.closed", metadata.last_entry_id, size=metadata.length)
        return version

    # Tasks

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run the coroutine concurrently, starting in the next iteration of the event loop.

        An exception that the coroutine does not catch is a bug in the learner's code; `check` shows
        it.
        """
        asyncio.get_running_loop().create_task(coroutine).add_done_callback(self._ended)

    def _ended(self, task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._failed(error)

    # For the trace

    def pushed(self, entry_id: int, payload: bytes) -> None:
        """Record that the caller passed this entry to the writer."""
        checksum = f"{zlib.crc32(payload):08x}"
        self.record("add.pushed", entry_id, size=len(payload), checksum=checksum)

    def record(self, kind: str, entry_id: int = NO_ENTRY_ID, **fields: Unpack[Fields]) -> None:
        self._recorder.record(kind, self.ledger_id, entry_id, **fields)

    def record_creation(self, metadata: LedgerMetadata) -> None:
        self.record(
            "ledger.created",
            ensemble_size=metadata.ensemble_size,
            write_quorum=metadata.write_quorum,
            ack_quorum=metadata.ack_quorum,
        )
        for segment in metadata.segments:
            self.record("ensemble.set", segment.first_entry_id, ensemble=segment.ensemble)

    def _record_segments(self, metadata: LedgerMetadata) -> None:
        for segment in metadata.segments:
            if segment not in self._segments:
                self.record("ensemble.set", segment.first_entry_id, ensemble=segment.ensemble)
        self._segments = metadata.segments


class ClusterToRecover(Cluster):
    """A cluster that records the start of a recovery, and the end of the search for
    LastAddConfirmed. A subclass calls `asks` before the requests that are part of a recovery.
    """

    has_started = False
    _has_covered = False

    def asks(self, entry_id: int) -> None:
        """Record a request, either for an entry or, with -1, for something else."""
        if not self.has_started:
            self.has_started = True
            segments = tuple((each.first_entry_id, each.ensemble) for each in self._segments)
            self.record("recovery.started", segments=segments)
        if entry_id != NO_ENTRY_ID and not self._has_covered:
            self._has_covered = True
            self.record("recovery.covered", entry_id - 1)


def _added(stored: "Sequence[asyncio.Future[None]]", error: BKException | None) -> None:
    for added in stored:
        if added.done():
            continue
        if error is None:
            added.set_result(None)
        else:
            added.set_exception(error)
