"""Step 1 seen from labkit: a journal whose file the learner's `Journal` writes."""

from labkit.course.workshop.learner import Learner
from labkit.system.model.length_prefixed import LENGTH_SIZE
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.disk import Disk
from labkit.system.storage.journal import VERSION, Journal, JournalGroup, journal_ids
from labkit.system.storage.log_mark import START, LogMark


class LearnersJournal(Journal):
    """The journal of one directory: one file of the learner's for each process.

    A file does not end before its process does, however long it gets.
    """

    learner: Learner

    def __init__(
        self, disk: Disk, config: StorageConfig, first_file_id: int, synced: LogMark = START
    ) -> None:
        self.synced = synced
        self.version = VERSION
        existing = journal_ids(disk)
        self.file_id = existing[-1] + 1 if existing else first_file_id
        self.directory = disk
        self.backup_count = config.journal_max_backups
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

    def put(self, group: JournalGroup) -> None:
        # All of the group's records, with the lengths and the padding that the learner gave them.
        (data,) = group.records
        self.yours.call("write", object, group.offset, data)

    def sync(self) -> None:
        """The learner's `write` has synced already."""

    def trim(self, mark: LogMark) -> None:
        old = [file_id for file_id in journal_ids(self.directory) if file_id < mark.file_id]
        for file_id in old[: max(0, len(old) - self.backup_count)]:
            self.directory.remove(f"current/{LogMark(file_id, 0).file_name}")

    def close(self) -> None:
        """The learner's file is closed with its process."""
