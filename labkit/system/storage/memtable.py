"""The memtable: entries in memory, waiting to be written to the entry log in order.

In BookKeeper: `bookie/EntryMemTable.java`.
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

_SMALL_ENTRY_BYTES = 256
"""Smaller entries cost more memory for their objects than for their bytes: they are counted."""
_FEW_ENTRIES = 100_000
"""With fewer entries the memory for their objects does not matter."""


class LedgerEntries(NamedTuple):
    """Entries of one ledger, ascending, as the entry log gets them."""

    ledger_id: int
    entry_ids: list[int]
    entries: list[bytes]


class Memtable:
    """Entries by ledger and entry id.

    Invariant: the first copy of an entry wins; later ones are dropped, as their journal records
    would be at replay.
    """

    def __init__(self) -> None:
        self.size_bytes = 0
        self.entry_count = 0
        self._ledgers: dict[int, dict[int, bytes | None]] = {}
        self._last: dict[int, tuple[int, int]] = {}
        """How many entries a ledger had when its highest id was asked for, and that id."""

    def is_full(self, limit_bytes: int) -> bool:
        """Whether it holds that many bytes, or enough small entries that, at Python's 250 bytes
        each, they take about twice that memory.
        """
        return self.size_bytes >= limit_bytes or self.entry_count >= max(
            limit_bytes // _SMALL_ENTRY_BYTES, _FEW_ENTRIES
        )

    def put(self, ledger_id: int, entry_id: int, data: bytes) -> None:
        """Keep the entry's bytes unless the entry is here already."""
        kept = self._ledgers.get(ledger_id)
        if kept is None:
            kept = self._ledgers[ledger_id] = {}
        if entry_id not in kept:
            kept[entry_id] = data
            self.size_bytes += len(data)
            self.entry_count += 1

    def get(self, ledger_id: int, entry_id: int) -> bytes | None:
        """The entry's bytes, if they are here."""
        kept = self._ledgers.get(ledger_id)
        return None if kept is None else kept.get(entry_id)

    def last_entry_id(self, ledger_id: int) -> int:
        """The highest id of the ledger's entries that were put; -1 if there is none."""
        kept = self._ledgers.get(ledger_id, {})
        seen, last = self._last.get(ledger_id, (0, -1))
        if len(kept) > seen:
            # Those that came since stand at the end.
            last = max(last, *islice(reversed(kept), len(kept) - seen))
            self._last[ledger_id] = len(kept), last
        return last

    def entry_ids(self, ledger_id: int) -> list[int]:
        """The ids of the ledger's entries that were put, in the order in which they came."""
        return list(self._ledgers.get(ledger_id, ()))

    def slices(self, size_bytes: int) -> Iterator[list[LedgerEntries]]:
        """All entries in the order of the entry log, in slices of `size_bytes` or a little more.

        Each slice may be removed before the next one is taken.
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
        """Give up the bytes of these entries: the index knows where they lie now."""
        for ledger_id, entry_ids, entries in runs:
            # The ids stay: another thread may be going through them.
            self._ledgers[ledger_id].update(dict.fromkeys(entry_ids))
            self.size_bytes -= sum(map(len, entries))
            self.entry_count -= len(entries)

    def __iter__(self) -> Iterator[tuple[int, int, bytes]]:
        """(ledger id, entry id, bytes) in the order in which the entry log gets them."""
        for ledger_id, kept in sorted(self._ledgers.items()):
            for entry_id in sorted(kept):
                data = kept[entry_id]
                if data is not None:
                    yield ledger_id, entry_id, data
