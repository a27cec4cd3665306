"""Step 2 seen from labkit: a memtable whose entries the learner's `Memtable` keeps."""

from collections.abc import Iterable, Iterator

from labkit.course.workshop.learner import Learner
from labkit.system.storage.memtable import LedgerEntries, Memtable


class LearnersMemtable(Memtable):
    """Entries that wait for a flush.  It keeps them until it is dropped as a whole."""

    learner: Learner

    def __init__(self) -> None:
        self.size_bytes = self.entry_count = 0
        self.yours = self.learner.make("Memtable")

    def put(self, ledger_id: int, entry_id: int, data: bytes) -> None:
        self.yours.call("put", object, ledger_id, entry_id, data)
        self.size_bytes = self.yours.call("size_bytes", int)
        self.entry_count += 1

    def get(self, ledger_id: int, entry_id: int) -> bytes | None:
        found: bytes | None = self.yours.call("get", bytes | None, ledger_id, entry_id)
        return found

    def last_entry_id(self, ledger_id: int) -> int:
        last: int = self.yours.call("last_entry_id", int, ledger_id)
        return last

    def entry_ids(self, ledger_id: int) -> list[int]:
        return [entry_id for ledger, entry_id, _ in self if ledger == ledger_id]

    def remove(self, runs: Iterable[LedgerEntries]) -> None:
        """They go with the whole memtable."""

    def __iter__(self) -> Iterator[tuple[int, int, bytes]]:
        return iter(self.yours.call("entries", list[tuple[int, int, bytes]]))
