"""Reads the entries of a span in chunks.

If every bookie of the ensemble stores every entry, one request reads many entries. `LedgerReader`
checks each digest, and tries another bookie if a read fails.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator

from labkit.system.client.reader import LedgerReader
from labkit.system.model.entry import Entry
from labkit.system.model.errors import BKException
from labkit.views.spark.bookkeeper.cluster import UNREACHABLE, retry_read
from labkit.views.spark.bookkeeper.options import MIB
from labkit.views.spark.bookkeeper.spans import EntrySpan

_CHUNK_BYTES = MIB // 2
_MAX_ENTRIES = 2048
_MAX_AHEAD = 4


async def read_span(
    reader: LedgerReader, span: EntrySpan, retry_s: float
) -> AsyncGenerator[list[Entry], None]:
    """Yield the span's entries in order, in chunks; `open_reader` returns a suitable reader.

    Chunks are read ahead, so that entries arrive while earlier ones are being converted to rows.

    Retries for up to `retry_s` while no bookie that stores an entry is reachable. Raises the same
    errors as `LedgerReader.read_entry`.
    """
    chunks = deque(_chunks(span, reader.metadata.ensemble_size))
    ahead: deque[tuple[tuple[int, int], asyncio.Task[list[Entry]]]] = deque()
    try:
        while chunks or ahead:
            while chunks and len(ahead) < _MAX_AHEAD:
                chunk = chunks.popleft()
                ahead.append((chunk, asyncio.create_task(_read(reader, *chunk))))
            chunk, task = ahead.popleft()
            try:
                entries = await task
            except UNREACHABLE:
                # The responses may have timed out while Spark consumed rows and the event loop was
                # not running, so count `retry_s` from now.
                entries = await _retry(reader, chunk, retry_s)
            yield entries
    finally:
        for _, task in ahead:
            # The consumer stopped early and does not need the entries read ahead.
            task.cancel()


async def read_chunk(reader: LedgerReader, span: EntrySpan, retry_s: float) -> list[Entry]:
    """Return the span's first entries, about half a megabyte of them. Like `read_span`, this
    retries, and it raises the same errors.
    """
    return await _retry(reader, _chunks(span, reader.metadata.ensemble_size)[0], retry_s)


async def _retry(reader: LedgerReader, chunk: tuple[int, int], retry_s: float) -> list[Entry]:
    return await retry_read(lambda: _read(reader, *chunk), UNREACHABLE, retry_s)


def _chunks(span: EntrySpan, ensemble_size: int) -> list[tuple[int, int]]:
    count = min(max(_CHUNK_BYTES // span.bytes_per_entry, 1), _MAX_ENTRIES)
    # Start each chunk with the next bookie, to spread the load evenly.
    count += (1 - count) % ensemble_size
    return [
        (first, min(first + count - 1, span.last))
        for first in range(span.first, span.last + 1, count)
    ]


async def _read(reader: LedgerReader, first: int, last: int) -> list[Entry]:
    metadata = reader.metadata
    entries: list[Entry] = []
    try:
        # In a striped ledger, no bookie stores consecutive entries.
        if metadata.ensemble_size != metadata.write_quorum or first == last:
            return await reader.read_entries(first, last)
        while (start := first + len(entries)) <= last:
            entries += await reader.read_batch(start, last - start + 1, 2 * _CHUNK_BYTES)
    except BKException as error:
        # The error describes only the last bookie tried, and does not name the entries.
        raise type(error)(
            f"cannot read entries {first} to {last} of ledger {reader.ledger_id}: {error}"
        ) from None
    return entries
