"""Reading from bookies: one question to one bookie, to several, or to one after the other.

In BookKeeper: `client/PendingReadOp.java`, `client/ReadLastConfirmedOp.java`.
"""

import asyncio
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from labkit.system.client.context import ClientContext
from labkit.system.client.quorum import is_covered, most_telling
from labkit.system.client.striping import write_set
from labkit.system.model.entry import NO_ENTRY_ID, Entry, decode_entry, make_digest
from labkit.system.model.errors import (
    PROVES_ABSENCE,
    BKException,
    BKReadException,
    BKUnauthorizedAccessException,
)
from labkit.system.model.ledger import LedgerMetadata
from labkit.system.model.wire import Answer, Opcode, encode_read

OnReply = Callable[[str, int, Entry | BKException], None]
"""Takes the bookie, the entry id that was asked for, and the reply."""
_READ = Opcode.READ
Replies = asyncio.Queue[tuple[int, Entry | BKException]]
"""The place of the bookie that answered, in the list of those asked, and its reply."""


class BookieReads:
    """Asks bookies for a ledger's entries, checks digests, and reports to the trace."""

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
        """Ask one bookie; with a `fence_key` it fences the ledger first.

        A reply is an entry whose digest is right, or a `BKException`.
        """
        fences = bool(fence_key) and entry_id == NO_ENTRY_ID
        context, ledger_id = self.context, self.ledger_id
        if context.recorder.listening:
            kind, entry = ("fence.sent", -1) if fences else ("read.sent", entry_id)
            context.recorder.record(kind, ledger_id, entry, peer=bookie)
        body = encode_read(ledger_id, entry_id, fence_key, flags)
        on_answer = partial(self._answered, bookie, entry_id, on_reply, fences)
        client = context.bookies.get(bookie)
        client.ask(_READ, ledger_id, entry_id, body, on_answer, fences=bool(fence_key))

    def ask_all(
        self, bookies: Sequence[str], entry_id: int, *, fence_key: bytes = b"", flags: int = 0
    ) -> Replies:
        """Ask all of them at once; the queue gets one reply of each, as they come."""
        replies: Replies = asyncio.Queue()
        for place, bookie in enumerate(bookies):

            def on_reply(_: str, __: int, reply: Entry | BKException, place: int = place) -> None:
                replies.put_nowait((place, reply))

            self.ask(bookie, entry_id, on_reply, fence_key=fence_key, flags=flags)
        return replies

    async def last_entries(
        self, metadata: LedgerMetadata, *, fence_key: bytes = b""
    ) -> list[Entry]:
        """The newest entries of the last ensemble's bookies, from enough of them that the others
        alone cannot have acknowledged an entry.

        Raises `BKReadException` when too few answer, and `BKUnauthorizedAccessException`.
        """
        ensemble = metadata.segments[-1].ensemble
        sizes = metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum
        replies = self.ask_all(ensemble, NO_ENTRY_ID, fence_key=fence_key)
        known: dict[int, Entry | BKException] = {}
        errors: list[BKException] = []
        for _ in ensemble:
            place, reply = await replies.get()
            if isinstance(reply, BKUnauthorizedAccessException):
                raise reply
            if isinstance(reply, BKException) and not self.is_answer(reply):
                errors.append(reply)
                continue
            known[place] = reply
            if is_covered(known, *sizes):
                return [reply for reply in known.values() if isinstance(reply, Entry)]
        silent = ", ".join(bookie for at, bookie in enumerate(ensemble) if at not in known)
        raise BKReadException(
            f"LastAddConfirmed of ledger {self.ledger_id}: no answer from {silent},"
            f" and any of the others might not know ({errors[0]})"
        )

    # Rules, which a subclass may change

    def is_answer(self, error: BKException) -> bool:
        """Whether the error says what the bookie has: other errors and silence leave that open."""
        return isinstance(error, PROVES_ABSENCE)

    # Inside

    def _answered(
        self,
        bookie: str,
        entry_id: int,
        on_reply: OnReply,
        fences: bool,
        answer: Answer | BKException,
    ) -> None:
        reply: Entry | BKException
        if isinstance(answer, BKException):
            reply = answer
        else:
            try:
                reply = decode_entry(answer.entry, self._digest, self.ledger_id, entry_id)
            except BKException as error:
                reply = error
        if self.context.recorder.listening:
            tell = self._record_fence if fences else self._record_read
            tell(bookie, entry_id, reply)
        on_reply(bookie, entry_id, reply)

    def _record_read(self, bookie: str, entry_id: int, reply: Entry | BKException) -> None:
        failed = isinstance(reply, BKException)
        note = type(reply).__name__ if failed else ""
        if isinstance(reply, Entry) and entry_id != NO_ENTRY_ID:
            note = f"{zlib.crc32(reply.payload):08x}"
        kind = "read.failed" if failed else "read.done"
        self.context.recorder.record(kind, self.ledger_id, entry_id, peer=bookie, note=note)

    def _record_fence(self, bookie: str, _: int, reply: Entry | BKException) -> None:
        record, ledger_id = self.context.recorder.record, self.ledger_id
        if isinstance(reply, Entry):
            record("fence.answered", ledger_id, reply.last_add_confirmed, peer=bookie)
        else:
            kind = "fence.answered" if isinstance(reply, PROVES_ABSENCE) else "fence.failed"
            record(kind, ledger_id, peer=bookie, note=type(reply).__name__)


