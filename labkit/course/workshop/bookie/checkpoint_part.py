"""Step 5 seen from labkit: a store whose checkpoints the learner's `Checkpoint` makes."""

from dataclasses import dataclass

from labkit.course.workshop.learner import Learner, Yours
from labkit.system.storage.disk import Disk
from labkit.system.storage.flush_events import WrittenEntry, record_flush
from labkit.system.storage.log_mark import START, LogMark
from labkit.system.storage.store import Checkpoint, LedgerStore


class Flushing:
    """The bookie as the learner's checkpoint sees it."""

    def __init__(self, store: LedgerStore) -> None:
        self._store = store
        self._sizes: dict[int, int] = {}
        self._written: list[WrittenEntry] = []

    def synced(self) -> tuple[int, int]:
        """Journal file and offset up to which records are durable now."""
        file_id, offset = self._store.journals[0].synced
        return file_id, offset

    def set_memtable_aside(self) -> list[tuple[int, int, bytes]]:
        """(ledger id, entry id, entry) in the order of the entry log; adds go on into an empty
        memtable.  Reads find the entries until the checkpoint has ended.
        """
        return list(LedgerStore.begin_checkpoint(self._store).memtable)

    def append(self, ledger_id: int, entry: bytes) -> int:
        """Put an entry into the entry log, not synced; returns its location."""
        [location] = self._store.entry_logger.append(ledger_id, [entry])
        self._sizes[location] = len(entry)
        return location

    def sync_entry_log(self) -> None:
        """Make durable what was appended."""
        self._store.entry_logger.sync()

    def set_location(self, ledger_id: int, entry_id: int, location: int) -> None:
        """Put a location into the ledger's index, in memory."""
        self._store.ledgers.set_locations(ledger_id, (entry_id,), (location,))
        size = self._sizes.get(location, 0)
        self._written.append(WrittenEntry(ledger_id, entry_id, location, size))

    def flush_indexes(self) -> None:
        """Make all indexes durable."""
        self._store.ledgers.flush()
        record_flush(self._store.recorder, self._written)
        self._written = []

    def move_mark(self, file_id: int, offset: int) -> None:
        """Persist LastLogMark in every ledger directory, with your `write_last_mark`."""
        mark = LogMark(file_id, offset)
        if mark != START:
            self._store.persist_marks((mark,))

    def remove_journals(self, file_id: int) -> None:
        """Remove the journal files before that one, except the configured backups."""
        self._store.journals[0].trim(LogMark(file_id, 0))


@dataclass(frozen=True, slots=True)
class LearnersCheckpoint(Checkpoint):
    """A checkpoint under way, and the learner's object that makes it."""

    yours: Yours
    bookie: Flushing


class CheckpointingStore(LedgerStore):
    """A store with one journal whose checkpoints are the learner's."""

    learner: Learner

    def begin_checkpoint(self) -> Checkpoint:
        bookie = Flushing(self)
        yours = self.learner.make("Checkpoint", bookie)
        marks = tuple(journal.synced for journal in self.journals)
        return LearnersCheckpoint(marks, self.flushing or self.memtable, yours, bookie)

    def flush(self, checkpoint: Checkpoint) -> None:
        assert isinstance(checkpoint, LearnersCheckpoint)
        checkpoint.yours.call("flush", object, checkpoint.bookie)


def mark_functions(learner: Learner) -> dict[str, object]:
    """The learner's functions for lastMark, as a store's attributes."""

    def read_last_mark(disk: Disk, name: str) -> LogMark:
        return LogMark(*learner.call("read_last_mark", tuple, disk))

    def write_last_mark(disk: Disk, mark: LogMark, name: str) -> None:
        learner.call("write_last_mark", object, disk, *mark)

    return {
        "read_last_mark": staticmethod(read_last_mark),
        "write_last_mark": staticmethod(write_last_mark),
    }
