"""The learner's store, which is `LedgerStore` with labkit's parts replaced by the learner's.

Each step has an adapter, which is a labkit class that delegates to one of the learner's objects.
`store_of` combines the adapters for the parts that the learner has written.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from labkit.course.workshop.learner import Learner, LearnersObject
from labkit.system.model.errors import StorageDamagedException
from labkit.system.model.length_prefixed import LENGTH_SIZE
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.disk import Disk, File
from labkit.system.storage.entry_log import EntryLogger, OpenLog, log_name
from labkit.system.storage.flush_events import WrittenEntry, record_flush
from labkit.system.storage.index.ledger_cache import LedgerCache
from labkit.system.storage.index.ledger_descriptor import LedgerDescriptor
from labkit.system.storage.index.ledger_index import (
    IndexHeader,
    LedgerIndex,
    WrittenIndex,
    index_path,
)
from labkit.system.storage.journal import VERSION as JOURNAL_VERSION
from labkit.system.storage.journal import Journal, JournalGroup, journal_ids
from labkit.system.storage.log_mark import START, LogMark
from labkit.system.storage.memtable import LedgerEntries, Memtable
from labkit.system.storage.store import Checkpoint, LedgerStore

# Step 1: a journal whose file is written by the learner's `Journal`


class LearnersJournal(Journal):
    """The journal of one directory, which consists of a single file per process, written by the
    learner's object.

    The journal never rolls over to another file.
    """

    learner: Learner

    def __init__(
        self, disk: Disk, config: StorageConfig, first_file_id: int, synced: LogMark = START
    ) -> None:
        self.synced = synced
        self.version = JOURNAL_VERSION
        existing = journal_ids(disk)
        self.file_id = existing[-1] + 1 if existing else first_file_id
        self.disk = disk
        self.max_backups = config.journal_max_backups
        self.group_size = self.record_count = 0
        self.yours = self.learner.make("Journal", disk, self.file_id)

    def append(self, *records: bytes) -> LogMark:
        offsets: list[int] = [self.yours.call("append", int, record) for record in records]
        self.group_size += sum(LENGTH_SIZE + len(record) for record in records)
        self.record_count += len(records)
        return LogMark(self.file_id, offsets[0])

    @property
    def group_bytes(self) -> int:
        return self.group_size

    @property
    def group_records(self) -> int:
        return self.record_count

    def seal(self) -> JournalGroup | None:
        sealed = self.yours.call("seal", tuple | None)
        self.group_size = self.record_count = 0
        if sealed is None:
            return None
        offset, data = sealed
        end = LogMark(self.file_id, offset + len(data))
        return JournalGroup(self.file_id, offset, [data], b"", end, ends_file=False)

    def write_unsynced(self, group: JournalGroup) -> None:
        # The data contains all records of the group, with the learner's lengths and padding.
        (data,) = group.records
        self.yours.call("write", object, group.offset, data)

    def sync(self) -> None:
        """Do nothing, because the learner's `write` has already synced."""

    def close(self) -> None:
        """Do nothing, because the operating system closes the learner's file when the process
        exits.
        """


# Step 3: a memtable whose entries are kept by the learner's `Memtable`


class LearnersMemtable(Memtable):
    """The entries that are waiting for a flush. They cannot be dropped individually."""

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
        """Do nothing, because entries are dropped with the whole memtable."""

    def __iter__(self) -> Iterator[tuple[int, int, bytes]]:
        return iter(self.yours.call("entries", list[tuple[int, int, bytes]]))


# Step 4: logs written by the learner's `EntryLog` and read by `read_entry`


class LearnersLog(OpenLog):
    """An entry log that is being written. The log has no ledgers map, so readers must scan the
    whole log.
    """

    def __init__(self, learner: Learner, log_id: int, file: File) -> None:
        self.log_id = log_id
        self.file = file
        self.has_durable_entries = False
        self.learner = learner
        self.yours = learner.make("EntryLog", file)
        self.end = self.yours.call("size", int)

    def append(self, ledger_id: int, entries: Iterable[bytes]) -> list[int]:
        offsets = [self.yours.call("append", int, entry) for entry in entries]
        self.end = self.yours.call("size", int)
        return [self.learner.call("location_of", int, self.log_id, each) for each in offsets]

    def append_ledgers_map(self) -> None: ...

    def sync(self) -> None:
        self.yours.call("sync", object)
        self.has_durable_entries = True


class LearnersEntryLogger(EntryLogger):
    learner: Learner

    def open_log(self, file: File, log_id: int) -> OpenLog:
        return LearnersLog(self.learner, log_id, file)

    def read(self, location: int, ledger_id: int, entry_id: int) -> bytes:
        log_id, offset = location >> 32, location & 0xFFFFFFFF
        disk, name = self.disk_of(log_id), f"current/{log_name(log_id)}"
        file = disk.open(name)
        wanted = file, offset, ledger_id, entry_id
        data: bytes | None = self.learner.call("read_entry", bytes | None, *wanted)
        file.close()
        if data is None:
            raise StorageDamagedException(
                f"entry log {disk.path(name)}, offset {offset}: entry {entry_id} of ledger"
                f" {ledger_id} was expected here"
            )
        return data

    def read_all(
        self, locations: Sequence[int], ledger_id: int, first: int, max_bytes: int
    ) -> tuple[list[bytes], int]:
        """Return no entries, so that the caller reads each entry with `read`."""
        return [], 0


