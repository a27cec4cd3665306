"""The entries of a span, read ahead: while some become rows, the next are on their way.

Where every bookie of an ensemble has every entry, one request reads many.  `LedgerReader` checks
each digest, and asks another bookie when one fails.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator
from functools import partial

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.reader import LedgerReader
from labkit.system.model.entry import Entry
from labkit.system.model.errors import BKException
from labkit.views.spark.bookkeeper.cluster import UNREACHABLE, retried
from labkit.views.spark.bookkeeper.options import MIB
from labkit.views.spark.bookkeeper.spans import EntrySpan

_PORTION_BYTES = MIB // 2
_MOST_ENTRIES = 2048
_AHEAD = 4


async def read_span(
    client: BookKeeper, span: EntrySpan, retry_s: float
) -> AsyncGenerator[list[Entry], None]:
    """The span's entries in order, a few at a time.  Raises what `LedgerReader.read_entry` does;
    while no bookie that has an entry can be reached, it is read again for up to `retry_s`.
    """
    ledger = span.ledger
    reader = LedgerReader(ledger.ledger_id, ledger.metadata, client.context)
    # Confirmed when the query was planned; a confirmed entry stays confirmed.
    reader.last_add_confirmed = ledger.last_entry_id
    portions = deque(_portions(span))
    ahead: deque[tuple[tuple[int, int], asyncio.Task[list[Entry]]]] = deque()
    try:
        while portions or ahead:
            while portions and len(ahead) < _AHEAD:
                portion = portions.popleft()
                ahead.append((portion, asyncio.create_task(_read(reader, *portion))))
            portion, task = ahead.popleft()
            try:
                entries = await task
            except UNREACHABLE:
                # Perhaps the answers waited here, while Spark took rows and no event loop ran: time
                # counts only from now on.
                again = partial(_read, reader, *portion)
                entries = await retried(again, UNREACHABLE, retry_s)
            yield entries
    finally:
        for _, task in ahead:
            # A query that ends here does not need the entries read ahead.
            task.cancel()


def _portions(span: EntrySpan) -> list[tuple[int, int]]:
    """The first and last entry of each portion; portions begin at the ensemble's bookies in
    turn.
    """
    size = span.ledger.metadata.ensemble_size
    count = min(max(_PORTION_BYTES // span.bytes_per_entry, 1), _MOST_ENTRIES)
    # The next portion begins one bookie further, so that all bookies get equal work.
    count += (1 - count) % size
    return [
        (first, min(first + count - 1, span.last))
        for first in range(span.first, span.last + 1, count)
    ]


async def _read(reader: LedgerReader, first: int, last: int) -> list[Entry]:
    try:
        return await _ask(reader, first, last)
    except BKException as error:
        # The last bookie's error does not name the entries.
        what = f"entries {first} to {last} of ledger {reader.ledger_id}"
        raise type(error)(f"{what} cannot be read: {error}") from None


async def _ask(reader: LedgerReader, first: int, last: int) -> list[Entry]:
    metadata = reader.metadata
    # With striping no bookie has consecutive entries.
    if metadata.ensemble_size != metadata.write_quorum or first == last:
        return await reader.read_entries(first, last)
    entries: list[Entry] = []
    while (start := first + len(entries)) <= last:
        entries += await reader.read_batch(start, last - start + 1, 2 * _PORTION_BYTES)
    return entries
