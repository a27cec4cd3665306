from dataclasses import replace
from pathlib import Path

import pytest

from labkit.model.entry import encode_explicit_lac
from labkit.model.errors import (
    LedgerFencedException,
    NoEntryException,
    NoLedgerException,
    UnauthorizedAccessException,
)
from labkit.sim.disk import SimDisk, SimFile
from labkit.storage.config import MIB, StorageConfig
from labkit.storage.entry_log import log_ids, scan_entry_log
from labkit.storage.journal import EXPLICIT_LAC, FENCE, LEDGER_KEY, journal_ids
from labkit.storage.journal_scan import JournalScan
from labkit.storage.log_mark import START, LogMark, read_last_mark
from labkit.storage.store import LedgerStore
from labkit.trace.recorder import Recorder, Row
from tests.storage.machine import Machine
from tests.storage.support import CRC32C, KEY, OTHER_KEY, SMALL, add, entry, open_store

# Adds and reads


def test_an_entry_is_readable_before_its_commit(machine: Machine) -> None:
    store = machine.open()
    store.add_entry(5, 0, entry(5, 0), KEY)
    assert store.read_entry(5, 0) == entry(5, 0)
    assert store.is_in_memory(5, 0)


def test_an_entry_may_be_acknowledged_once_the_journal_is_synced_past_its_mark(
    machine: Machine,
) -> None:
    store = machine.open()
    mark = store.add_entry(5, 0, entry(5, 0), KEY)
    assert store.journals[0].synced <= mark
    store.commit()
    assert store.journals[0].synced > mark


def test_the_first_copy_of_an_entry_wins_in_memory(machine: Machine) -> None:
    store = machine.open()
    store.add_entry(5, 0, entry(5, 0, b"first"), KEY)
    store.add_entry(5, 0, entry(5, 0, b"second"), KEY)
    assert store.read_entry(5, 0) == entry(5, 0, b"first")


def test_entry_minus_one_is_the_last_entry_wherever_it_lies(machine: Machine) -> None:
    store = machine.open()
    add(store, 5, 3, 1)
    assert (store.last_entry_id(5), store.read_entry(5, -1)) == (3, entry(5, 3))
    store.checkpoint()
    assert (store.last_entry_id(5), store.read_entry(5, -1)) == (3, entry(5, 3))
    add(store, 5, 2)
    assert store.last_entry_id(5) == 3
    add(store, 5, 7)
    assert (store.last_entry_id(5), store.read_entry(5, -1)) == (7, entry(5, 7))


@pytest.mark.parametrize("entry_id", [-2, -0x1000])
def test_no_other_negative_entry_exists(machine: Machine, entry_id: int) -> None:
    store = machine.open()
    add(store, 5, 0)
    store.checkpoint()
    with pytest.raises(NoEntryException):
        store.read_entry(5, entry_id)


def test_a_ledger_without_entries_has_no_last_entry(machine: Machine) -> None:
    store = machine.open()
    store.fence(5, KEY)
    assert store.last_entry_id(5) == -1
    with pytest.raises(NoEntryException):
        store.read_entry(5, -1)


@pytest.mark.parametrize("entry_id", [1, 2**31, 2**40, 2**62, 2**63 - 1])
def test_a_read_of_an_absent_entry_changes_nothing(machine: Machine, entry_id: int) -> None:
    store = machine.open()
    add(store, 5, 0)
    store.checkpoint()
    with pytest.raises(NoEntryException):
        store.read_entry(5, entry_id)
    assert store.last_entry_id(5) == 0


