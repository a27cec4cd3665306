"""Reads entries from one bookie, or from several bookies in parallel or one after another.

A read of entry -1 (`NO_ENTRY_ID`) asks a bookie for its newest entry of the ledger. If the read
contains the ledger's master key, the bookie fences the ledger before it reads the entry; this is
how recovery fences a ledger.

In BookKeeper: `client/PendingReadOp.java`, `client/ReadLastConfirmedOp.java`.
"""

import asyncio
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from labkit.system.client.context import ClientContext
from labkit.system.client.ensemble import end_of_segment
from labkit.system.client.quorum import collect_until_covered, most_informative
from labkit.system.client.striping import write_set
from labkit.system.model.entry import NO_ENTRY_ID, Entry, decode_entry, make_digest
from labkit.system.model.errors import PROVES_ABSENCE, BKException
from labkit.system.model.ledger import LedgerMetadata
from labkit.system.model.wire import Opcode, Response, encode_read

OnReply = Callable[[str, int, Entry | BKException], None]
"""Called with the bookie, the requested entry id, and the reply."""
_READ = Opcode.READ
Replies = asyncio.Queue[tuple[int, Entry | BKException]]
"""For each bookie that was asked: its index and its reply."""


class BookieReads:
    """Sends reads of one ledger to bookies, verifies digests, and records the trace events."""

    def __init__(self, ledger_id: int, metadata: LedgerMetadata, context: ClientContext) -> None:
        self.ledger_id = ledger_id
        self.context = context
        self._digest = make_digest(metadata.digest_type, metadata.password)

    def ask(
        self,
        bookie: str,
        entry_id: int,
        on_reply: OnReply,
        *,
        fence_key: bytes = b"",
        flags: int = 0,
    ) -> None:
        """Read an entry from one bookie. With a `fence_key`, the bookie fences the ledger first.

        `on_reply` receives an entry with a correct digest, or a `BKException`.
        """
        carries_fence_flag = bool(fence_key)
        # The trace shows a fencing read of a specific entry as a read, not as a fence request.
        is_fence_request = carries_fence_flag and entry_id == NO_ENTRY_ID
        context, ledger_id = self.context, self.ledger_id
        if context.recorder.listening:
            kind, entry = ("fence.sent", -1) if is_fence_request else ("read.sent", entry_id)
            context.recorder.record(kind, ledger_id, entry, peer=bookie)
        body = encode_read(ledger_id, entry_id, fence_key, flags)
        on_response = partial(self._on_response, bookie, entry_id, on_reply, is_fence_request)
        channel = context.bookie_client.get(bookie)
        channel.ask(_READ, ledger_id, entry_id, body, on_response, fences=carries_fence_flag)

    def ask_all(
        self, bookies: Sequence[str], entry_id: int, *, fence_key: bytes = b"", flags: int = 0
    ) -> Replies:
        """Query all bookies in parallel; return a queue that receives one reply from each."""
        replies: Replies = asyncio.Queue()

        def on_reply(index: int, _bookie: str, _entry_id: int, reply: Entry | BKException) -> None:
            replies.put_nowait((index, reply))

        for index, bookie in enumerate(bookies):
            self.ask(bookie, entry_id, partial(on_reply, index), fence_key=fence_key, flags=flags)
        return replies

    async def last_entries(
        self, metadata: LedgerMetadata, *, fence_key: bytes = b""
    ) -> list[Entry]:
        """Ask all bookies of the last ensemble for their newest entries, until the responses cover
        the ensemble. Return the entries received by then.

        Raises the errors of `collect_until_covered`.
        """
        ensemble = metadata.segments[-1].ensemble
        replies = self.ask_all(ensemble, NO_ENTRY_ID, fence_key=fence_key)
        responses = await collect_until_covered(self.ledger_id, metadata, replies, self.is_denial)
        return [reply for reply in responses.values() if isinstance(reply, Entry)]

    # Hook: overridden by `worlds/sim/variants`.

    def is_denial(self, error: BKException) -> bool:
        """Return whether the error means that the bookie does not have the entry. If so, the error
        counts as a response.
        """
        return isinstance(error, PROVES_ABSENCE)

    # Replies

    def _on_response(
        self,
        bookie: str,
        entry_id: int,
        on_reply: OnReply,
        is_fence_request: bool,
        response: Response | BKException,
    ) -> None:
        reply: Entry | BKException
        if isinstance(response, BKException):
            reply = response
        else:
            try:
                reply = decode_entry(response.entry, self._digest, self.ledger_id, entry_id)
            except BKException as error:
                reply = error
        if self.context.recorder.listening:
            if is_fence_request:
                self._record_fence(bookie, reply)
            else:
                self._record_read(bookie, entry_id, reply)
        on_reply(bookie, entry_id, reply)

    def _record_read(self, bookie: str, entry_id: int, reply: Entry | BKException) -> None:
        record, ids = self.context.recorder.record, (self.ledger_id, entry_id)
        if isinstance(reply, BKException):
            record("read.failed", *ids, peer=bookie, error=type(reply).__name__)
        else:
            is_specific_entry = entry_id != NO_ENTRY_ID
            checksum = f"{zlib.crc32(reply.payload):08x}" if is_specific_entry else ""
            record("read.done", *ids, peer=bookie, checksum=checksum)

    def _record_fence(self, bookie: str, reply: Entry | BKException) -> None:
        record, ledger_id = self.context.recorder.record, self.ledger_id
        if isinstance(reply, Entry):
            record("fence.answered", ledger_id, reply.last_add_confirmed, peer=bookie)
        else:
            kind = "fence.answered" if isinstance(reply, PROVES_ABSENCE) else "fence.failed"
            record(kind, ledger_id, peer=bookie, error=type(reply).__name__)


