"""Tests for the state that a store reports: entries, marks, free memory and events."""

from dataclasses import replace

import pytest

from labkit.system.model.errors import (
    NoLedgerException,
)
from labkit.system.storage.config import MIB
from labkit.system.storage.journal import EXPLICIT_LAC, FENCE, LEDGER_KEY
from labkit.system.storage.journal_scan import JournalScan
from labkit.system.storage.log_mark import START, LogMark, read_last_mark
from labkit.system.storage.store import LedgerStore
from labkit.system.trace.events import Event
from labkit.system.trace.recorder import Recorder
from labkit.worlds.sim.machine.disk import SimDisk
from tests.system.storage.machine import Machine
from tests.system.storage.support import KEY, SMALL, add, entry, present


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
    ledger = present(store.ledger(5))
    assert ledger.explicit_lac == bytes(20)