def test_a_high_entry_id_is_stored_and_survives(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    add(store, 5, 0, 2**33)
    store.checkpoint()
    store = open_store(tmp_path)
    assert store.read_entry(5, 2**33) == entry(5, 2**33)
    assert store.read_entry(5, -1) == entry(5, 2**33)


def test_a_read_of_an_unknown_ledger_is_answered_with_no_such_ledger(machine: Machine) -> None:
    store = machine.open()
    add(store, 5, 0)
    with pytest.raises(NoLedgerException):
        store.read_entry(6, 0)
    assert store.ledger_ids() == [5]


# Keys and fences


def test_a_wrong_master_key_is_refused_also_after_a_restart(machine: Machine) -> None:
    store = machine.open()
    add(store, 5, 0)
    for _ in range(2):
        with pytest.raises(UnauthorizedAccessException):
            store.add_entry(5, 1, entry(5, 1), OTHER_KEY, recovery=True)
        with pytest.raises(UnauthorizedAccessException):
            store.fence(5, OTHER_KEY)
        with pytest.raises(UnauthorizedAccessException):
            store.set_explicit_lac(5, bytes(20), OTHER_KEY)
        store = machine.open()
    with pytest.raises(NoEntryException):
        store.read_entry(5, 1)
    add(store, 5, 1)


def test_a_fenced_ledger_takes_only_recovery_adds(machine: Machine) -> None:
    store = machine.open()
    add(store, 5, 0)
    store.fence(5, KEY)
    with pytest.raises(LedgerFencedException):
        store.add_entry(5, 1, entry(5, 1), KEY)
    store.add_entry(5, 1, entry(5, 1), KEY, recovery=True)
    assert store.read_entry(5, 1) == entry(5, 1)


@pytest.mark.parametrize("end", ["kill", "power cut", "close"])
def test_fence_and_explicit_lac_survive_every_restart(machine: Machine, end: str) -> None:
    store = machine.open()
    lac = encode_explicit_lac(5, 7, CRC32C)
    store.fence(5, KEY)
    store.set_explicit_lac(6, lac, KEY)
    store.commit()
    for _ in range(3):
        if end == "close":
            store.close()
        if end == "power cut":
            machine.cut_power()
        store = machine.open()
        fenced, other = store.ledger(5), store.ledger(6)
        assert fenced is not None
        assert other is not None
        assert (fenced.fenced, fenced.master_key) == (True, KEY)
        assert (other.fenced, other.explicit_lac) == (False, lac)


def test_the_key_record_comes_once_in_each_life_before_the_ledgers_first_record(
    machine: Machine,
) -> None:
    store = machine.open()
    store.fence(5, KEY)
    store.add_entry(5, 0, entry(5, 0), KEY, recovery=True)
    store.commit()
    store = machine.open()
    store.add_entry(5, 1, entry(5, 1), KEY, recovery=True)
    store.commit()
    assert [entry_id for _, entry_id in machine.journal_records()] == [
        *(LEDGER_KEY, FENCE, 0),
        *(LEDGER_KEY, 1),
    ]


# Checkpoints


def test_an_entry_is_readable_at_every_step_of_a_checkpoint(machine: Machine) -> None:
    store = machine.open()
    add(store, 5, 0)
    checkpoint = store.begin_checkpoint()
    add(store, 5, 1)
    store.add_entry(6, 0, entry(6, 0), KEY)
    everything = [(5, 0), (5, 1), (6, 0)]
    assert [store.read_entry(*ids) for ids in everything] == [entry(*ids) for ids in everything]
    store.flush(checkpoint)
    assert [store.read_entry(*ids) for ids in everything] == [entry(*ids) for ids in everything]
    store.end_checkpoint()
    assert [store.read_entry(*ids) for ids in everything] == [entry(*ids) for ids in everything]
    assert [store.is_in_memory(*ids) for ids in everything] == [False, True, True]


@pytest.mark.parametrize("before_the_flush", [True, False])
def test_a_fence_set_during_a_checkpoint_survives(machine: Machine, before_the_flush: bool) -> None:
    store = machine.open()
    add(store, 5, 0)
    checkpoint = store.begin_checkpoint()
    if before_the_flush:
        store.fence(5, KEY)
    store.flush(checkpoint)
    if not before_the_flush:
        store.fence(5, KEY)
    store.commit()
    machine.cut_power()
    with pytest.raises(LedgerFencedException):
        machine.open().add_entry(5, 1, entry(5, 1), KEY)


def test_the_mark_is_what_was_synced_when_the_checkpoint_began(machine: Machine) -> None:
    store = machine.open()
    add(store, 5, 0)
    synced = store.journals[0].synced
    store.add_entry(5, 1, entry(5, 1), KEY)
    checkpoint = store.begin_checkpoint()
    add(store, 5, 2)
    store.flush(checkpoint)
    store.end_checkpoint()
    assert read_last_mark(machine.ledgers) == store.marks[0] == synced < store.journals[0].synced
    machine.cut_power()
    store = machine.open()
    assert [store.read_entry(5, i) for i in range(3)] == [entry(5, i) for i in range(3)]


def test_a_checkpoint_that_failed_is_done_again_with_the_next(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: SimFile) -> None:
        raise OSError("input/output error")

    store = machine.open()
    add(store, 5, 0)
    mark = store.marks[0]
    with monkeypatch.context() as patched:
        patched.setattr(SimFile, "sync", refuse)
        with pytest.raises(OSError, match="input/output"):
            store.checkpoint()
    assert store.marks[0] == read_last_mark(machine.ledgers) == mark
    add(store, 5, 1)
    assert store.read_entry(5, 0) == entry(5, 0)
    store.checkpoint()
    machine.cut_power()
    store = machine.open()
    assert [store.read_entry(5, i) for i in (0, 1)] == [entry(5, 0), entry(5, 1)]


def test_a_memtable_is_written_in_the_order_of_ledger_and_entry(machine: Machine) -> None:
    store = machine.open()
    for ids in ((7, 1), (5, 2), (7, 0), (5, 0)):
        add(store, *ids)
    store.checkpoint()
    found = [(e.ledger_id, e.entry_id) for e in scan_entry_log(machine.ledgers, 0)]
    assert found == [(5, 0), (5, 2), (7, 0), (7, 1)]


def test_a_full_memtable_needs_a_checkpoint_and_none_is_needed_while_one_runs(
    machine: Machine,
) -> None:
    store = machine.open(StorageConfig(journal_pre_alloc_size_mb=1, skip_list_size_limit=100))
    add(store, 5, 0, 1)
    assert not store.needs_checkpoint
    add(store, 5, 2)
    assert store.needs_checkpoint
    checkpoint = store.begin_checkpoint()
    add(store, 5, *range(3, 8))
    assert not store.needs_checkpoint
    store.flush(checkpoint)
    store.end_checkpoint()
    assert store.needs_checkpoint


def test_a_checkpoint_removes_journals_that_replay_does_not_need(machine: Machine) -> None:
    config = StorageConfig(journal_pre_alloc_size_mb=1, journal_max_backups=1)
    for life in range(4):
        store = machine.open(config)
        add(store, 5, life)
    assert journal_ids(machine.journal) == [1, 2, 3, 4]
    store.checkpoint()
    assert journal_ids(machine.journal) == [3, 4]
    store = machine.open(config)
    assert [store.read_entry(5, life) for life in range(4)] == [entry(5, i) for i in range(4)]


def test_only_what_was_committed_since_the_last_checkpoint_makes_another_one_worth_it(
    machine: Machine,
) -> None:
    store = machine.open()
    assert not store.has_changes
    store.add_entry(5, 0, entry(5, 0), KEY)
    assert not store.has_changes
    store.commit()
    assert store.has_changes
    checkpoint = store.begin_checkpoint()
    add(store, 5, 1)
    assert not store.has_changes
    store.flush(checkpoint)
    store.end_checkpoint()
    assert store.has_changes
    store.checkpoint()
    assert not store.has_changes


def test_a_flush_reports_each_entrys_place_in_its_log_and_in_its_index(machine: Machine) -> None:
    store = machine.open()
    add(store, 5, 0)
    store.checkpoint()
    rows: list[Row] = []
    store = machine.open()
    store.recorder.listen(rows.extend)
    add(store, 5, 3, 7)
    store.checkpoint()
    log = log_ids(machine.ledgers)[-2]
    expected = [
        (e.entry_id, f"{log:x}.log", e.offset + 4, 41) for e in scan_entry_log(machine.ledgers, log)
    ]
    written = [row for row in rows if row.kind == "entry_log.written"]
    assert log > 0
    assert [(row.entry, row.file, row.offset, row.size) for row in written] == expected
    indexed = [row for row in rows if row.kind == "index.written"]
    assert [(row.file, row.offset) for row in indexed] == [
        ("0/5/5.idx", 1024 + 8 * entry_id) for entry_id in (3, 7)
    ]


def open_files(root: Path) -> list[Path]:
    paths = [link.readlink() for link in Path("/proc/self/fd").iterdir() if link.is_symlink()]
    return [path for path in paths if root in path.parents and path.is_file()]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="no list of the open files")
