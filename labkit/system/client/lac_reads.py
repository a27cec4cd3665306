"""Reads LastAddConfirmed with protocol version 3, which has explicit LACs and long polls.

A LastAddConfirmed counts only if its digest is correct, because a bookie may report a wrong value.
This applies to explicit LACs and to the values in entries.

In BookKeeper: `client/PendingReadLacOp.java`, `client/ReadLastConfirmedAndEntryOp.java`.
"""

import asyncio
import zlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TypeVar

from labkit.system.client.context import ClientContext
from labkit.system.client.protocol.protocol_v3 import LongPollResult
from labkit.system.client.quorum import collect_until_covered, most_informative
from labkit.system.model.entry import (
    NO_ENTRY_ID,
    Entry,
    decode_entry,
    decode_explicit_lac,
    make_digest,
)
from labkit.system.model.errors import PROVES_ABSENCE, BKException
from labkit.system.model.ledger import LedgerMetadata

T = TypeVar("T")

_POLL_S = 1.0
"""The duration of one long poll; polls are repeated until the reader's own timeout."""
_RETRY_S = 0.1
"""How long to wait before polling a bookie again that ended a poll early."""


class LacReads:
    def __init__(self, ledger_id: int, metadata: LedgerMetadata, context: ClientContext) -> None:
        self._ledger_id = ledger_id
        self._bookie_client = context.bookie_client
        self._recorder = context.recorder
        self._digest = make_digest(metadata.digest_type, metadata.password)

    async def highest(self, metadata: LedgerMetadata) -> int:
        """Return the highest LastAddConfirmed that the bookies of the last ensemble have, or -1.

        Raises `BKReadException` if a bookie that does not respond could have a higher value.
        """
        ensemble = metadata.segments[-1].ensemble
        with _asked_in_parallel(ensemble, self._verified_lac) as replies:
            responses = await collect_until_covered(
                self._ledger_id, metadata, replies, lambda error: isinstance(error, PROVES_ABSENCE)
            )
        lacs = (lac for lac in responses.values() if not isinstance(lac, BKException))
        return max(lacs, default=NO_ENTRY_ID)

    async def long_poll(
        self, metadata: LedgerMetadata, lac_before: int, wait_s: float
    ) -> tuple[int, Entry | None]:
        """Wait up to `wait_s` seconds until a bookie has a LastAddConfirmed above `lac_before`.

        Returns LastAddConfirmed, and also entry `lac_before` + 1 if the response contains it.
        Raises the `most_informative` error if no bookie accepts the poll.
        """
        ensemble = metadata.segments[-1].ensemble
        errors: list[BKException] = []
        deadline = asyncio.get_running_loop().time() + wait_s
        with _asked_in_parallel(ensemble, partial(self._poll, lac_before, deadline)) as replies:
            for _ in ensemble:
                index, reply = await replies.get()
                try:
                    if isinstance(reply, BKException):
                        raise reply
                    if reply.last_add_confirmed > lac_before:
                        # A poll's response contains no digest, so read the value again, this time
                        # with its digest.
                        lac = await self._verified_lac(ensemble[index])
                        if lac > lac_before:
                            return lac, self._entry_of(reply, ensemble[index], lac_before + 1)
                except BKException as error:
                    errors.append(error)
        if len(errors) == len(ensemble):
            raise most_informative(errors)
        return lac_before, None

    async def _poll(self, lac_before: int, deadline: float, bookie: str) -> LongPollResult:
        """Poll one bookie until it reports progress.

        A bookie rejects polls until it has an entry of the ledger, and ends them immediately while
        the ledger is fenced. Each poll has a short timeout, because Apache's bookie sometimes
        forgets a waiting reader.
        """
        loop = asyncio.get_running_loop()
        channel = self._bookie_client.get_v3(bookie)
        result = LongPollResult(NO_ENTRY_ID, NO_ENTRY_ID, b"")
        while result.last_add_confirmed <= lac_before and (left_s := deadline - loop.time()) > 0:
            wait_s, began = min(_POLL_S, left_s), loop.time()
            with suppress(*PROVES_ABSENCE):
                result = await channel.read_after(self._ledger_id, lac_before, wait_s)
            if result.last_add_confirmed <= lac_before and loop.time() < began + wait_s:
                await asyncio.sleep(min(_RETRY_S, left_s))
        return result

    async def _verified_lac(self, bookie: str) -> int:
        """Return the highest LastAddConfirmed that this bookie has with a correct digest."""
        stored = await self._bookie_client.get_v3(bookie).read_lac(self._ledger_id)
        lac = NO_ENTRY_ID
        if stored.explicit_lac:
            lac = decode_explicit_lac(stored.explicit_lac, self._digest, self._ledger_id)
        if stored.last_entry:
            entry = decode_entry(stored.last_entry, self._digest, self._ledger_id, NO_ENTRY_ID)
            lac = max(lac, entry.last_add_confirmed)
        return lac

    def _entry_of(self, result: LongPollResult, bookie: str, entry_id: int) -> Entry | None:
        if result.entry_id != entry_id:
            return None
        entry = decode_entry(result.entry, self._digest, self._ledger_id, entry_id)
        if self._recorder.listening:
            checksum = f"{zlib.crc32(entry.payload):08x}"
            self._recorder.record(
                "read.done", self._ledger_id, entry_id, peer=bookie, checksum=checksum
            )
        return entry


@contextmanager
def _asked_in_parallel(
    bookies: Sequence[str], ask: Callable[[str], Awaitable[T]]
) -> Iterator[asyncio.Queue[tuple[int, T | BKException]]]:
    """Query all bookies, and yield a queue that receives their indices and replies. On exit, cancel
    the requests that are still pending.
    """
    replies: asyncio.Queue[tuple[int, T | BKException]] = asyncio.Queue()

    async def ask_one(index: int, bookie: str) -> None:
        reply: T | BKException
        try:
            reply = await ask(bookie)
        except BKException as error:
            reply = error
        replies.put_nowait((index, reply))

    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(ask_one(*indexed)) for indexed in enumerate(bookies)]
    try:
        yield replies
    finally:
        for task in tasks:
            task.cancel()
