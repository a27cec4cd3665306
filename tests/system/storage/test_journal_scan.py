import struct

import pytest

from labkit.system.model.errors import StorageDamagedException
from labkit.system.storage.journal import (
    explicit_lac_record,
    fence_record,
    ledger_key_record,
    padding,
)
from labkit.system.storage.journal_scan import JournalScan
from labkit.worlds.sim.machine.disk import SimDisk
from tests.system.storage.support import KEY, entry

KEPT = entry(5, 0)


def header(version: int) -> bytes:
    return (b"BKLG" + struct.pack(">i", version)).ljust(512 if version >= 5 else 8, b"\0")


def framed(body: bytes) -> bytes:
    return struct.pack(">i", len(body)) + body


def scan(data: bytes) -> JournalScan:
    disk = SimDisk()
    disk.create("current/1a.txn").write(0, data)
    return JournalScan(disk, 0x1A)


def bodies(data: bytes, start_offset: int = 0) -> list[bytes]:
    return [record.body for record in scan(data).records(start_offset)]


@pytest.mark.promise(
    "A torn tail ends a journal without an error; other damage is reported with file and offset"
)
def test_a_tail_torn_at_any_byte_ends_the_file_quietly() -> None:
    before = header(6) + framed(KEPT)
    torn = framed(entry(5, 1))
    for size in range(len(torn)):
        found = scan(before + torn[:size])
        assert [record.body for record in found.records()] == [KEPT]
        assert found.end_offset == len(before)
    assert bodies(before + torn) == [KEPT, entry(5, 1)]


def test_a_tail_torn_over_preallocated_zeros_costs_no_earlier_record() -> None:
    before = header(6) + framed(KEPT)
    torn = framed(entry(5, 1))
    for size in range(4, len(torn)):
        zeros = bytes(len(torn) - size + 512)
        assert bodies(before + torn[:size] + zeros)[0] == KEPT


def test_a_length_beyond_the_file_ends_it_quietly() -> None:
    assert bodies(header(6) + framed(KEPT) + struct.pack(">i", 2**31 - 1) + bytes(99)) == [KEPT]


def test_zeros_end_the_file_whatever_follows() -> None:
    assert bodies(header(6) + framed(KEPT) + bytes(512) + framed(KEPT)) == [KEPT]


def test_records_longer_than_one_read_are_found() -> None:
    long = [entry(5, entry_id, bytes(1_500_000)) for entry_id in range(2)]
    data = header(6) + framed(KEPT) + framed(long[0]) + framed(KEPT) + framed(long[1])
    assert bodies(data) == [KEPT, long[0], KEPT, long[1]]


def test_a_scan_may_start_at_any_record() -> None:
    data = header(6) + framed(KEPT) + framed(entry(5, 1))
    assert bodies(data, 512 + 4 + len(KEPT)) == [entry(5, 1)]
    assert bodies(data, len(data)) == []


@pytest.mark.parametrize("size", [0, 7, 300, 512, 530])
def test_a_file_that_ends_before_the_start_of_the_scan_is_damaged(size: int) -> None:
    data = (header(6) + framed(KEPT) + framed(entry(5, 1)))[:size]
    with pytest.raises(StorageDamagedException, match=f"ends at offset {size}, but replay starts"):
        bodies(data, 512 + 4 + len(KEPT))


def test_a_scan_of_a_cut_header_ends_where_the_file_does() -> None:
    found = scan(header(6)[:300])
    assert [*found.records()] == []
    assert found.end_offset == 300


@pytest.mark.parametrize("version", [2, 3, 4, 5, 6])
def test_every_version_is_read(version: int) -> None:
    found = scan(header(version) + framed(KEPT))
    assert found.version == version
    assert [record.body for record in found.records()] == [KEPT]


@pytest.mark.parametrize("data", [b"", b"BKL", b"BKLG\0\0\0", framed(KEPT)])
def test_a_file_without_a_header_is_version_1(data: bytes) -> None:
    found = scan(data)
    assert found.version == 1
    assert [record.body for record in found.records()] == ([KEPT] if len(data) > 40 else [])


@pytest.mark.parametrize("version", [7, 0, -1])
def test_an_unknown_version_is_reported_with_file_and_offset(version: int) -> None:
    with pytest.raises(
        StorageDamagedException, match=rf"1a\.txn: unknown version {version} at offset 4"
    ):
        scan(header(6)[:4] + struct.pack(">i", version) + bytes(504))


@pytest.mark.parametrize("length", [*range(1, 16), -1, -0xFF, -0x101, -(2**31)])
def test_an_impossible_length_is_reported_with_file_and_offset(length: int) -> None:
    data = header(6) + framed(KEPT) + struct.pack(">i", length) + bytes(64)
    with pytest.raises(StorageDamagedException, match=rf"1a\.txn .* length {length} at offset 557"):
        bodies(data)


@pytest.mark.parametrize("count", [-1, -8, -(2**31)])
def test_negative_padding_is_reported_with_file_and_offset(count: int) -> None:
    data = header(6) + framed(KEPT) + struct.pack(">ii", -0x100, count) + bytes(600)
    with pytest.raises(
        StorageDamagedException, match=rf"invalid padding length {count} at offset 557"
    ):
        bodies(data)


def test_padding_before_version_5_is_reported() -> None:
    with pytest.raises(StorageDamagedException, match="invalid record length -256 at offset 8"):
        bodies(header(4) + struct.pack(">ii", -0x100, 0))


