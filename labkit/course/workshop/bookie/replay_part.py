"""Step 6 seen from labkit: a store whose journal the learner's `replay` reads at its start."""

from labkit.course.workshop.learner import Learner
from labkit.system.storage.disk import Disk
from labkit.system.storage.index.ledger_descriptor import LedgerDescriptor
from labkit.system.storage.journal import journal_ids
from labkit.system.storage.log_mark import LogMark
from labkit.system.storage.store import LedgerStore


class Replaying:
    """The bookie as the learner's replay sees it."""

    def __init__(self, store: LedgerStore) -> None:
        self._store = store
        self.record_count = 0

    def journal_ids(self, disk: Disk) -> list[int]:
        """The ids of the journal files that there are, oldest first."""
        return journal_ids(disk)

    def has_ledger(self, ledger_id: int) -> bool:
        """Whether there is an index of the ledger, or it was created since."""
        return self._store.ledgers.get(ledger_id) is not None

    def create_ledger(self, ledger_id: int, master_key: bytes) -> None:
        """Make the ledger again that the journal's key record names."""
        self._store.ledgers.create(ledger_id, master_key)

    def put(self, ledger_id: int, entry_id: int, entry: bytes) -> None:
        """Put an entry into the memtable again, unless index and entry log have it."""
        ledger = self._ledger(ledger_id)
        if not self._store.is_stored(ledger, entry_id):
            self._store.memtable.put(ledger_id, entry_id, entry)

    def fence(self, ledger_id: int) -> None:
        """Fence the ledger again."""
        self._ledger(ledger_id).fence()

    def set_explicit_lac(self, ledger_id: int, body: bytes) -> None:
        """Keep an explicit LAC again."""
        self._ledger(ledger_id).set_explicit_lac(body)

    def _ledger(self, ledger_id: int) -> LedgerDescriptor:
        ledger = self._store.ledgers.get(ledger_id)
        if ledger is None:
            raise ValueError(f"there is no ledger {ledger_id}: create_ledger comes first")
        ledger.index.mark_unsynced()
        self.record_count += 1
        return ledger


class ReplayingStore(LedgerStore):
    """A store that starts with the learner's replay."""

    learner: Learner

    def replay(self, disk: Disk, mark: LogMark) -> LogMark:
        bookie = Replaying(self)
        end = LogMark(*self.learner.call("replay", tuple, bookie, disk, *mark))
        if end != mark or bookie.record_count:
            self.recorder.record(
                "journal.replayed",
                file=end.file_name,
                offset=end.offset,
                size=bookie.record_count,
            )
        return end
