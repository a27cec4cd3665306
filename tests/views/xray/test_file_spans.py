"""Test that the X-ray assigns exactly one name and value to each byte of a file."""

import struct
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

import pytest

from labkit.system.model.errors import StorageDamagedException
from labkit.system.model.layout import Span
from labkit.system.storage.entry_log import LOG_HEADER, location_of, log_ids
from labkit.system.storage.index.ledger_index import (
    DATA_OFFSET,
    IndexHeader,
    LedgerIndex,
    index_path,
)
from labkit.system.storage.journal import LEDGER_KEY, fence_record, journal_ids, ledger_key_record
from labkit.views.xray.file_spans import (
    LogFrame,
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
    log_frames,
)
from labkit.worlds.sim.machine.disk import SimDisk, SimFile
from tests.system.storage.machine import Machine
from tests.system.storage.support import KEY, entry
from tests.system.storage.test_garbage import ROLLS_SOON

LEDGERS = 5, 6


@pytest.fixture(scope="module")
def lived() -> Machine:
    """Return the disks of a bookie with rolled logs, a fence and an explicit LAC."""
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
    """Yield the name, the size and the spans of each file."""
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


def test_padding_is_named_with_its_length_and_its_zeros(lived: Machine) -> None:
    spans = list(journal_spans(lived.journal, journal_ids(lived.journal)[0]))
    at = next(i for i, span in enumerate(spans) if span.value == "-256")
    count, zeros = spans[at + 1], spans[at + 2]
    assert (zeros.name, zeros.size) == ("zeros", int(count.value))
    assert (zeros.offset + zeros.size) % 512 == 0


@pytest.mark.parametrize(
    "entry_ids", [(0,), (1, 3, 4), (2, 700), (0, 1023), (1024, 2048), (3, 140_000, 140_002)]
)
def test_slots_without_a_location_come_run_by_run(entry_ids: tuple[int, ...]) -> None:
    disk = SimDisk()
    index = LedgerIndex(5, IndexHeader(KEY), disk, 8192)
    for entry_id in entry_ids:
        index.set_locations([entry_id], [location_of(7, 1028 + entry_id)])
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


MARK = struct.pack(">qq", 0x1F, 512)
MARK_SPANS = [("journal file id", 0, 8, "31"), ("offset", 8, 8, "512")]


@pytest.mark.parametrize(
    ("spans", "data", "expected"),
    [
        (last_mark_spans, MARK, MARK_SPANS),
        (last_mark_spans, MARK + b"\1\2", [*MARK_SPANS, ("rest", 16, 2, "0102")]),
        (last_mark_spans, MARK + bytes(30), [*MARK_SPANS, ("rest", 16, 30, bytes(16).hex())]),
        (last_id_spans, b"1f", [("log id", 0, 2, "1f")]),
        (last_id_spans, b"1f\n\n", [("log id", 0, 2, "1f"), ("newline", 2, 2, "")]),
        (
            cookie_spans,
            b'5\nbookieHost: "b1:3181"\nother\nunheard: of\n',
            [
                *(("layout version", 0, 2, "5"), ("bookieHost", 2, 22, '"b1:3181"')),
                *(("layout version", 24, 6, "other"), ("unheard", 30, 12, "of")),
            ],
        ),
    ],
)
def test_the_small_files_are_named_to_their_last_byte(
    spans: Callable[[SimFile], Iterator[Span]],
    data: bytes,
    expected: list[tuple[str, int, int, str]],
) -> None:
    found = spans(file_of(data))
    assert [(span.name, span.offset, span.size, span.value) for span in found] == expected


def test_a_file_that_ends_in_its_header_is_reported_with_the_offset() -> None:
    disk = SimDisk()
    disk.create("current/0.log").write(0, b"BKLO" + bytes(100))
    with pytest.raises(StorageDamagedException, match=r"0\.log, offset 104: truncated "):
        list(entry_log_spans(disk, 0))
    with pytest.raises(StorageDamagedException, match=r"lastMark, offset 15: truncated "):
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


def shape(spans: Iterable[Span]) -> list[tuple[str, int, int]]:
    return [(span.name, span.offset, span.size) for span in spans]


def journal_of(*records: bytes) -> list[Span]:
    machine = Machine()
    machine.write_journal(1, *records)
    return list(journal_spans(machine.journal, 1))


