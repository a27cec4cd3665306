import tracemalloc
from pathlib import Path

import pytest

from labkit.system.model.errors import StorageDamagedException
from labkit.system.storage.config import MIB, StorageConfig
from labkit.system.storage.journal import PADDING_MASK, Journal, journal_ids, padding
from labkit.system.storage.journal_scan import JournalScan
from labkit.system.storage.log_mark import START, LogMark
from labkit.worlds.live.disk import RealDisk
from labkit.worlds.sim.machine.disk import DiskController, SimDisk
from labkit.worlds.sim.machine.disk_operation import lost
from tests.system.storage.support import SMALL, entry, open_files, present


def new_journal() -> tuple[SimDisk, Journal]:
    disk = SimDisk()
    return disk, Journal(disk, SMALL, 1)


def records(disk: SimDisk) -> list[bytes]:
    return [
        record.body
        for file_id in journal_ids(disk)
        for record in JournalScan(disk, file_id).records()
    ]


@pytest.mark.parametrize(
    ("position", "size", "count"),
    [
        *((1, 511, 503), (500, 12, 4), (503, 9, 1), (504, 8, 0)),
        *((505, 519, 511), (508, 516, 508), (511, 513, 505)),
    ],
)
def test_padding_follows_bookkeepers_table(position: int, size: int, count: int) -> None:
    for block in (1, 7):
        pad = padding(512 * block + position, 512)
        assert len(pad) == size
        assert pad[:8] == PADDING_MASK.to_bytes(4, "big", signed=True) + count.to_bytes(4, "big")
        assert not any(pad[8:])


@pytest.mark.parametrize("alignment", [512, 1024, 4096])
def test_padding_ends_at_the_alignment_from_everywhere(alignment: int) -> None:
    assert padding(3 * alignment, alignment) == b""
    for offset in range(alignment):
        pad = padding(offset, alignment)
        assert (offset + len(pad)) % alignment == 0
        assert len(pad) == 0 or 8 <= len(pad) < alignment + 8


@pytest.mark.parametrize("alignment", [512, 1024, 4096])
def test_groups_of_every_length_are_read_back(alignment: int) -> None:
    disk, written = SimDisk(), []
    config = StorageConfig(
        journal_max_size_mb=1, journal_pre_alloc_size_mb=1, journal_alignment_size=alignment
    )
    journal = Journal(disk, config, 1)
    for size in range(484, 516):
        written.append(entry(5, size, bytes(size)))
        journal.append(written[-1])
        journal.commit()
        assert journal.synced.offset % alignment == 0
    assert records(disk) == written


def test_a_record_lies_where_append_said() -> None:
    disk, journal = new_journal()
    marks = []
    for entry_id in range(6):
        marks.append(journal.append(entry(5, entry_id)))
        if entry_id % 2:
            journal.commit()
    assert [r.offset for r in JournalScan(disk, 1).records()] == [mark.offset for mark in marks]


def test_records_of_one_append_lie_one_behind_the_other() -> None:
    disk, journal = new_journal()
    journal.append(entry(5, 0))
    several = [entry(5, entry_id, bytes(entry_id)) for entry_id in range(1, 5)]
    mark = journal.append(*several)
    journal.commit()
    found = list(JournalScan(disk, 1).records(mark.offset))
    assert [record.body for record in found] == several
    assert found[0].offset == mark.offset


@pytest.mark.promise(
    "A full journal file is followed by a new one; old journal files are deleted, except for "
    "the backups"
)
def test_records_roll_into_a_new_file_in_order() -> None:
    disk, written = SimDisk(), []
    journal = Journal(disk, SMALL, 1)
    for entry_id in range(8):
        written.append(entry(5, entry_id, bytes(300_000)))
        journal.append(written[-1])
        journal.commit()
    assert journal_ids(disk) == [1, 2]
    assert records(disk) == written
    assert journal.synced.file_id == 2


def test_a_group_that_gathers_while_another_is_written_goes_behind_it() -> None:
    disk, journal = new_journal()
    journal.append(entry(5, 0, bytes(MIB)))
    first = journal.seal()
    mark = journal.append(entry(5, 1))
    second = journal.seal()
    assert first is not None
    assert second is not None
    assert (first.file_id, second.file_id, mark.file_id) == (1, 2, 2)
    for group in (first, second):
        journal.write_and_sync(group)
        journal.note_synced(group)
    assert records(disk) == [entry(5, 0, bytes(MIB)), entry(5, 1)]


def test_an_empty_group_writes_nothing() -> None:
    disk, journal = new_journal()
    before = len(disk.controller.operations)
    journal.commit()
    assert journal.seal() is None
    assert len(disk.controller.operations) == before


@pytest.mark.parametrize(
    ("backups", "left"), [(0, [4, 5]), (2, [2, 3, 4, 5]), (9, [1, 2, 3, 4, 5])]
)
def test_trim_keeps_the_newest_backups_and_all_that_replay_needs(
    backups: int, left: list[int]
) -> None:
    disk = SimDisk()
    config = StorageConfig(journal_pre_alloc_size_mb=1, journal_max_backups=backups)
    for _ in range(5):
        journal = Journal(disk, config, 1)
    journal.trim(LogMark(4, 0))
    assert journal_ids(disk) == left


def test_a_file_that_no_writer_named_is_reported_with_its_name() -> None:
    disk = SimDisk()
    disk.create("current/foo.txn")
    with pytest.raises(StorageDamagedException, match=r"current/foo\.txn does not belong to this"):
        journal_ids(disk)