# Step 5: a ledger's index whose locations are kept by the learner's `Index`


class LearnersIndex(LedgerIndex):
    """The index of one ledger, flushed entirely by the learner's code."""

    learner: Learner

    def __init__(self, ledger_id: int, header: IndexHeader, disk: Disk, page_size: int) -> None:
        self.begin(ledger_id, disk, page_size)
        self.yours = self.learner.make("Index", disk, index_path(ledger_id), header.master_key)
        if header.fenced:
            self.yours.set("fenced", True)

    @classmethod
    def load(cls, ledger_id: int, disk: Disk, page_size: int) -> "LearnersIndex":
        index = cls.__new__(cls)
        index.begin(ledger_id, disk, page_size)
        path = index_path(ledger_id)
        load = cls.learner.part("Index").load
        try:
            index.yours = LearnersObject(
                cls.learner,
                cls.learner.checked("Index.load", load, object, (disk, path), (ValueError,)),
            )
        except ValueError as error:
            message = f"index {disk.path(path)}: unreadable header ({error})"
            raise StorageDamagedException(message) from None
        return index

    def begin(self, ledger_id: int, disk: Disk, page_size: int) -> None:
        self.ledger_id, self.disk, self.page_size = ledger_id, disk, page_size

    @property
    def header(self) -> IndexHeader:
        key, lac = self.yours.get("master_key"), self.yours.get("explicit_lac")
        return IndexHeader(key, bool(self.yours.get("fenced")), lac)

    @header.setter
    def header(self, header: IndexHeader) -> None:
        before = self.header
        if header.fenced != before.fenced:
            self.yours.set("fenced", header.fenced)
        if header.explicit_lac != before.explicit_lac:
            self.yours.set("explicit_lac", header.explicit_lac)

    @property
    def changed_page_count(self) -> int:
        return 0

    def assume_unsynced(self) -> None:
        """Do nothing, because the learner's first flush after `load` always syncs."""

    def set_locations(self, entry_ids: Sequence[int], locations: Sequence[int]) -> None:
        for entry_id, location in zip(entry_ids, locations, strict=True):
            self.yours.call("set_location", object, entry_id, location)

    def location(self, entry_id: int) -> int:
        found: int = self.yours.call("location", int, entry_id)
        return found

    def locations_from(self, entry_id: int, count: int) -> Sequence[int]:
        return [self.location(entry_id)]

    def locations(self) -> Iterator[tuple[int, int]]:
        return iter(self.yours.call("locations", list[tuple[int, int]]))

    def last_entry_id(self) -> int:
        return max((entry_id for entry_id, _ in self.locations()), default=-1)

    def write(self) -> WrittenIndex | None:
        self.yours.call("flush", object)
        return None

    def forget_file(self) -> None:
        """Do nothing, because the learner's index opens its file when needed."""

    def close(self) -> None:
        """Do nothing, because the learner's index opens its file when needed."""


# Step 6: a store whose checkpoints are made by the learner's `Checkpoint`


class CheckpointView:
    """The bookie as the learner's checkpoint sees it."""

    def __init__(self, store: "CheckpointingStore") -> None:
        self._store = store
        self._sizes: dict[int, int] = {}
        self._written: list[WrittenEntry] = []

    def synced(self) -> tuple[int, int]:
        """Return the journal file id and offset up to which records are durable."""
        file_id, offset = self._store.journals[0].synced
        return file_id, offset

    def set_memtable_aside(self) -> list[tuple[int, int, bytes]]:
        """Return (ledger id, entry id, entry) for all entries, in the order of the entry log.

        New adds go to an empty memtable. The entries remain readable until the checkpoint has
        finished.
        """
        return list(LedgerStore.begin_checkpoint(self._store).memtable)

    def append(self, ledger_id: int, entry: bytes) -> int:
        """Append an entry to the entry log without syncing, and return its location."""
        [location] = self._store.entry_logger.append(ledger_id, [entry])
        self._sizes[location] = len(entry)
        return location

    def sync_entry_log(self) -> None:
        self._store.entry_logger.sync()

    def set_location(self, ledger_id: int, entry_id: int, location: int) -> None:
        self._store.ledgers.set_locations(ledger_id, (entry_id,), (location,))
        size = self._sizes.get(location, 0)
        self._written.append(WrittenEntry(ledger_id, entry_id, location, size))

    def flush_indexes(self) -> None:
        self._store.ledgers.flush()
        record_flush(self._store.recorder, self._written)
        self._written = []

    def move_mark(self, file_id: int, offset: int) -> None:
        """Persist LastLogMark in every ledger directory, with the learner's `write_last_mark`."""
        mark = LogMark(file_id, offset)
        if mark != START:
            self._store.persist_marks((mark,))

    def remove_journals(self, file_id: int) -> None:
        """Delete the journal files that the learner's `removable_journals` returns if LastLogMark
        points into the given file.
        """
        journal = self._store.journals[0]
        existing = journal_ids(journal.disk)
        removable: list[int] = self._store.learner.call(
            "removable_journals", list[int], existing, file_id, journal.max_backups
        )
        for each in removable:
            journal.disk.remove(f"current/{LogMark(each, 0).file_name}")


