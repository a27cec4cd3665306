"""Entries of one log are read with what follows them."""

import pytest

from labkit.sim.disk import SimDisk, SimFile
from labkit.storage.log_reader import LogReader
from tests.storage.support import entry


class CountingFile(SimFile):
    """Remembers where it was read."""

    def __init__(self, file: SimFile) -> None:
        super().__init__(file.disk, file.path, file.inode)
        self.reads: list[int] = []

    def read(self, offset: int, size: int) -> bytes:
        self.reads.append(offset)
        return super().read(offset, size)


@pytest.fixture
def log() -> CountingFile:
    """A hundred entries of 45 bytes, one behind the other."""
    file = SimDisk().create("current/0.log")
    entries = [entry(5, entry_id) for entry_id in range(100)]
    file.write(0, b"".join(len(each).to_bytes(4, "big") + each for each in entries))
    return CountingFile(file)


def test_entries_in_order_are_one_read_of_the_file(log: CountingFile) -> None:
    reader = LogReader(log)
    for entry_id in range(100):
        assert reader.entry(entry_id * 45 + 4, 5, entry_id) == entry(5, entry_id)
    assert log.reads == [0]


def test_an_entry_that_is_read_again_is_not_read_from_the_file(log: CountingFile) -> None:
    reader = LogReader(log)
    for _ in range(3):
        assert reader.entry(50 * 45 + 4, 5, 50) == entry(5, 50)
    assert log.reads == [50 * 45]


def test_an_entry_before_the_last_read_is_read_from_the_file(log: CountingFile) -> None:
    reader = LogReader(log)
    for entry_id in (50, 49):
        assert reader.entry(entry_id * 45 + 4, 5, entry_id) == entry(5, entry_id)
    assert log.reads == [50 * 45, 49 * 45]


def test_a_read_in_order_takes_more_along_than_one_somewhere() -> None:
    file = SimDisk().create("current/0.log")
    payload = bytes(1000)
    stored = [entry(5, entry_id, payload) for entry_id in range(200)]
    size = 4 + len(stored[0])
    file.write(0, b"".join(len(each).to_bytes(4, "big") + each for each in stored))
    log = CountingFile(file)
    reader = LogReader(log)
    # Far from the beginning, so that the first read is one somewhere.
    for entry_id in range(50, 200):
        assert reader.entry(entry_id * size + 4, 5, entry_id) == stored[entry_id]
    first, second, third = log.reads[:3]
    assert second - first < 17_000
    assert third - second > 60_000
