"""Finds the first entry of a lane that was published at or after a given time.

The search bisects the ledgers by the publish time of their last entry, and then the entries of one
ledger, so it reads one entry per step and never scans. Publish times are assumed to increase
within a lane, as in Pulsar's seek by time. They come from the producers' clocks, so messages of
several producers may be slightly out of order.
"""

from collections.abc import Awaitable, Callable
from contextlib import aclosing
from functools import partial

from labkit.system.topic.chain.chain import LedgerInfo
from labkit.system.topic.messages import decode_metadata
from labkit.views.spark.bookkeeper.directory import LedgerDirectory
from labkit.views.spark.bookkeeper.entries import read_span
from labkit.views.spark.bookkeeper.opening import open_reader
from labkit.views.spark.bookkeeper.options import Options
from labkit.views.spark.bookkeeper.spans import (
    LATEST,
    EntrySpan,
    Lane,
    LedgerSnapshot,
    ReadPosition,
)


async def first_published_from(
    directory: LedgerDirectory, options: Options, lane: Lane, chain: list[LedgerInfo], time_ms: int
) -> ReadPosition:
    """Return the first entry published at or after `time_ms`, or `LATEST` if there is none.

    Raises the errors of `LedgerDirectory.lookup` and `LedgerReader.read_entry`.
    """

    async def is_new(ledger: LedgerSnapshot, entry_id: int) -> bool:
        span = EntrySpan(ledger, lane, entry_id, entry_id)
        reader = await open_reader(directory.client, ledger, options)
        async with aclosing(read_span(reader, span, options.retry_s)) as chunks:
            [entry] = await anext(chunks)
        return decode_metadata(entry.payload).publish_time >= time_ms

    async def ends_with_new(info: LedgerInfo) -> bool:
        ledger = await directory.lookup(info)
        if ledger is None or ledger.last_entry_id < 0:
            return False
        return await is_new(ledger, ledger.last_entry_id)

    # Only the last ledger may be open, so only its number of entries is unknown.
    infos = [*(info for info in chain[:-1] if info.entry_count), *chain[-1:]]
    index = await _bisect(len(infos), lambda at: ends_with_new(infos[at]))
    ledger = await directory.lookup(infos[index]) if index < len(infos) else None
    if ledger is None:
        return LATEST
    entry_id = await _bisect(ledger.last_entry_id, partial(is_new, ledger))
    return ReadPosition(ledger.ledger_id, entry_id, 0)


async def _bisect(count: int, is_after: Callable[[int], Awaitable[bool]]) -> int:
    """Return the smallest number below `count` for which `is_after` is true, or `count` if there is
    none.
    """
    low, high = 0, count
    while low < high:
        middle = (low + high) // 2
        if await is_after(middle):
            high = middle
        else:
            low = middle + 1
    return low