@dataclass(frozen=True, slots=True)
class LearnersCheckpoint(Checkpoint):
    yours: LearnersObject
    bookie: CheckpointView


class CheckpointingStore(LedgerStore):
    learner: Learner

    def begin_checkpoint(self) -> Checkpoint:
        bookie = CheckpointView(self)
        yours = self.learner.make("Checkpoint", bookie)
        marks = tuple(journal.synced for journal in self.journals)
        return LearnersCheckpoint(marks, self.flushing_memtable or self.memtable, yours, bookie)

    def flush(self, checkpoint: Checkpoint) -> None:
        assert isinstance(checkpoint, LearnersCheckpoint)
        checkpoint.yours.call("flush", object, checkpoint.bookie)

    def read_last_mark(self, disk: Disk, name: str = "lastMark") -> LogMark:
        return LogMark(*self.learner.call("read_last_mark", tuple, disk))

    def write_last_mark(self, disk: Disk, mark: LogMark, name: str = "lastMark") -> None:
        self.learner.call("write_last_mark", object, disk, *mark)


# Step 7: a store whose journal is read by the learner's `replay` at startup


class ReplayView:
    """The bookie as the learner's replay sees it."""

    def __init__(self, store: LedgerStore) -> None:
        self._store = store
        self.record_count = 0

    def journal_ids(self, disk: Disk) -> list[int]:
        return journal_ids(disk)

    def has_ledger(self, ledger_id: int) -> bool:
        """Return whether the ledger has an index, or has been created during this replay."""
        return self._store.ledgers.get(ledger_id) is not None

    def create_ledger(self, ledger_id: int, master_key: bytes) -> None:
        self._store.ledgers.create(ledger_id, master_key)

    def put(self, ledger_id: int, entry_id: int, entry: bytes) -> None:
        """Put an entry into the memtable, unless the index and the entry log already contain it."""
        ledger = self._ledger(ledger_id)
        if not self._store.keep_stored_copy(ledger, entry_id):
            self._store.memtable.put(ledger_id, entry_id, entry)

    def fence(self, ledger_id: int) -> None:
        self._ledger(ledger_id).fence()

    def set_explicit_lac(self, ledger_id: int, body: bytes) -> None:
        self._ledger(ledger_id).set_explicit_lac(body)

    def _ledger(self, ledger_id: int) -> LedgerDescriptor:
        ledger = self._store.ledgers.get(ledger_id)
        if ledger is None:
            raise ValueError(f"ledger {ledger_id} does not exist: call create_ledger first")
        ledger.index.assume_unsynced()
        self.record_count += 1
        return ledger


class ReplayingStore(LedgerStore):
    learner: Learner

    def replay(self, disk: Disk, mark: LogMark) -> LogMark:
        bookie = ReplayView(self)
        end = LogMark(*self.learner.call("replay", tuple, bookie, disk, *mark))
        if end != mark or bookie.record_count:
            self.recorder.record(
                "journal.replayed",
                file=end.file_name,
                offset=end.offset,
                size=bookie.record_count,
            )
        return end


# The store


T = TypeVar("T")

_PARTS: dict[str, tuple[str, type]] = {
    "Journal": ("journal_class", LearnersJournal),
    "Memtable": ("memtable_class", LearnersMemtable),
    "EntryLog": ("entry_logger_class", LearnersEntryLogger),
}
_STORES = {"replay": ReplayingStore, "Checkpoint": CheckpointingStore}


def store_of(learner: Learner) -> type[LedgerStore]:
    """Return a store class that uses the parts that the learner has written (`Learner.parts`)."""
    fields: dict[str, object] = {"learner": learner}
    for name, (field, part) in _PARTS.items():
        if name in learner.parts:
            fields[field] = bound(part, learner)
    if "Index" in learner.parts:
        index = {"index_class": bound(LearnersIndex, learner)}
        fields["ledgers_class"] = type("YourIndexes", (LedgerCache,), index)
    stores = [store for name, store in _STORES.items() if name in learner.parts]
    made: type[LedgerStore] = type("YourStore", (*stores, LedgerStore), fields)
    return made


def bound(part: type[T], learner: Learner) -> type[T]:
    """Return a subclass of the adapter that uses this learner's code."""
    made: type[T] = type("LearnersPart", (part,), {"learner": learner})
    return made
