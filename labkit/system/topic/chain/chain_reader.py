"""Reading a chain: what was just stored from memory, the rest from the bookies.

In Pulsar: `ManagedLedgerImpl.asyncReadEntries`, `EntryCacheImpl.java`.
"""

from collections import OrderedDict
from dataclasses import dataclass

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.reader import LedgerReader
from labkit.system.model.errors import BKException
from labkit.system.topic.chain.chain import LedgerChain, Position

_MOST_READERS = 16
_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class StoredEntry:
    """An entry and where it is stored."""

    position: Position
    data: bytes


class ChainReader:
    """Reads entries of the chain as far as they are confirmed.

    A read near the end, where most consumers read, is served from the last `cache_size_bytes` given
    to `stored`, without asking a bookie.
    """

    def __init__(self, chain: LedgerChain, client: BookKeeper, cache_size_bytes: int) -> None:
        self._chain = chain
        self._client = client
        self._cache: OrderedDict[Position, bytes] = OrderedDict()
        self._cached_bytes = 0
        self._limit_bytes = cache_size_bytes
        self._readers: dict[int, LedgerReader] = {}

    def stored(self, position: Position, data: bytes) -> None:
        """Keep a confirmed entry for reads near the end."""
        self._cache[position] = data
        self._cached_bytes += len(data)
        while self._cached_bytes > self._limit_bytes:
            self._cached_bytes -= len(self._cache.popitem(last=False)[1])

    async def read(self, start: Position, max_entries: int, max_bytes: int) -> list[StoredEntry]:
        """The first entry at `start` or after it, and those that follow it in its ledger: at most
        `max_entries`, and beyond the first one at most `max_bytes`.  An empty list: there is none
        yet.

        Raises what `LedgerReader.read_entry` raises, unless the ledger was trimmed meanwhile.
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
        # The owner knows what is confirmed; bookies learn of it one entry later.
        reader.last_add_confirmed = max(reader.last_add_confirmed, last)
        count = min(max_entries, last - entry_id + 1, _AT_ONCE)
        entries = await reader.read_batch(entry_id, count, max_bytes)
        return [StoredEntry((ledger_id, entry.entry_id), entry.payload) for entry in entries]

    async def _reader(self, ledger_id: int) -> LedgerReader:
        """The ledger's reader, which asks no bookie how far it may read."""
        reader = self._readers.pop(ledger_id, None)
        if reader is None:
            client = self._client
            metadata = await client.ledger_metadata(ledger_id)
            reader = client.reader_class(ledger_id, metadata, client.context)
        # Put back at the end, so that the one used least recently goes first.
        self._readers[ledger_id] = reader
        while len(self._readers) > _MOST_READERS:
            del self._readers[next(iter(self._readers))]
        return reader
