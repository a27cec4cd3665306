from pathlib import Path

import pytest

from labkit.system.model.entry import encode_explicit_lac
from labkit.system.model.errors import (
    LedgerFencedException,
    NoEntryException,
    NoLedgerException,
    UnauthorizedAccessException,
)
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.entry_log import scan_entry_log
from labkit.system.storage.journal import FENCE, LEDGER_KEY, journal_ids
from labkit.system.storage.log_mark import read_last_mark
from labkit.system.storage.memtable import Memtable
from labkit.system.storage.store import LedgerStore
from labkit.system.trace.recorder import Recorder
from labkit.worlds.sim.machine.disk import SimFile
from tests.system.storage.machine import Machine
from tests.system.storage.support import CRC32C, KEY, OTHER_KEY, SMALL, add, entry, open_store

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
