"""Reads entries of a chain, either from a cache of recent entries or from bookies.

In Pulsar: `ManagedLedgerImpl.asyncReadEntries`, `EntryCacheImpl.java`.
"""

from collections import OrderedDict
from dataclasses import dataclass

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.reader import LedgerReader
from labkit.system.model.errors import BKException
from labkit.system.topic.chain.ledger_chain import LedgerChain, Position

_MAX_READERS = 16
_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class StoredEntry:
    position: Position
    data: bytes


class ChainReader:
    """Caches the latest entries, because most consumers read near the end of the chain."""

    def __init__(self, chain: LedgerChain, client: BookKeeper, cache_size_bytes: int) -> None:
        self._chain = chain
        self._client = client
        self._cache: OrderedDict[Position, bytes] = OrderedDict()
        self._cached_bytes = 0
        self._limit_bytes = cache_size_bytes
        self._readers: dict[int, LedgerReader] = {}

    def add_to_cache(self, position: Position, data: bytes) -> None:
        self._cache[position] = data
        self._cached_bytes += len(data)
        while self._cached_bytes > self._limit_bytes:
            self._cached_bytes -= len(self._cache.popitem(last=False)[1])

    async def read(self, start: Position, max_entries: int, max_bytes: int) -> list[StoredEntry]:
        """Return the first entry at or after `start`, if any, and those that follow in its ledger.

        Return at most `max_entries` entries and `max_bytes` bytes, but at least one entry. Raises
        the exceptions of `LedgerReader.read_entry`, unless the ledger has just been trimmed.
        """
        while (first := self._chain.first_from(start)) is not None:
            entries = self._read_cached(first, max_entries, max_bytes)
            if entries:
                return entries
            try:
                return await self._read_stored(first, max_entries, max_bytes)
            except BKException:
                if self._chain.has_ledger(first[0]):
                    raise
        return []

    def _read_cached(self, first: Position, max_entries: int, max_bytes: int) -> list[StoredEntry]:
        ledger_id, entry_id = first
        entries: list[StoredEntry] = []
        size = 0
        while len(entries) < max_entries:
            position = ledger_id, entry_id + len(entries)
            data = self._cache.get(position)
            if data is None or (entries and size + len(data) > max_bytes):
                break
            entries.append(StoredEntry(position, data))
            size += len(data)
        return entries

    async def _read_stored(
        self, first: Position, max_entries: int, max_bytes: int
    ) -> list[StoredEntry]:
        ledger_id, entry_id = first
        last = self._chain.entry_count_of(ledger_id) - 1
        reader = await self._reader(ledger_id)
        # Bookies learn that an entry is confirmed only when they receive the next entry.
        reader.last_add_confirmed = max(reader.last_add_confirmed, last)
        count = min(max_entries, last - entry_id + 1, _AT_ONCE)
        entries = await reader.read_batch(entry_id, count, max_bytes)
        return [StoredEntry((ledger_id, entry.entry_id), entry.payload) for entry in entries]

    async def _reader(self, ledger_id: int) -> LedgerReader:
        """Return a reader that was opened without asking bookies for LastAddConfirmed."""
        reader = self._readers.pop(ledger_id, None)
        if reader is None:
            client = self._client
            metadata = await client.ledger_metadata(ledger_id)
            reader = client.reader_class(ledger_id, metadata, client.context)
        # Move the reader to the end, so that the first one is the least recently used.
        self._readers[ledger_id] = reader
        while len(self._readers) > _MAX_READERS:
            del self._readers[next(iter(self._readers))]
        return reader