class SequenceRead:
    """Reads several entries in parallel. Each entry's bookies are asked one after another.

    If all bookies asked for an entry so far have failed, the next one is asked immediately. In
    addition, every `speculative_read_timeout_ms`, one more bookie is asked for each entry that has
    not arrived, unless one of the bookies asked for it has returned another entry during this read.
    Such a bookie is slow, not dead.

    In BookKeeper: `PendingReadOp.SequenceReadRequest`.
    """

    def __init__(
        self,
        reads: BookieReads,
        bookies: Mapping[int, Sequence[str]],
        on_entry: Callable[[Entry], None] | None = None,
    ) -> None:
        """`bookies` maps entries to write sets in read order."""
        self._reads = reads
        self._on_entry = on_entry
        self._bookies = bookies
        self.unreadable: int | None = None
        """The entry that could not be read, if any."""
        self._asked = dict.fromkeys(self._bookies, 0)
        """How many bookies were asked for each entry that has not been read yet."""
        self._errors: dict[int, list[BKException]] = {}
        self._entries: dict[int, Entry] = {}
        self._responsive: dict[str, None] = {}
        """The bookies that have returned an entry (an ordered set)."""
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._timer: asyncio.TimerHandle | None = None

    async def run(self) -> list[Entry]:
        """Return the entries in the order of `bookies`.

        If no bookie can return an entry, raises the `most_informative` error for the first such
        entry.
        """
        if not self._bookies:
            return []
        for entry_id in self._bookies:
            self._ask_next(entry_id)
        self._set_timer()
        try:
            await self._done
        finally:
            if self._timer is not None:
                self._timer.cancel()
        return [self._entries[entry_id] for entry_id in self._bookies]

    def _ask_next(self, entry_id: int) -> None:
        asked = self._asked[entry_id]
        self._asked[entry_id] = asked + 1
        self._reads.ask(self._bookies[entry_id][asked], entry_id, self._on_reply)

    def _on_reply(self, bookie: str, entry_id: int, reply: Entry | BKException) -> None:
        if self._done.done():
            return  # Another entry could not be read, or the read was cancelled.
        if isinstance(reply, BKException):
            self._on_error(entry_id, reply)
            return
        # The bookie is responsive even if another bookie has already returned this entry.
        self._responsive[bookie] = None
        if self._asked.pop(entry_id, None) is not None:
            self._entries[entry_id] = reply
            if self._on_entry is not None:
                self._on_entry(reply)
            if not self._asked:
                self._done.set_result(None)

    def _on_error(self, entry_id: int, error: BKException) -> None:
        asked = self._asked.get(entry_id)
        if asked is None:
            return  # Another bookie has already returned the entry.
        errors = self._errors.setdefault(entry_id, [])
        errors.append(error)
        if len(errors) == len(self._bookies[entry_id]):
            self.unreadable = entry_id
            self._done.set_exception(most_informative(errors))
        elif len(errors) == asked:
            self._ask_next(entry_id)

    def _set_timer(self) -> None:
        wait_ms = self._reads.context.config.speculative_read_timeout_ms
        if wait_ms:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(wait_ms / 1000, self._speculate)

    def _speculate(self) -> None:
        """For each entry that no responsive bookie has been asked for, ask one more bookie."""
        for entry_id, asked in self._asked.items():
            bookies = self._bookies[entry_id]
            if asked < len(bookies) and not self._responsive.keys() & bookies[:asked]:
                self._ask_next(entry_id)
        self._set_timer()


def bookies_by_entry(metadata: LedgerMetadata, first: int, last: int) -> dict[int, tuple[str, ...]]:
    """Return the write set, in read order, of each entry from `first` to `last`."""
    size, quorum = metadata.ensemble_size, metadata.write_quorum
    found: dict[int, tuple[str, ...]] = {}
    start: int | None = first
    while start is not None and start <= last:
        ensemble = metadata.ensemble_at(start)
        write_sets = [tuple(ensemble[i] for i in write_set(n, size, quorum)) for n in range(size)]
        next_start = end_of_segment(metadata, start)
        end = last + 1 if next_start is None else min(next_start, last + 1)
        found.update((entry_id, write_sets[entry_id % size]) for entry_id in range(start, end))
        start = next_start
    return found