def test_a_record_other_than_an_entry_has_its_ids_and_what_its_kind_says() -> None:
    head = [("length", 512, 4), ("ledger id", 516, 8), ("entry id", 524, 8)]
    assert shape(journal_of(fence_record(5)))[-3:] == head
    key = journal_of(ledger_key_record(5, KEY))
    assert shape(key)[-5:] == [*head, ("length", 532, 4), ("master key", 536, 20)]
    assert key[-1].value == KEY.hex()
    unknown = journal_of(struct.pack(">qq", 5, -77) + b"rest")
    assert shape(unknown)[-4:] == [*head, ("rest", 532, 4)]
    assert unknown[-1].value == b"rest".hex()
    # Either a crash tore the record, or another implementation wrote it.
    assert shape(journal_of(struct.pack(">qq", 5, LEDGER_KEY) + b"abc"))[-1] == ("rest", 532, 3)
    assert shape(journal_of(ledger_key_record(5, b"")))[-2:] == [
        *(("length", 532, 4), ("master key", 536, 0)),
    ]


@pytest.mark.parametrize("version", [1, 4])
def test_journals_of_old_versions_have_short_headers(version: int) -> None:
    disk = SimDisk()
    head = b"" if version == 1 else b"BKLG" + struct.pack(">i", version)
    data = entry(5, 0)
    disk.create("current/1.txn").write(0, head + struct.pack(">i", len(data)) + data)
    spans = list(journal_spans(disk, 1))
    names = [span.name for span in spans]
    assert names[: names.index("length")] == (["magic", "version"] if head else [])
    assert spans[names.index("length")].offset == len(head)


def frames_of(*pieces: bytes) -> list[LogFrame]:
    return list(log_frames(file_of(bytes(1024) + b"".join(pieces)), 1024))


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def test_a_log_is_entries_maps_and_what_is_neither() -> None:
    whole, short = framed(entry(5, 0)), framed(b"0123456")
    ids, map_ids = struct.pack(">qq", 5, 0), struct.pack(">qq", -1, -2)
    assert frames_of(whole, whole) == [("entry", 1024, 45), ("entry", 1069, 45)]
    assert frames_of(framed(ids), bytes(3)) == [("entry", 1024, 20), ("filler", 1044, 3)]
    assert frames_of(framed(b"x"), whole) == [("too short", 1024, 5), ("entry", 1029, 45)]
    assert frames_of(short, whole) == [("too short", 1024, 11), ("entry", 1035, 45)]
    assert frames_of(framed(map_ids + b"1234"), whole) == [
        *(("ledgers map", 1024, 24), ("entry", 1048, 45)),
    ]
    assert frames_of(framed(map_ids + b"123"), whole)[0] == ("too short", 1024, 23)
    assert frames_of(b"\xf0" * 9, whole) == [("filler", 1024, 9), ("entry", 1033, 45)]
    assert frames_of(whole, bytes(2000), whole) == [
        *(("entry", 1024, 45), ("filler", 1069, 2000), ("entry", 3069, 45)),
    ]
    assert frames_of(whole, whole[:-1]) == [("entry", 1024, 45), ("torn", 1069, 44)]
    assert frames_of(b"\xf0" * 9, whole[:-1]) == [("filler", 1024, 9), ("torn", 1033, 44)]
    assert frames_of(whole, b"\1") == [("entry", 1024, 45), ("torn", 1069, 1)]
    assert frames_of() == []


def test_an_index_of_version_0_has_no_explicit_lac_and_damaged_lengths_are_reported() -> None:
    disk = SimDisk()

    def spans(version: int, key_size: int, lac_size: int) -> list[tuple[str, int, int]]:
        key = KEY if key_size == len(KEY) else b""
        head = b"BKLE" + struct.pack(">ii", version, key_size) + key
        data = (head + struct.pack(">ii", 1, lac_size)).ljust(1024, b"\0")
        disk.create(index_path(5)).write(0, data)
        return shape(index_spans(disk, 5))

    start = [("magic", 0, 4), ("version", 4, 4), ("master key length", 8, 4)]
    state = [("state bits", 32, 4), ("explicit LAC length", 36, 4)]
    key = ("master key", 12, 20)
    assert spans(1, 20, 0) == [*start, key, *state, ("padding", 40, 984)]
    assert spans(0, 20, 99) == [*start, key, *state, ("padding", 40, 984)]
    assert spans(1, 20, 16)[-2:] == [("explicit LAC", 40, 16), ("padding", 56, 968)]
    assert spans(1, 20, 984)[-2:] == [("explicit LAC", 40, 984), ("padding", 1024, 0)]
    assert spans(1, 0, 0)[3:] == [
        *(("master key", 12, 0), ("state bits", 12, 4)),
        *(("explicit LAC length", 16, 4), ("padding", 20, 1004)),
    ]
    assert spans(1, 1004, 0)[3:] == [
        *(("master key", 12, 1004), ("state bits", 1016, 4)),
        *(("explicit LAC length", 1020, 4), ("padding", 1024, 0)),
    ]
    for key_size in (-1, 1005):
        with pytest.raises(StorageDamagedException, match=rf"offset 8: .* key of {key_size} bytes"):
            spans(1, key_size, 0)
    for lac_size in (-1, 985):
        with pytest.raises(StorageDamagedException, match=rf"offset 36: .* of {lac_size} bytes"):
            spans(1, 20, lac_size)


