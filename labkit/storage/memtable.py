"""The memtable: entries in memory, waiting to be written to the entry log in order.

In BookKeeper: `bookie/EntryMemTable.java`.
"""

from collections.abc import Iterator


class Memtable:
    """Entries by ledger and entry id.

    Invariant: the first copy of an entry wins; later ones are dropped, as their journal records
    would be at replay.
    """

    def __init__(self) -> None:
        self.size_bytes = 0
        self.entry_count = 0
        self._ledgers: dict[int, dict[int, bytes]] = {}

    def put(self, ledger_id: int, entry_id: int, data: bytes) -> None:
        """Keep the entry's bytes unless the entry is here already."""
        entries = self._ledgers.get(ledger_id)
        if entries is None:
            entries = self._ledgers[ledger_id] = {}
        if entry_id not in entries:
            entries[entry_id] = data
            self.size_bytes += len(data)
            self.entry_count += 1

    def get(self, ledger_id: int, entry_id: int) -> bytes | None:
        """The entry's bytes, if they are here."""
        return self._ledgers.get(ledger_id, {}).get(entry_id)

    def last_entry_id(self, ledger_id: int) -> int:
        """The ledger's highest entry id here; -1 if there is none."""
        return max(self._ledgers.get(ledger_id, ()), default=-1)

    def clear(self) -> None:
        """Forget the entries: the index knows where they lie now."""
        self._ledgers = {}
        self.size_bytes = self.entry_count = 0

    def __iter__(self) -> Iterator[tuple[int, int, bytes]]:
        """(ledger id, entry id, bytes) in the order in which the entry log gets them."""
        for ledger_id, entries in sorted(self._ledgers.items()):
            for entry_id, data in sorted(entries.items()):
                yield ledger_id, entry_id, data
