"""Tests for the entry log reader, which reads ahead."""

import struct
from itertools import accumulate

import pytest

from labkit.system.storage.log_reader import EntryLogReader, zeros_to_skip
from labkit.worlds.sim.machine.disk import SimDisk, SimFile
from tests.system.storage.support import entry


class CountingFile(SimFile):
    """Records the offset and size of each read."""

    def __init__(self, file: SimFile) -> None:
        super().__init__(file.disk, file.inode)
        self.reads: list[int] = []
        self.sizes: list[int] = []

    def read(self, offset: int, size: int) -> bytes:
        self.reads.append(offset)
        self.sizes.append(size)
        return super().read(offset, size)


def framed(*entries: bytes) -> bytes:
    return b"".join(len(each).to_bytes(4, "big") + each for each in entries)


def holding(data: bytes) -> CountingFile:
    file = SimDisk().create("current/0.log")
    file.write(0, data)
    return CountingFile(file)


@pytest.fixture
def log() -> CountingFile:
    """Return a log of a hundred consecutive entries of 45 bytes."""
    return holding(framed(*(entry(5, entry_id) for entry_id in range(100))))


def test_entries_in_order_are_one_read_of_the_file(log: CountingFile) -> None:
    reader = EntryLogReader(log)
    for entry_id in range(100):
        assert reader.entry(entry_id * 45 + 4, 5, entry_id) == entry(5, entry_id)
    assert log.reads == [0]


def test_an_entry_that_is_read_again_is_not_read_from_the_file(log: CountingFile) -> None:
    reader = EntryLogReader(log)
    for _ in range(3):
        assert reader.entry(50 * 45 + 4, 5, 50) == entry(5, 50)
    assert log.reads == [50 * 45]


def test_an_entry_before_the_last_read_is_read_from_the_file(log: CountingFile) -> None:
    reader = EntryLogReader(log)
    for entry_id in (50, 49):
        assert reader.entry(entry_id * 45 + 4, 5, entry_id) == entry(5, entry_id)
    assert log.reads == [50 * 45, 49 * 45]


def test_a_read_in_order_takes_more_along_than_one_somewhere() -> None:
    stored = [entry(5, entry_id, bytes(1000)) for entry_id in range(200)]
    size = 4 + len(stored[0])
    log = holding(framed(*stored))
    reader = EntryLogReader(log)
    # Start far from the beginning, so that the first read counts as a random read.
    for entry_id in range(50, 200):
        assert reader.entry(entry_id * size + 4, 5, entry_id) == stored[entry_id]
    first, second, third = log.reads[:3]
    assert second - first < 17_000
    assert third - second > 60_000


# Single entries


def ids(ledger_id: int, entry_id: int) -> bytes:
    """Return the smallest possible entry, which consists only of its ids."""
    return struct.pack(">qq", ledger_id, entry_id)


@pytest.mark.parametrize(
    ("start", "size"), [(0, 16), (1, 64), (16 * 1024, 64), (16 * 1024 + 1, 16)]
)
def test_a_read_up_to_16_kib_behind_the_last_one_is_in_order(start: int, size: int) -> None:
    """Nothing has been read yet, so the previous read counts as ending at offset 0."""
    log = holding(bytes(start) + framed(entry(5, 0, bytes(100_000))))
    EntryLogReader(log).entry(start + 4, 5, 1)
    assert log.sizes == [size * 1024]


def test_the_smallest_entry_is_read_and_the_next_one_is_in_memory_to_its_last_byte() -> None:
    log = holding(framed(ids(5, 0), ids(5, 1)))
    reader = EntryLogReader(log)
    assert (reader.entry(4, 5, 0), reader.entry(24, 5, 1)) == (ids(5, 0), ids(5, 1))
    assert log.reads == [0]
    assert EntryLogReader(log).entry(24, 5, 1) == ids(5, 1)


def test_what_is_too_short_for_the_ids_is_not_an_entry() -> None:
    log = holding((15).to_bytes(4, "big") + ids(5, 0) + bytes(99))
    assert EntryLogReader(log).entry(4, 5, 0) is None


@pytest.mark.parametrize("behind", [-1, 0, 1])
def test_an_entry_is_whole_or_it_is_not_there(behind: int) -> None:
    data = framed(entry(5, 0))
    log = holding((data + b"x")[: len(data) + behind])
    assert EntryLogReader(log).entry(4, 5, 0) == (None if behind < 0 else entry(5, 0))


@pytest.mark.parametrize(("ledger_id", "entry_id"), [(6, 0), (5, 1), (6, 1)])
def test_another_ledgers_or_another_entry_is_not_the_one_asked_for(
    ledger_id: int, entry_id: int
) -> None:
    assert EntryLogReader(holding(framed(entry(5, 0)))).entry(4, ledger_id, entry_id) is None


def test_entries_that_lie_over_the_end_of_a_read_are_read_again_from_their_start() -> None:
    stored = [entry(5, entry_id) for entry_id in range(1000)]
    log = holding(framed(*stored))
    reader = EntryLogReader(log)
    for entry_id, data in enumerate(stored):
        assert reader.entry(entry_id * 45 + 4, 5, entry_id) == data
    # The first read ends in the length or ids of entry 364.
    assert log.reads == [0, 364 * 45]


