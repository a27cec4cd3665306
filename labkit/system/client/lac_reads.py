"""How far a ledger is confirmed, asked in protocol version 3: explicit LACs, and long polls.

A bookie's word is not enough: a LastAddConfirmed, from an entry or explicit, counts only if the
digest that came with it is right.

In BookKeeper: `client/PendingReadLacOp.java`, `client/ReadLastConfirmedAndEntryOp.java`.
"""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Generic, Self, TypeVar

from labkit.system.client.context import ClientContext
from labkit.system.client.protocol.protocol_v3 import LongPollResult
from labkit.system.client.quorum import is_covered, most_telling
from labkit.system.model.entry import (
    NO_ENTRY_ID,
    Entry,
    decode_entry,
    decode_explicit_lac,
    make_digest,
)
from labkit.system.model.errors import PROVES_ABSENCE, BKException, BKReadException
from labkit.system.model.ledger import LedgerMetadata

T = TypeVar("T")

_WAIT_S = 1.0
"""How long one long poll lasts: the reader asks again until its own time is up."""
_ASK_AGAIN_S = 0.1
"""Pause before asking a bookie again that has nothing of the ledger yet, so cannot wait for it."""


class LacReads:
    """Asks a ledger's bookies how far it is confirmed."""

    def __init__(self, ledger_id: int, metadata: LedgerMetadata, context: ClientContext) -> None:
        self._ledger_id = ledger_id
        self._bookies = context.bookies
        self._recorder = context.recorder
        self._digest = make_digest(metadata.digest_type, metadata.password)

    async def explicit(self, metadata: LedgerMetadata) -> int:
        """The highest LastAddConfirmed at the last ensemble's bookies, explicit or not; -1: none.

        Raises `BKReadException` when too few answer to rule out that another one knows more.
        """
        ensemble = metadata.segments[-1].ensemble
        sizes = metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum
        known: dict[int, int] = {}
        errors: list[BKException] = []
        with _ParallelRequests(ensemble, self._proven_by) as asked:
            for _ in ensemble:
                place, answer = await asked.answers.get()
                if isinstance(answer, BKException) and not isinstance(answer, PROVES_ABSENCE):
                    errors.append(answer)
                    continue
                known[place] = NO_ENTRY_ID if isinstance(answer, BKException) else answer
                if is_covered(known, *sizes):
                    return max(known.values())
        raise BKReadException(
            f"LastAddConfirmed of ledger {self._ledger_id}: too few bookies answer ({errors[0]})"
        )

    async def long_poll(
        self, metadata: LedgerMetadata, known: int, wait_s: float
    ) -> tuple[int, Entry | None]:
        """Wait until a bookie knows of more than `known`, at most `wait_s`: the LastAddConfirmed,
        and the entry `known` + 1 if it came along.

        Raises the most telling error when no bookie can be waited for.
        """
        ensemble = metadata.segments[-1].ensemble
        errors: list[BKException] = []
        deadline = asyncio.get_running_loop().time() + wait_s
        with _ParallelRequests(ensemble, partial(self._poll, known, deadline)) as asked:
            for _ in ensemble:
                place, answer = await asked.answers.get()
                try:
                    if isinstance(answer, BKException):
                        raise answer
                    if answer.last_add_confirmed > known:
                        # The poll's own figure has no digest, so the bookie must prove it.
                        confirmed = await self._proven_by(ensemble[place])
                        if confirmed > known:
                            return confirmed, self._entry_of(answer, ensemble[place], known + 1)
                except BKException as error:
                    errors.append(error)
        if len(errors) == len(ensemble):
            raise most_telling(errors)
        return known, None

    async def _poll(self, known: int, deadline: float, bookie: str) -> LongPollResult:
        """Ask one bookie until it has news.

        With striping a bookie may get its first entry only later; until then it cannot wait.  And
        Apache's bookie sometimes forgets a waiting reader, so no single wait is long.
        """
        loop = asyncio.get_running_loop()
        client = self._bookies.get_v3(bookie)
        news = LongPollResult(NO_ENTRY_ID, NO_ENTRY_ID, b"")
        while news.last_add_confirmed <= known and (left_s := deadline - loop.time()) > 0:
            try:
                news = await client.read_after(self._ledger_id, known, min(_WAIT_S, left_s))
            except PROVES_ABSENCE:
                await asyncio.sleep(min(_ASK_AGAIN_S, left_s))
        return news

    async def _proven_by(self, bookie: str) -> int:
        """The LastAddConfirmed that one bookie can prove."""
        known = await self._bookies.get_v3(bookie).read_lac(self._ledger_id)
        confirmed = NO_ENTRY_ID
        if known.explicit_lac:
            confirmed = decode_explicit_lac(known.explicit_lac, self._digest, self._ledger_id)
        if known.last_entry:
            entry = decode_entry(known.last_entry, self._digest, self._ledger_id, NO_ENTRY_ID)
            confirmed = max(confirmed, entry.last_add_confirmed)
        return confirmed

    def _entry_of(self, news: LongPollResult, bookie: str, entry_id: int) -> Entry | None:
        if news.entry_id != entry_id:
            return None
        entry = decode_entry(news.entry, self._digest, self._ledger_id, entry_id)
        note = f"{zlib.crc32(entry.payload):08x}"
        self._recorder.record("read.done", self._ledger_id, entry_id, peer=bookie, note=note)
        return entry


class _ParallelRequests(Generic[T]):
    """Asks several bookies the same; `answers` gets their places and what they say, as it comes.
    Leaving the context stops waiting for the others.
    """

    def __init__(self, bookies: Sequence[str], ask: Callable[[str], Awaitable[T]]) -> None:
        self.answers: asyncio.Queue[tuple[int, T | BKException]] = asyncio.Queue()
        loop = asyncio.get_running_loop()
        self._tasks = [
            loop.create_task(self._ask_one(place, ask(bookie)))
            for place, bookie in enumerate(bookies)
        ]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()

    async def _ask_one(self, place: int, asked: Awaitable[T]) -> None:
        answer: T | BKException
        try:
            answer = await asked
        except BKException as error:
            answer = error
        self.answers.put_nowait((place, answer))
