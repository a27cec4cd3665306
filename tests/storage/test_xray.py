"""The X-ray names each byte of a file once, with what it says."""

import struct
from collections.abc import Iterable, Iterator
from itertools import pairwise

import pytest

from labkit.model.errors import StorageDamagedException
from labkit.model.layout import Span
from labkit.sim.disk import SimDisk, SimFile
from labkit.storage.entry_log import LOG_HEADER, location_of, log_ids
from labkit.storage.index import DATA_OFFSET, LedgerIndex, index_path
from labkit.storage.journal import journal_ids
from labkit.storage.xray import (
    cookie_spans,
    entry_log_spans,
    entry_spans,
    first_nonzero,
    format_spans,
    index_slots,
    index_spans,
    journal_spans,
    last_id_spans,
    last_mark_spans,
)
from tests.storage.machine import Machine
from tests.storage.support import KEY, entry
from tests.storage.test_garbage import ROLLS_SOON

LEDGERS = 5, 6


@pytest.fixture(scope="module")
def lived() -> Machine:
    """A bookie with rolled logs, a fence and an explicit LAC."""
    machine = Machine()
    store = machine.open(ROLLS_SOON)
    for entry_id in range(9):
        for ledger_id in LEDGERS:
            store.add_entry(ledger_id, entry_id, entry(ledger_id, entry_id, bytes(900)), KEY)
        store.commit()
        store.checkpoint()
    store.fence(LEDGERS[0], KEY)
    store.set_explicit_lac(LEDGERS[1], bytes(36), KEY)
    store.add_entry(LEDGERS[0], 9, entry(LEDGERS[0], 9), KEY, recovery=True)
    store.commit()
    store.checkpoint()
    return machine


def files_of(machine: Machine) -> Iterator[tuple[str, int, list[Span]]]:
    """Each file's name, its size, and its spans."""
    for file_id in journal_ids(machine.journal):
        name = f"current/{file_id:x}.txn"
        yield name, machine.journal.open(name).size(), list(journal_spans(machine.journal, file_id))
    for log_id in log_ids(machine.ledgers)[:-1]:
        name = f"current/{log_id:x}.log"
        yield (
            name,
            machine.ledgers.open(name).size(),
            list(entry_log_spans(machine.ledgers, log_id)),
        )
    for ledger_id in LEDGERS:
        name = index_path(ledger_id)
        yield name, machine.ledgers.open(name).size(), list(index_spans(machine.ledgers, ledger_id))


def test_every_byte_of_a_file_has_one_name(lived: Machine) -> None:
    for name, size, spans in files_of(lived):
        assert spans[0].offset == 0, name
        for before, after in pairwise(spans):
            assert before.offset + before.size == after.offset, (name, before, after)
        assert spans[-1].offset + spans[-1].size == size, name


def test_a_ledgers_map_lists_each_ledger_and_its_bytes(lived: Machine) -> None:
    spans = list(entry_log_spans(lived.ledgers, 0))
    ledgers = [int(span.value) for span in spans if span.name == "ledger id"]
    assert set(ledgers[-2:]) == set(LEDGERS)


def test_padding_is_named_with_its_length_and_its_zeros(lived: Machine) -> None:
    spans = list(journal_spans(lived.journal, journal_ids(lived.journal)[0]))
    at = next(i for i, span in enumerate(spans) if span.value == "-256")
    count, zeros = spans[at + 1], spans[at + 2]
    assert (zeros.name, zeros.size) == ("zeros", int(count.value))
    assert (zeros.offset + zeros.size) % 512 == 0


def test_an_explicit_lac_is_named_only_where_there_is_one(lived: Machine) -> None:
    named = {
        ledger_id: [s.name for s in index_spans(lived.ledgers, ledger_id)] for ledger_id in LEDGERS
    }
    assert "explicit LAC" in named[LEDGERS[1]]
    assert "explicit LAC" not in named[LEDGERS[0]]


@pytest.mark.parametrize(
    "entry_ids", [(0,), (1, 3, 4), (2, 700), (0, 1023), (1024, 2048), (3, 140_000, 140_002)]
)
def test_slots_without_a_location_come_run_by_run(entry_ids: tuple[int, ...]) -> None:
    disk = SimDisk()
    index = LedgerIndex(5, KEY, disk, 8192)
    for entry_id in entry_ids:
        index.set_location(entry_id, location_of(7, 1028 + entry_id))
    index.flush()
    file = disk.open(index_path(5))
    slot_count = (file.size() - DATA_OFFSET) // 8
    expected, first = list[tuple[int, int, int]](), 0
    for entry_id in (*entry_ids, slot_count):
        if entry_id > first:
            expected.append((first, entry_id - first, 0))
        if entry_id < slot_count:
            expected.append((entry_id, 1, location_of(7, 1028 + entry_id)))
        first = entry_id + 1
    assert list(index_slots(file)) == expected
    names = [span.name for span in index_spans(disk, 5)]
    for first, count, location in expected:
        alone = location or count == 1
        name = f"entry {first}" if alone else f"entries {first}-{first + count - 1}"
        assert name in names


