"""The memtable, which keeps entries in memory until they are written to the entry log in order.

In BookKeeper: `bookie/EntryMemTable.java`.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

_SMALL_ENTRY_BYTES = 256
"""Entries smaller than this use less memory than the Python objects that hold them, so the number
of entries is limited as well.
"""
_FEW_ENTRIES = 100_000
"""With fewer entries than this, the memory for Python objects does not matter."""


class LedgerEntries(NamedTuple):
    """Some entries of one ledger, in ascending order of their ids."""

    ledger_id: int
    entry_ids: list[int]
    entries: list[bytes]


class Memtable:
    """A sorted buffer of entries.

    If an entry is put twice, the first copy is kept, unless it has been removed. Replay treats
    copies that are already stored in the same way.
    """

    def __init__(self) -> None:
        self.size_bytes = 0
        self.entry_count = 0
        self._ledgers: dict[int, dict[int, bytes | None]] = {}
        """The entries, keyed by ledger id and entry id; None once an entry has been removed."""
        self._last_ids: dict[int, tuple[int, int]] = {}
        """Maps each ledger to the number of entries that it had when its highest entry id was last
        computed, and to that entry id.
        """

    def is_full(self, limit_bytes: int) -> bool:
        """Return whether the entries have reached `limit_bytes`, or use about twice as much memory
        because many of them are small. Python's objects use 250 bytes per entry.
        """
        return self.size_bytes >= limit_bytes or self.entry_count >= max(
            limit_bytes // _SMALL_ENTRY_BYTES, _FEW_ENTRIES
        )

    def put(self, ledger_id: int, entry_id: int, data: bytes) -> None:
        kept = self._ledgers.get(ledger_id)
        if kept is None:
            kept = self._ledgers[ledger_id] = {}
        if kept.get(entry_id) is None:
            kept[entry_id] = data
            self.size_bytes += len(data)
            self.entry_count += 1

    def get(self, ledger_id: int, entry_id: int) -> bytes | None:
        """Return the entry, or None if it was never put or has been removed."""
        kept = self._ledgers.get(ledger_id)
        return None if kept is None else kept.get(entry_id)

    def last_entry_id(self, ledger_id: int) -> int:
        """Return the ledger's highest entry id, including removed entries, or -1 if the ledger has
        no entries.
        """
        kept = self._ledgers.get(ledger_id, {})
        count, last = self._last_ids.get(ledger_id, (0, -1))
        if len(kept) > count:
            # The entries that were added since the last call are at the end of the dictionary.
            last = max(last, *islice(reversed(kept), len(kept) - count))
            self._last_ids[ledger_id] = len(kept), last
        return last

    def entry_ids(self, ledger_id: int) -> list[int]:
        """Return the ledger's entry ids in insertion order, including those of removed entries."""
        return list(self._ledgers.get(ledger_id, ()))

    def slices(self, size_bytes: int) -> Iterator[list[LedgerEntries]]:
        """Yield all entries in entry-log order, in slices of about `size_bytes`. The caller may
        `remove` each slice.
        """
        runs, left = list[LedgerEntries](), size_bytes
        for ledger_id, entry_id, data in self:
            if not runs or runs[-1].ledger_id != ledger_id:
                runs.append(LedgerEntries(ledger_id, [], []))
                _, entry_ids, entries = runs[-1]
            entry_ids.append(entry_id)
            entries.append(data)
            left -= len(data)
            if left <= 0:
                yield runs
                runs, left = [], size_bytes
        if runs:
            yield runs

    def remove(self, runs: Iterable[LedgerEntries]) -> None:
        """Drop entries that can now be read through the index."""
        for ledger_id, entry_ids, entries in runs:
            # Keep the ids in the dictionary, because another thread may be iterating over them.
            self._ledgers[ledger_id].update(dict.fromkeys(entry_ids))
            self.size_bytes -= sum(map(len, entries))
            self.entry_count -= len(entries)

    def __iter__(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield (ledger id, entry id, bytes) in entry-log order."""
        for ledger_id, kept in sorted(self._ledgers.items()):
            for entry_id in sorted(kept):
                data = kept[entry_id]
                if data is not None:
                    yield ledger_id, entry_id, data