def test_a_store_that_was_closed_has_no_file_open(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    add(store, 5, *range(3))
    store.checkpoint()
    assert store.read_entry(5, 1) == entry(5, 1)
    assert len(open_files(tmp_path)) >= 3  # a journal, an entry log, an index
    store.close()
    assert open_files(tmp_path) == []


# Several ledgers in one step


def test_entries_of_several_ledgers_lie_one_behind_the_other_from_the_mark_on(
    machine: Machine,
) -> None:
    store = machine.open()
    ids = [(5, 0), (6, 0), (5, 1), (7, 9)]
    entries = [entry(*each) for each in ids]
    mark = store.add_entries([5, 6, 5, 7], [0, 0, 1, 9], entries, KEY)
    assert [store.read_entry(*each) for each in ids] == entries
    assert [store.is_in_memory(*each) for each in ids] == [True] * 4
    store.commit()
    records = list(JournalScan(machine.journal, mark.file_id).records())
    assert [(record.ledger_id, record.entry_id) for record in records] == [
        *((5, LEDGER_KEY), (6, LEDGER_KEY), (7, LEDGER_KEY)),
        *ids,
    ]
    assert records[3].offset == mark.offset
    machine.cut_power()
    store = machine.open()
    assert [store.read_entry(*each) for each in ids] == entries


def test_entries_of_several_ledgers_are_taken_all_or_none(machine: Machine) -> None:
    store = machine.open()
    store.fence(6, KEY)
    store.commit()
    before = store.journals[0].synced
    for ledger_ids in ([5, 6], [6, 5]):
        with pytest.raises(LedgerFencedException):
            store.add_entries(ledger_ids, [0, 0], [entry(each, 0) for each in ledger_ids], KEY)
        with pytest.raises(UnauthorizedAccessException):
            store.add_entries(
                *(ledger_ids, [0, 0], [entry(each, 0) for each in ledger_ids], OTHER_KEY),
                recovery=True,
            )
    assert (store.memtable.entry_count, store.journals[0].group_records) == (0, 0)
    assert store.journals[0].synced == before
    fenced = store.ledger(6)
    assert fenced is not None
    assert not fenced.got_entries


def test_every_ledger_that_gets_an_entry_is_not_settled(machine: Machine) -> None:
    store = machine.open()
    store.add_entries([5, 6], [0, 0], [entry(5, 0), entry(6, 0)], KEY)
    store.fence(7, KEY)
    assert store.garbage.settled([5, 6, 7]) == [7]


@pytest.mark.parametrize("ledger_ids", [[5, 5], [5, 6]])
def test_ledgers_ids_and_entries_must_be_as_many(machine: Machine, ledger_ids: list[int]) -> None:
    store = machine.open()
    with pytest.raises(ValueError, match="zip"):
        store.add_entries(ledger_ids, [0, 1], [entry(5, 0)], KEY)


def test_a_recovery_add_of_several_ledgers_passes_their_fences(machine: Machine) -> None:
    store = machine.open()
    store.fence(5, KEY)
    store.add_entries([5, 6], [0, 0], [entry(5, 0), entry(6, 0)], KEY, recovery=True)
    assert store.read_entry(5, 0) == entry(5, 0)


# What a store says of itself


def test_a_collected_ledger_takes_no_add_and_has_nothing_to_fence(machine: Machine) -> None:
    store = machine.open()
    store.collected.add([5])
    for recovery in (False, True):
        with pytest.raises(LedgerFencedException, match="ledger 5 was deleted"):
            store.add_entry(5, 0, entry(5, 0), KEY, recovery=recovery)
    with pytest.raises(NoLedgerException, match="ledger 5 was deleted"):
        store.fence(5, KEY)
    with pytest.raises(NoLedgerException, match="ledger 5 was deleted"):
        store.set_explicit_lac(5, bytes(20), KEY)
    assert store.ledger_ids() == []


def test_entry_ids_are_those_in_memory_in_a_flush_and_on_disk(machine: Machine) -> None:
    store = machine.open()
    add(store, 5, 4)
    store.checkpoint()
    add(store, 5, 7, 2)
    checkpoint = store.begin_checkpoint()
    add(store, 5, 9, 0)
    add(store, 6, 1)
    assert store.entry_ids(5) == [0, 2, 4, 7, 9]
    assert store.last_entry_id(5) == 9
    assert store.entry_ids(6) == [1]
    store.flush(checkpoint)
    store.end_checkpoint()
    assert store.entry_ids(5) == [0, 2, 4, 7, 9]
    with pytest.raises(NoLedgerException, match="nothing of ledger 8"):
        store.entry_ids(8)
    assert store.last_entry_id(8) == -1


def test_the_last_entry_may_be_in_a_flush_under_way(machine: Machine) -> None:
    store = machine.open()
    add(store, 5, 7)
    store.begin_checkpoint()
    add(store, 5, 2)
    assert (store.last_entry_id(5), store.read_entry(5, -1)) == (7, entry(5, 7))


def test_adds_wait_when_a_journals_share_of_memory_is_full_to_the_byte(machine: Machine) -> None:
    config = replace(SMALL, journal_max_memory_size_mb=1)
    journals = [SimDisk(), SimDisk()]
    store = LedgerStore(journals, [machine.ledgers], config, Recorder("b", lambda: 0), 1)
    assert not store.is_overfull
    # The key's record and each entry's, of ledger 5 in the second journal.
    taken = (4 + 16 + 4 + len(KEY)) + (4 + len(entry(5, 0, b"")))
    store.add_entry(5, 0, entry(5, 0, bytes(MIB // 2 - taken)), KEY)
    assert store.journals[1].group_bytes == MIB // 2
    assert not store.is_overfull
    store.add_entry(5, 1, entry(5, 1, b""), KEY)
    assert store.is_overfull
    store.commit()
    assert not store.is_overfull


def test_adds_wait_when_the_memtable_is_full_again_before_the_last_one_is_on_disk(
    machine: Machine,
) -> None:
    store = machine.open(replace(SMALL, skip_list_size_limit=100))
    add(store, 5, 0, 1, 2)
    assert not store.is_overfull
    checkpoint = store.begin_checkpoint()
    assert not store.is_overfull
    add(store, 5, 3, 4, 5)
    assert store.is_overfull
    store.flush(checkpoint)
    store.end_checkpoint()
    assert not store.is_overfull


def test_each_journal_has_its_ledgers_and_its_mark_in_every_ledger_directory() -> None:
    journals, ledgers = [SimDisk(), SimDisk()], [SimDisk(), SimDisk()]
    store = LedgerStore(journals, ledgers, SMALL, Recorder("b", lambda: 0), 1)
    assert [store.journal_of(each) for each in (4, 5, 6)] == [
        store.journals[each % 2] for each in (4, 5, 6)
    ]
    add(store, 5, 0)
    assert (store.has_changes, store.journals[0].synced) == (True, START)
    store.checkpoint()
    for disk in ledgers:
        assert read_last_mark(disk, "lastMark.0") == START
        assert read_last_mark(disk, "lastMark.1") == store.journals[1].synced > START
    assert not store.has_changes
    # The newest mark of all directories counts.
    ledgers[0].remove("current/lastMark.1")
    again = LedgerStore(journals, ledgers, SMALL, Recorder("b", lambda: 0), 1)
    assert again.marks[1] >= store.marks[1]
    assert again.memtable.entry_count == 0
    assert again.read_entry(5, 0) == entry(5, 0)


def test_a_mark_never_moves_back(machine: Machine) -> None:
    store = machine.open()
    add(store, 5, 0)
    store.checkpoint()
    mark = store.marks[0]
    store.persist_marks((LogMark(mark.file_id, mark.offset - 1),))
    assert store.marks[0] == read_last_mark(machine.ledgers) == mark


def test_a_checkpoint_of_nothing_writes_nothing(machine: Machine) -> None:
    store = machine.open()
    before = len(machine.ledgers.fuse.operations)
    store.checkpoint()
    assert len(machine.ledgers.fuse.operations) == before


def test_what_goes_into_the_journal_beside_entries_is_reported_with_its_place(
    machine: Machine,
) -> None:
    rows: list[Row] = []
    store = machine.open()
    store.recorder.listen(rows.extend)
    fenced = store.fence(5, KEY)
    confirmed = store.set_explicit_lac(5, bytes(20), KEY)
    store.commit()
    store.checkpoint()
    mark = store.marks[0]
    places = {
        record.entry_id: record.offset for record in JournalScan(machine.journal, 1).records()
    }
    assert (fenced.offset, confirmed.offset) == (places[FENCE], places[EXPLICIT_LAC])
    reported = [(row.kind, row.ledger, row.file, row.offset) for row in rows]
    assert reported == [
        ("journal.key_appended", 5, "1.txn", places[LEDGER_KEY]),
        ("journal.fence_appended", 5, "1.txn", places[FENCE]),
        ("journal.lac_appended", 5, "1.txn", places[EXPLICIT_LAC]),
        ("memtable.flushed", -1, "", -1),
        ("mark.persisted", -1, "1.txn", mark.offset),
    ]


def test_a_journal_of_version_5_has_no_room_for_an_explicit_lac(machine: Machine) -> None:
    config = replace(SMALL, journal_format_version_to_write=5, file_info_format_version_to_write=0)
    store = machine.open(config)
    add(store, 5, 0)
    synced = store.journals[0].synced
    assert store.set_explicit_lac(5, bytes(20), KEY) == synced
    assert store.journals[0].group_records == 0
    ledger = store.ledger(5)
    assert ledger is not None
    assert ledger.explicit_lac == bytes(20)
