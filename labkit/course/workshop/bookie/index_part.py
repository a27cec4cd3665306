"""Step 4 seen from labkit: a ledger's index whose locations the learner's `Index` keeps."""

import struct
from collections.abc import Iterator, Sequence

from labkit.course.workshop.learner import Learner, Yours
from labkit.system.model.errors import StorageDamagedException
from labkit.system.storage.disk import Disk
from labkit.system.storage.index.ledger_index import (
    IndexHeader,
    LedgerIndex,
    WrittenIndex,
    index_path,
)

UNREADABLE = (ValueError, struct.error)
"""What `load` raises for a header that makes no sense."""


class LearnersIndex(LedgerIndex):
    """One ledger.  Its flush is the learner's, from the first write to the last name."""

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
            index.yours = Yours(
                cls.learner,
                cls.learner.checked("Index.load", load, object, (disk, path), UNREADABLE),
            )
        except UNREADABLE as error:
            words = f"index {disk.path(path)}: unreadable header ({error})"
            raise StorageDamagedException(words) from None
        return index

    def begin(self, ledger_id: int, disk: Disk, page_size: int) -> None:
        """Set what labkit itself keeps of an index."""
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

    def mark_unsynced(self) -> None:
        """The first flush after `load` makes durable what an earlier process may have left."""

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
        """The learner's index opens its file when it needs it."""

    def close(self) -> None:
        """The same."""
