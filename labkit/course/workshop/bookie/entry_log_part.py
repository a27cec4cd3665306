"""Step 3 seen from labkit: logs that the learner's `EntryLog` writes and `read_entry` reads."""

from collections.abc import Iterable, Sequence

from labkit.course.workshop.learner import Learner
from labkit.system.model.errors import StorageDamagedException
from labkit.system.storage.disk import File
from labkit.system.storage.entry_log import EntryLogger, OpenLog, location_of, log_name


class LearnersLog(OpenLog):
    """A log that is being written.  It ends without a ledgers map, and readers scan it instead."""

    def __init__(self, learner: Learner, log_id: int, file: File) -> None:
        self.log_id = log_id
        self.file = file
        self.is_synced = False
        self.yours = learner.make("EntryLog", file)
        self.end = self.yours.call("size", int)

    def append(self, ledger_id: int, entries: Iterable[bytes]) -> list[int]:
        places = [location_of(self.log_id, self.yours.call("append", int, e)) for e in entries]
        self.end = self.yours.call("size", int)
        return places

    def append_ledgers_map(self) -> None:
        """None is written."""

    def sync(self) -> None:
        self.yours.call("sync", object)
        self.is_synced = True


class LearnersEntryLogger(EntryLogger):
    """All entry logs of the bookie."""

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
                f" {ledger_id} should lie here and does not"
            )
        return data

    def read_all(
        self, locations: Sequence[int], ledger_id: int, first: int, room: int
    ) -> tuple[list[bytes], int]:
        """None at a time: each is read by `read`."""
        return [], 0
