"""Finds the first entry of a lane that was published at or after a given time.

The search bisects the ledgers by the publish time of their last entry, and then the entries of one
ledger, so it reads one entry per step and never scans. Publish times are assumed to increase within
a lane, as in Pulsar's seek by time. Publish times are set by the producers' clocks, so messages
from several producers may be slightly out of order.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from labkit.system.model.errors import BKNoSuchLedgerExistsOnMetadataServerException
from labkit.system.topic.chain.ledger_chain import LedgerInfo
from labkit.system.topic.messages import decode_metadata
from labkit.views.spark.bookkeeper.directory import LedgerDirectory
from labkit.views.spark.bookkeeper.entries import read_chunk
from labkit.views.spark.bookkeeper.opening import open_reader, report_loss
from labkit.views.spark.bookkeeper.options import Options
from labkit.views.spark.bookkeeper.spans import (
    LATEST,
    EntrySpan,
    Lane,
    LedgerSnapshot,
    ReadPosition,
)

T = TypeVar("T")


async def first_published_from(
    directory: LedgerDirectory, options: Options, lane: Lane, chain: list[LedgerInfo], time_ms: int
) -> ReadPosition:
    """Return the first entry published at or after `time_ms`, or `LATEST` if there is none.

    Raises `LedgerGoneError`, and any error raised by `LedgerDirectory.lookup` or `read_chunk`.
    """

    async def is_new(ledger: LedgerSnapshot, entry_id: int) -> bool | None:
        try:
            reader = await open_reader(directory.client, ledger, options)
        except BKNoSuchLedgerExistsOnMetadataServerException:
            report_loss(ledger.ledger_id, options)
            return None
        span = EntrySpan(ledger, lane, entry_id, entry_id)
        [entry] = await read_chunk(reader, span, options.retry_s)
        return decode_metadata(entry.payload).publish_time >= time_ms

    async def ends_with_new(info: LedgerInfo) -> bool | None:
        ledger = await directory.lookup(info)
        if ledger is None or ledger.last_entry_id < 0:
            return None
        return await is_new(ledger, ledger.last_entry_id)

    # Only the last ledger may be open, so only its number of entries is unknown.
    infos = [*(info for info in chain[:-1] if info.entry_count), *chain[-1:]]
    index = await _bisect(infos, ends_with_new)
    ledger = await directory.lookup(infos[index]) if index < len(infos) else None
    if ledger is None:
        return LATEST
    entry_id = await _bisect(list(range(ledger.last_entry_id)), partial(is_new, ledger))
    return ReadPosition(ledger.ledger_id, entry_id, 0)


async def _bisect(items: list[T], is_after: Callable[[T], Awaitable[bool | None]]) -> int:
    """Return the index of the first item for which `is_after` is true, or the number of items if
    there is none. Remove the items for which `is_after` is None.
    """
    low, high = 0, len(items)
    while low < high:
        middle = (low + high) // 2
        decision = await is_after(items[middle])
        if decision is None:
            del items[middle]
            high -= 1
        elif decision:
            high = middle
        else:
            low = middle + 1
    return low