@pytest.mark.parametrize(
    ("version", "record"),
    [
        (2, ledger_key_record(5, KEY)),
        (3, fence_record(5)),
        (5, explicit_lac_record(5, bytes(20))),
    ],
    ids=["ledger key", "fence", "explicit LAC"],
)
def test_a_record_newer_than_its_file_is_reported(version: int, record: bytes) -> None:
    first = len(header(version))
    with pytest.raises(StorageDamagedException, match=rf"requires version .* at offset {first}"):
        bodies(header(version) + framed(record))
    assert bodies(header(version + 1) + framed(record)) == [record]


def test_what_comes_before_the_damage_is_found_first() -> None:
    records = scan(header(6) + framed(KEPT) + struct.pack(">i", -5)).records()
    assert next(records).body == KEPT
    with pytest.raises(StorageDamagedException):
        next(records)


def test_batches_are_entries_of_some_bytes_or_one_other_record() -> None:
    entries = [entry(5, entry_id) for entry_id in range(5)]
    data = header(6) + b"".join(map(framed, (*entries[:4], fence_record(5), entries[4])))
    size = len(framed(KEPT))
    for size_bytes, expected in (
        (1, [1, 1, 1, 1, 1, 1]),
        (2 * size, [2, 2, 1, 1]),
        (99_999, [4, 1, 1]),
    ):
        batches = [*scan(data).chunks(size_bytes=size_bytes)]
        assert [len(batch) for batch in batches] == expected
        found = [record.body for batch in batches for record in batch]
        assert found == [*entries[:4], fence_record(5), entries[4]]


def test_a_batch_has_128_kib_if_nothing_else_is_said() -> None:
    data = entry(5, 0, bytes(1024 - len(framed(entry(5, 0, b"")))))
    assert len(framed(data)) == 1024
    batches = scan(header(6) + framed(data) * 300).chunks()
    assert [len(batch) for batch in batches] == [128, 128, 44]


def test_the_smallest_entries_come_together_up_to_the_last_byte_of_the_file() -> None:
    smallest = struct.pack(">qq", 5, 0)
    (batch,) = scan(header(6) + framed(smallest) * 3).chunks()
    assert [record.body for record in batch] == [smallest] * 3
    assert [record.offset for record in batch] == [512, 532, 552]


def test_a_record_of_unknown_kind_is_read_in_every_version() -> None:
    unknown = struct.pack(">qq", 5, -77)
    assert bodies(framed(unknown)) == [unknown]
    assert bodies(header(6) + framed(unknown)) == [unknown]


@pytest.mark.parametrize("rest", range(5))
def test_a_file_may_end_in_a_few_zeros(rest: int) -> None:
    found = scan(header(6) + framed(KEPT) + bytes(rest))
    assert [record.body for record in found.records()] == [KEPT]
    assert found.end_offset == 512 + 45


def test_padding_torn_at_any_byte_is_behind_the_end_of_the_records() -> None:
    before = header(6) + framed(KEPT)
    pad = padding(len(before), 512)
    for size in range(len(pad) + 1):
        found = scan(before + pad[:size])
        assert [record.body for record in found.records()] == [KEPT]
        assert found.end_offset == len(before) + (len(pad) if size == len(pad) else 0)
    assert bodies(before + pad + framed(entry(5, 1))) == [KEPT, entry(5, 1)]


def ending_before_edge(left: int) -> bytes:
    """Return a journal whose only record ends `left` bytes before a sector boundary."""
    data = header(6) + framed(entry(5, 0, bytes(512 - left - len(framed(entry(5, 0, b""))))))
    assert len(data) == 1024 - left
    return data


@pytest.mark.parametrize("left", [1, 2])
def test_padding_of_which_a_sectors_edge_cut_the_first_word_ends_the_file(left: int) -> None:
    """The disk wrote the sector that contains the start of the padding, but not the next sector.
    With three bytes the padding would be complete, because its fourth byte is zero.
    """
    before = ending_before_edge(left)
    torn = before + padding(len(before), 512)[:left]
    # The contents after the next sector do not matter.
    for behind in (b"", bytes(100), bytes(5000), bytes(512) + b"x" * 512):
        found = scan(torn + (behind or bytes(4 - left)))
        assert len(list(found.records())) == 1
        assert found.end_offset == len(before)


@pytest.mark.parametrize("left", [1, 2])
@pytest.mark.parametrize("at", [3, 511])
def test_a_cut_word_with_more_behind_the_edge_is_damage(left: int, at: int) -> None:
    before = ending_before_edge(left)
    torn = before + padding(len(before), 512)[:left]
    with pytest.raises(StorageDamagedException, match=f"length -?[0-9]+ at offset {len(before)}"):
        bodies(torn + bytes(at) + b"x" + bytes(600))


@pytest.mark.parametrize("left", [4, 5, 300])
def test_a_word_that_no_edge_cuts_is_damage(left: int) -> None:
    before = ending_before_edge(left)
    with pytest.raises(StorageDamagedException, match=f"length -?[0-9]+ at offset {len(before)}"):
        bodies(before + b"\xff\xff\0\0" + bytes(2000))


def test_batches_of_a_file_without_a_header_begin_at_its_first_byte() -> None:
    (batch,) = scan(framed(KEPT) * 2).chunks()
    assert [record.offset for record in batch] == [0, 45]


def test_damage_behind_the_first_read_is_reported_with_its_offset() -> None:
    long = framed(entry(5, 0, bytes(1_500_000)))
    record = framed(explicit_lac_record(5, bytes(20)))
    data = header(5) + long + framed(KEPT) + record
    with pytest.raises(StorageDamagedException, match=f"at offset {512 + len(long) + 45}"):
        bodies(data)