@pytest.mark.parametrize("at", [0, 7, 1 << 20, (1 << 20) + 3, (5 << 20) - 1])
def test_the_first_byte_that_is_not_zero_is_found_however_far_it_lies(at: int) -> None:
    file = SimDisk().create("zeros")
    file.write(0, bytes(5 << 20))
    assert first_nonzero(file, 0) is None
    file.write(at, b"x")
    assert first_nonzero(file, 0) == at
    assert first_nonzero(file, at + 1) is None


def file_of(data: bytes) -> SimFile:
    file = SimDisk().create("current/small")
    file.write(0, data)
    return file


def test_the_small_files_are_named_to_their_last_byte() -> None:
    mark = struct.pack(">qq", 0x1F, 512)
    assert values(last_mark_spans(file_of(mark))) == ["31", "512"]
    assert values(last_mark_spans(file_of(mark + b"\1\2"))) == ["31", "512", "0102"]
    assert values(last_id_spans(file_of(b"1f\n"))) == ["1f", ""]
    cookie = file_of(b'5\nbookieHost: "b1:3181"\nother\nunheard: of\n')
    assert values(cookie_spans(cookie)) == ["5", '"b1:3181"', "other", "of"]


def values(spans: Iterable[Span]) -> list[str]:
    return [span.value for span in spans]


def test_a_file_that_ends_in_its_header_is_reported_with_the_offset() -> None:
    disk = SimDisk()
    disk.create("current/0.log").write(0, b"BKLO" + bytes(100))
    with pytest.raises(StorageDamagedException, match=r"0\.log, offset 104: .* ends here"):
        list(entry_log_spans(disk, 0))
    with pytest.raises(StorageDamagedException, match=r"lastMark, offset 15: .* ends here"):
        list(last_mark_spans(file_of(bytes(15))))


def test_a_log_that_was_created_ahead_has_nothing_to_name() -> None:
    disk = SimDisk()
    disk.create("current/0.log")
    (nothing,) = entry_log_spans(disk, 0)
    assert (nothing.name, nothing.size) == ("nothing", 0)


def test_what_lies_behind_the_last_record_is_shown_by_its_first_bytes(lived: Machine) -> None:
    file_id = journal_ids(lived.journal)[0]
    file = lived.journal.open(f"current/{file_id:x}.txn")
    *_, tail = journal_spans(lived.journal, file_id)
    assert (tail.name, tail.offset + tail.size) == ("preallocated", file.size())
    file.write(tail.offset + 100, b"x")
    *_, rest = journal_spans(lived.journal, file_id)
    assert (rest.name, rest.offset, rest.value) == ("rest", tail.offset, bytes(16).hex())
    file.write(tail.offset + 100, b"\0")


def test_a_torn_entry_is_shown_by_its_first_bytes() -> None:
    disk = SimDisk()
    torn = struct.pack(">i", 41) + entry(5, 0)[:30]
    header = LOG_HEADER.struct.pack(b"BKLO", 1, 0, 0)
    disk.create("current/0.log").write(0, header + torn)
    *_, last = entry_log_spans(disk, 0)
    assert (last.name, last.offset, last.size) == ("torn", 1024, 34)
    assert last.value == torn[:16].hex()


def test_an_entry_too_short_for_its_header_has_its_ids_and_a_rest() -> None:
    whole = entry(5, 3)
    ids = entry_spans(whole[:20], 100, 4)
    assert [(span.name, span.value, span.offset, span.size) for span in ids] == [
        ("ledger id", "5", 100, 8),
        ("entry id", "3", 108, 8),
        ("rest", whole[16:20].hex(), 116, 4),
    ]


def test_a_line_of_text_has_offset_size_name_value_and_meaning() -> None:
    long = Span("digest", 32, 4, "0123456789" * 4, "of the rest")
    short = Span("entry id", 8, 8, "3", "its place")
    assert format_spans([short, long]).splitlines() == [
        "     8     8  entry id             3                            its place",
        "    32     4  digest               0123456789012345678901234... of the rest",
    ]
