from dataclasses import replace
from pathlib import Path

import pytest

from labkit.system.model.entry import encode_explicit_lac
from labkit.system.model.errors import (
    LedgerFencedException,
    NoEntryException,
    NoLedgerException,
    UnauthorizedAccessException,
)
from labkit.system.storage.config import MIB, StorageConfig
from labkit.system.storage.entry_log import scan_entry_log
from labkit.system.storage.journal import EXPLICIT_LAC, FENCE, LEDGER_KEY, journal_ids
from labkit.system.storage.journal_scan import JournalScan
from labkit.system.storage.log_mark import START, LogMark, read_last_mark
from labkit.system.storage.memtable import Memtable
from labkit.system.storage.store import LedgerStore
from labkit.system.trace.events import Event
from labkit.system.trace.recorder import Recorder
from labkit.worlds.sim.machine.disk import SimDisk, SimFile
from tests.system.storage.machine import Machine
from tests.system.storage.support import (
    CRC32C,
    KEY,
    OTHER_KEY,
    SMALL,
    add,
    entry,
    open_files,
    open_store,
    present,
)

# Adds and reads


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


@pytest.mark.promise("A ledger's fence, master key and explicit LAC survive every restart")
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
        fenced, other = present(store.ledger(5)), present(store.ledger(6))
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


@pytest.mark.promise(
    "LastLogMark is taken before the flush and stored after it, in every ledger directory"
)
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


@pytest.mark.promise("The memtable is flushed in order, has a limit, and slows clients down")
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
    assert not store.mark_can_advance
    store.add_entry(5, 0, entry(5, 0), KEY)
    assert not store.mark_can_advance
    store.commit()
    assert store.mark_can_advance
    checkpoint = store.begin_checkpoint()
    add(store, 5, 1)
    assert not store.mark_can_advance
    store.flush(checkpoint)
    store.end_checkpoint()
    assert store.mark_can_advance
    store.checkpoint()
    assert not store.mark_can_advance


def test_a_store_that_was_closed_has_no_file_open(tmp_path: Path) -> None:
    store = open_store(tmp_path)
    add(store, 5, *range(3))
    store.checkpoint()
    assert store.read_entry(5, 1) == entry(5, 1)
    assert len(open_files(tmp_path)) >= 3  # a journal, an entry log, an index
    store.close()
    assert open_files(tmp_path) == []


def test_a_checkpoint_may_end_while_the_entries_of_a_ledger_are_listed(machine: Machine) -> None:
    """Entries are listed in the flush thread, but checkpoints end on the event loop."""

    class EndsAfterOneRead(LedgerStore):
        """A store whose checkpoint ends after `flushing_memtable` has been read once."""

        _flushing: Memtable | None = None

        @property
        def flushing_memtable(self) -> Memtable | None:
            found, self._flushing = self._flushing, None
            return found

        @flushing_memtable.setter
        def flushing_memtable(self, memtable: Memtable | None) -> None:
            self._flushing = memtable

    recorder = Recorder("bookie", lambda: 0)
    store = EndsAfterOneRead([machine.journal], [machine.ledgers], SMALL, recorder, 1)
    add(store, 5, 0, 1)
    store.flushing_memtable, store.memtable = store.memtable, Memtable()
    add(store, 5, 2)
    assert store.entry_ids(5) == [0, 1, 2]


# Adds for several ledgers in one step


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
    assert not present(store.ledger(6)).has_new_entries


def test_every_ledger_that_gets_an_entry_is_not_settled(machine: Machine) -> None:
    store = machine.open()
    store.add_entries([5, 6], [0, 0], [entry(5, 0), entry(6, 0)], KEY)
    store.fence(7, KEY)
    assert store.ledgers.take_settled([5, 6, 7]) == [7]


@pytest.mark.parametrize("ledger_ids", [[5, 5], [5, 6]])
def test_ledgers_ids_and_entries_must_be_as_many(machine: Machine, ledger_ids: list[int]) -> None:
    store = machine.open()
    with pytest.raises(ValueError, match="zip"):
        store.add_entries(ledger_ids, [0, 1], [entry(5, 0)], KEY)


def test_a_recovery_add_of_several_ledgers_passes_their_fences(machine: Machine) -> None:
    store = machine.open()
    store.fence(5, KEY)
    store.add_entries([5, 6], [0, 0], [entry(5, 0), entry(6, 0)], KEY, recovery=True)
    assert [store.read_entry(each, 0) for each in (5, 6)] == [entry(5, 0), entry(6, 0)]
    assert (store.entry_ids(5), store.entry_ids(6)) == ([0], [0])


# State that a store reports


def test_entry_ids_are_those_in_memory_in_a_flush_and_on_disk(machine: Machine) -> None:
    store = machine.open()
    add(store, 5, 4)
    store.checkpoint()
    add(store, 5, 7, 2)
    checkpoint = store.begin_checkpoint()
    add(store, 5, 9, 0, 4)
    add(store, 6, 1)
    assert store.entry_ids(5) == [0, 2, 4, 7, 9]
    assert store.last_entry_id(5) == 9
    assert store.entry_ids(6) == [1]
    store.flush(checkpoint)
    store.end_checkpoint()
    assert store.entry_ids(5) == [0, 2, 4, 7, 9]
    with pytest.raises(NoLedgerException, match="ledger 8 does not exist"):
        store.entry_ids(8)
    assert store.last_entry_id(8) == -1


def test_adds_wait_when_a_journals_share_of_memory_is_full_to_the_byte(machine: Machine) -> None:
    config = replace(SMALL, journal_max_memory_size_mb=1)
    journals = [SimDisk(), SimDisk()]
    store = LedgerStore(journals, [machine.ledgers], config, Recorder("b", lambda: 0), 1)
    assert not store.is_overfull
    # The size of the key record and of an entry record without payload; ledger 5 uses the second
    # journal.
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
    assert (store.mark_can_advance, store.journals[0].synced) == (True, START)
    store.checkpoint()
    for disk in ledgers:
        assert read_last_mark(disk, "lastMark.0") == START
        assert read_last_mark(disk, "lastMark.1") == store.journals[1].synced > START
    assert not store.mark_can_advance
    # The newest mark in any directory is used.
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
    before = len(machine.ledgers.controller.operations)
    store.checkpoint()
    assert len(machine.ledgers.controller.operations) == before


def test_what_goes_into_the_journal_beside_entries_is_reported_with_its_place(
    machine: Machine,
) -> None:
    rows: list[Event] = []
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
    assert present(store.ledger(5)).explicit_lac == bytes(20)
    store.close()
    assert present(machine.open(config).ledger(5)).explicit_lac == b""