@pytest.mark.parametrize(
    ("more", "size"), [(0, 1), (1, 2), (MIB // 2, 2), (MIB, 2), (MIB + 1, 3), (2 * MIB, 3)]
)
def test_space_grows_by_whole_preallocations_before_a_group_that_needs_more(
    more: int, size: int
) -> None:
    disk, journal = new_journal()
    framing = 4 + len(entry(5, 0, b""))
    data = entry(5, 0, bytes(MIB - 512 - framing + more))
    journal.append(data)
    before = len(disk.controller.operations)
    journal.commit()
    kinds = [each.kind for each in disk.controller.operations[before:]]
    assert (kinds == ["write", "sync"]) == (size == 1)
    assert disk.open("current/1.txn").size() == size * MIB
    assert journal.synced.offset == 512 * -(-(MIB + more) // 512)
    assert records(disk) == [data]


def test_preallocated_space_is_whole_blocks() -> None:
    disk = SimDisk()
    config = StorageConfig(
        journal_max_size_mb=1, journal_pre_alloc_size_mb=1, journal_alignment_size=1536
    )
    Journal(disk, config, 1)
    assert disk.open("current/1.txn").size() == MIB - MIB % 1536
    last = [each for each in disk.controller.operations if each.kind == "write"][-1]
    assert (last.offset % 1536, last.size) == (0, 1536)


@pytest.mark.parametrize(("end", "file_id"), [(MIB, 1), (MIB + 512, 2)])
def test_a_file_of_the_limit_to_the_byte_is_written_on(end: int, file_id: int) -> None:
    journal = Journal(SimDisk(), SMALL, 1)
    framing = 4 + len(entry(5, 0, b""))
    journal.append(entry(5, 0, bytes(end - 512 - framing)))
    group = present(journal.seal())
    assert (group.end, group.ends_file) == (LogMark(1, end), file_id == 2)
    assert journal.append(entry(5, 1)) == (LogMark(1, end) if file_id == 1 else LogMark(2, 512))


def test_a_group_knows_its_bytes_and_records_until_it_is_sealed() -> None:
    journal = Journal(SimDisk(), SMALL, 1)
    assert (journal.group_bytes, journal.group_records) == (0, 0)
    several = [entry(5, entry_id) for entry_id in range(3)]
    journal.append(*several)
    assert (journal.group_bytes, journal.group_records) == (3 * 45, 3)
    group = present(journal.seal())
    assert (group.offset, group.records, group.end.offset) == (512, several, 1024)
    assert (journal.group_bytes, journal.group_records) == (0, 0)
    journal.append(entry(5, 3))
    assert journal.group_bytes == 45


def test_a_journal_of_version_4_has_a_short_header_and_no_padding() -> None:
    disk = SimDisk()
    config = StorageConfig(journal_format_version_to_write=4, file_info_format_version_to_write=0)
    journal = Journal(disk, config, 1)
    mark = journal.append(entry(5, 0))
    journal.commit()
    assert (mark.offset, journal.synced.offset) == (8, 8 + 45)
    head = disk.open("current/1.txn").read(0, 12)
    assert head == b"BKLG\0\0\0\4" + (41).to_bytes(4, "big")
    journal.append(entry(5, 1))
    journal.commit()
    assert records(disk) == [entry(5, 0), entry(5, 1)]


def test_a_new_file_has_its_name_and_header_durably_before_a_record_comes() -> None:
    disk = SimDisk()
    Journal(disk, SMALL, 1)
    after = disk.after_crash(lost, DiskController())
    assert journal_ids(after) == [1]
    assert after.open("current/1.txn").read(0, 8) == b"BKLG\0\0\0\6"
    assert after.open("current/1.txn").size() == MIB


def test_what_was_put_is_durable_only_after_the_sync() -> None:
    disk, journal = new_journal()
    journal.append(entry(5, 0))
    group = present(journal.seal())
    assert records(disk) == []
    journal.write_unsynced(group)
    assert records(disk) == [entry(5, 0)]
    assert records(disk.after_crash(lost, DiskController())) == []
    journal.sync()
    assert records(disk.after_crash(lost, DiskController())) == [entry(5, 0)]
    assert journal.synced == START
    journal.note_synced(group)
    assert journal.synced == group.end


def test_a_group_that_fits_writes_nothing_but_itself() -> None:
    disk, journal = new_journal()
    before = len(disk.controller.operations)
    for entry_id in range(2):
        journal.append(entry(5, entry_id))
        journal.commit()
    operations = disk.controller.operations[before:]
    assert [(each.kind, each.offset, each.size) for each in operations] == [
        *(("write", 512, 512), ("sync", 0, 0)),
        *(("write", 1024, 512), ("sync", 0, 0)),
    ]


def test_a_group_above_a_megabyte_is_read_back_as_it_was_appended() -> None:
    disk, journal = new_journal()
    sizes = (5, 700_000, 700_000, 2 * MIB, MIB - 16, 0, 400_000, 9)
    written = [entry(5, entry_id, bytes(size)) for entry_id, size in enumerate(sizes)]
    journal.append(*written)
    journal.commit()
    assert records(disk) == written
    assert journal.synced.offset % 512 == 0


def test_a_group_is_written_without_its_bytes_in_memory_a_second_time(tmp_path: Path) -> None:
    journal = Journal(RealDisk(tmp_path), SMALL, 1)
    journal.append(*(entry(5, entry_id, bytes(MIB)) for entry_id in range(16)))
    tracemalloc.start()
    try:
        journal.commit()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert most < 4 * MIB


def test_of_a_journals_files_the_newest_is_open(tmp_path: Path) -> None:
    journal = Journal(RealDisk(tmp_path), SMALL, 1)
    for entry_id in range(2):
        journal.append(entry(5, entry_id, bytes(MIB)))
        journal.commit()
    assert len(list((tmp_path / "current").iterdir())) == 2
    assert open_files(tmp_path) == ["2.txn"]