@pytest.mark.parametrize("digest_size", [0, 4, 20])
def test_the_digest_lies_between_header_and_payload(digest_size: int) -> None:
    data = entry(5, 3, bytes(300))
    spans = entry_spans(data, 100, digest_size)
    digest = [("digest", 132, digest_size)] if digest_size else []
    payload = ("payload", 132 + digest_size, len(data) - 32 - digest_size)
    assert shape(spans)[4:] == [*digest, payload]
    if digest_size:
        assert spans[4].value == data[32 : 32 + digest_size].hex()


@pytest.mark.parametrize(("size", "shown"), [(255, 255), (256, 256), (257, 256)])
def test_of_a_payload_256_bytes_are_shown(size: int, shown: int) -> None:
    *_, payload = entry_spans(entry(5, 3, b"x" * size), 0, 4)
    assert payload.value == "'" + "x" * shown + "'"


def test_an_entry_of_header_and_digest_alone_has_an_empty_payload() -> None:
    data = entry(5, 3, b"")
    assert shape(entry_spans(data, 0, 4))[-1] == ("payload", 36, 0)
    assert shape(entry_spans(data[:-1], 0, 4))[-1] == ("rest", 16, 19)


@pytest.mark.parametrize(("size", "shown"), [(28, "x" * 28), (29, "x" * 25 + "...")])
def test_a_value_of_more_than_28_characters_is_cut(size: int, shown: str) -> None:
    line = format_spans([Span("digest", 0, 4, "x" * size, "meaning")])
    assert line.split()[3] == shown


def test_a_digest_has_four_bytes_in_journal_and_log_if_nothing_else_is_said(lived: Machine) -> None:
    (file_id, *_), (log_id, *_) = journal_ids(lived.journal), log_ids(lived.ledgers)
    for spans in (journal_spans(lived.journal, file_id), entry_log_spans(lived.ledgers, log_id)):
        assert {span.size for span in spans if span.name == "digest"} == {4}


def test_a_journal_may_end_behind_its_header_and_not_in_it() -> None:
    disk = SimDisk()
    header = b"BKLG" + struct.pack(">i", 6) + bytes(504)
    disk.create("current/1.txn").write(0, header)
    assert shape(journal_spans(disk, 1)) == [
        *(("magic", 0, 4), ("version", 4, 4), ("padding", 8, 504)),
    ]
    disk.create("current/1.txn").write(0, header[:-1])
    with pytest.raises(StorageDamagedException, match=r"1\.txn, offset 511: truncated header"):
        list(journal_spans(disk, 1))


def test_padding_and_preallocated_space_are_told_apart() -> None:
    disk = SimDisk()
    header = b"BKLG" + struct.pack(">i", 6) + bytes(504)
    pad = struct.pack(">ii", -256, 0)
    disk.create("current/1.txn").write(0, header + pad + pad + bytes(5))
    assert shape(journal_spans(disk, 1))[3:] == [
        *(("mask", 512, 4), ("zero count", 516, 4), ("zeros", 520, 0)),
        *(("mask", 520, 4), ("zero count", 524, 4), ("zeros", 528, 0)),
        ("preallocated", 528, 5),
    ]


def test_a_map_lists_its_ledgers_each_with_its_bytes() -> None:
    disk = SimDisk()
    ledgers = struct.pack(">qqi", -1, -2, 2) + struct.pack(">qqqq", 5, 45, 6, 90)
    header = LOG_HEADER.struct.pack(b"BKLO", 1, 1024, 2)
    disk.create("current/0.log").write(0, header + framed(ledgers))
    assert [(s.name, s.offset, s.size, s.value) for s in entry_log_spans(disk, 0)][5:] == [
        *(("size", 1024, 4, "52"), ("ledger id", 1028, 8, "-1"), ("entry id", 1036, 8, "-2")),
        *(("count", 1044, 4, "2"), ("ledger id", 1048, 8, "5"), ("bytes", 1056, 8, "45")),
        *(("ledger id", 1064, 8, "6"), ("bytes", 1072, 8, "90")),
    ]