@pytest.mark.parametrize("size", [16_380, 16_381, 70_000])
@pytest.mark.parametrize("behind", [0, 1])
def test_a_large_entry_is_read_whole_also_at_the_end_of_its_log(size: int, behind: int) -> None:
    large = entry(5, 0, bytes(size - 36))
    assert len(large) == size
    log = holding(framed(large) + bytes(behind))
    reader = EntryLogReader(log)
    assert reader.entry(4, 5, 0) == large
    assert len(log.reads) == (1 if size == 16_380 else 2)
    assert reader.entry(4, 5, 0) == large
    assert len(log.reads) == (1 if size == 16_380 else 2)


def test_a_large_entry_of_which_the_last_byte_is_missing_is_not_there() -> None:
    for size in (16_381, 70_000):
        log = holding(framed(entry(5, 0, bytes(size - 36)))[:-1])
        assert EntryLogReader(log).entry(4, 5, 0) is None


def test_a_damaged_length_does_not_become_a_read_of_that_size() -> None:
    log = holding((2**31 - 1).to_bytes(4, "big") + entry(5, 0, bytes(40_000)))
    assert EntryLogReader(log).entry(4, 5, 0) is None
    assert log.sizes == [16 * 1024]


# Several entries


def offsets_of(*entries: bytes) -> list[int]:
    return [end + 4 for end in accumulate((4 + len(each) for each in entries[:-1]), initial=0)]


def test_entries_in_a_row_are_one_piece_and_one_read() -> None:
    stored = [ids(5, 7), entry(5, 8), ids(5, 9)]
    log = holding(framed(*stored))
    offsets = offsets_of(*stored)
    assert EntryLogReader(log).entries(offsets, 5, 7, 999) == ([framed(*stored)], 3)
    assert (log.reads, log.sizes) == ([0], [999])


def test_entries_with_something_between_them_are_pieces() -> None:
    mine, other = [entry(5, 0), entry(5, 1), entry(5, 2)], entry(6, 0)
    log = holding(framed(mine[0], mine[1], other, mine[2]))
    first, second, _, third = offsets_of(mine[0], mine[1], other, mine[2])
    pieces = [framed(*mine[:2]), framed(mine[2])]
    assert EntryLogReader(log).entries([first, second, third], 5, 0, 999) == (pieces, 3)


@pytest.mark.parametrize(
    ("room", "count"), [(134, 2), (135, 3), (90, 2), *((89 - i, 1) for i in range(9))]
)
def test_an_entry_that_room_or_log_cuts_is_not_taken(room: int, count: int) -> None:
    stored = [entry(5, entry_id) for entry_id in range(3)]
    data = framed(*stored)
    expected = ([framed(*stored[:count])], count)
    assert EntryLogReader(holding(data)).entries(offsets_of(*stored), 5, 0, room) == expected
    assert EntryLogReader(holding(data[:room])).entries(offsets_of(*stored), 5, 0, 999) == expected


@pytest.mark.parametrize(("at", "wrong"), [(45 + 3, 15), (45 + 11, 6), (45 + 19, 7)])
def test_entries_end_in_front_of_one_with_another_length_ledger_or_id(at: int, wrong: int) -> None:
    stored = [entry(5, entry_id) for entry_id in range(3)]
    data = bytearray(framed(*stored))
    data[at] = wrong
    found = EntryLogReader(holding(bytes(data))).entries(offsets_of(*stored), 5, 0, 999)
    assert found == ([framed(stored[0])], 1)


def test_entries_that_lie_backwards_end_at_once() -> None:
    log = holding(framed(entry(5, 1), entry(5, 0)))
    assert EntryLogReader(log).entries([49, 4], 5, 0, 999) == ([framed(entry(5, 0))], 1)


@pytest.mark.parametrize(
    ("offsets", "room", "size"),
    [
        ([4], 99_999, 16_384),
        ([4], 100, 100),
        ([50_004, 50_049], 60_000, 45 + 16_384),
        ([1004, 1049, 1094], 99_999, 90 + 16_384),
        ([1004, 17_388], 99_999, 16_384 + 16_384),
        ([1004, 17_389], 99_999, 16_384),
        ([1004, 17_389, 1049], 99_999, 16_384),
        ([1004, 0, 1049], 99_999, 16_384),
        ([1004, 11_004, 21_004, 31_004], 20_000, 20_000),
        ([1004, 11_004, 21_004, 31_004], 999_999, 30_000 + 16_384),
    ],
)
def test_a_read_goes_to_the_last_entry_that_is_near_the_one_before(
    offsets: list[int], room: int, size: int
) -> None:
    log = holding(bytes(99_999))
    EntryLogReader(log).entries(offsets, 5, 0, room)
    assert (log.reads, log.sizes) == ([offsets[0] - 4], [size])


# Zeros


@pytest.mark.parametrize("zero_count", [4, 5, 100, 65_536])
def test_zeros_in_what_was_written_end_three_before_the_next_byte(zero_count: int) -> None:
    file = holding(b"x" + bytes(zero_count) + b"x")
    assert zeros_to_skip(file, 1) == zero_count - 3


@pytest.mark.parametrize("hole", [5, 4096])
def test_a_hole_is_passed_up_to_three_bytes_before_its_end(hole: int) -> None:
    """The last three bytes may belong to the length of the next entry."""
    file = holding(b"x")
    file.write(hole, b"\0")
    assert file.next_data(1) == hole + 1
    assert zeros_to_skip(file, 1) == hole - 3