class SequenceRead:
    """Reads entries, each from the bookies of its write set one after the other: the next when one
    fails or is silent for a while (speculative read).
    """

    def __init__(
        self,
        reads: BookieReads,
        bookies: Mapping[int, Sequence[str]],
        on_entry: Callable[[Entry], None] | None = None,
    ) -> None:
        """`bookies` are for each entry those of its write set, in the order of asking; `on_entry`
        gets each entry when it comes.
        """
        self._reads = reads
        self._on_entry = on_entry
        self._bookies = bookies
        self.unreadable: int | None = None
        """The entry that could not be read, if there was one."""
        self._asked = dict.fromkeys(self._bookies, 0)
        """For each entry that is still to come: how many of its bookies were asked."""
        self._errors: dict[int, list[BKException]] = {}
        self._entries: dict[int, Entry] = {}
        self._answering: dict[str, None] = {}
        self._done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._timer: asyncio.TimerHandle | None = None

    async def run(self) -> list[Entry]:
        """The entries.  Raises the most telling error of the first that cannot be read."""
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
        self._reads.ask(self._bookies[entry_id][asked], entry_id, self._replied)

    def _replied(self, bookie: str, entry_id: int, reply: Entry | BKException) -> None:
        if isinstance(reply, BKException):
            self._failed(entry_id, reply)
            return
        # Also of a reply that comes too late for its entry: the bookie is not silent.
        self._answering[bookie] = None
        if self._asked.pop(entry_id, None) is not None:
            self._entries[entry_id] = reply
            # Not after the end: another entry may have failed.
            if self._on_entry is not None and not self._done.done():
                self._on_entry(reply)
            if not self._asked and not self._done.done():
                self._done.set_result(None)

    def _failed(self, entry_id: int, error: BKException) -> None:
        asked = self._asked.get(entry_id)
        if asked is None or self._done.cancelled():
            return
        errors = self._errors.setdefault(entry_id, [])
        errors.append(error)
        if len(errors) == len(self._bookies[entry_id]):
            del self._asked[entry_id]
            if not self._done.done():
                self.unreadable = entry_id
                self._done.set_exception(most_telling(errors))
        elif len(errors) == asked:
            self._ask_next(entry_id)

    def _set_timer(self) -> None:
        wait_ms = self._reads.context.config.speculative_read_timeout_ms
        if wait_ms:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(wait_ms / 1000, self._speculate)

    def _speculate(self) -> None:
        """Ask one more bookie for each entry whose bookies have all been silent so far."""
        for entry_id, asked in self._asked.items():
            bookies = self._bookies[entry_id]
            if asked == len(bookies):
                continue
            if not any(bookie in self._answering for bookie in bookies[:asked]):
                self._ask_next(entry_id)
        self._set_timer()


def write_sets(metadata: LedgerMetadata, first: int, last: int) -> dict[int, tuple[str, ...]]:
    """For entries `first` to `last` the bookies of their write sets, in the order of asking."""
    size, quorum = metadata.ensemble_size, metadata.write_quorum
    found: dict[int, tuple[str, ...]] = {}
    while first <= last:
        later = (s.first_entry_id for s in metadata.segments if s.first_entry_id > first)
        end = min(last + 1, next(later, last + 1))
        ensemble = metadata.ensemble_at(first)
        sets = [tuple(ensemble[at] for at in write_set(n, size, quorum)) for n in range(size)]
        found.update((entry_id, sets[entry_id % size]) for entry_id in range(first, end))
        first = end
    return found
