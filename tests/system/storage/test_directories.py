"""Tests for stores with several journal directories and several ledger directories."""

import pytest

from labkit.system.storage.config import StorageConfig
from labkit.system.storage.entry_log import log_ids
from labkit.system.storage.garbage import deleted_ledgers
from labkit.system.storage.index.ledger_index import ledger_ids_on_disk
from labkit.system.storage.journal import journal_ids
from labkit.system.storage.store import LedgerStore
from labkit.worlds.sim.machine.disk import DiskController
from labkit.worlds.sim.machine.disk_operation import lost
from labkit.worlds.sim.settings.bookie_script import CONFIG, Machine, new_machine
from tests.system.storage.support import KEY, entry, present

LEDGERS = range(6)


@pytest.fixture
def machine() -> Machine:
    """Return the disks of a bookie with two journals and three ledger directories."""
    return new_machine(DiskController(), journal_count=2, ledger_dir_count=3)


def add_to_each(store: LedgerStore, *entry_ids: int) -> None:
    for entry_id in entry_ids:
        for ledger_id in LEDGERS:
            store.add_entry(ledger_id, entry_id, entry(ledger_id, entry_id, bytes(500)), KEY)
    store.commit()


def filled(machine: Machine) -> LedgerStore:
    """Return a store with four entries of each ledger, all in entry logs."""
    store = machine.open(LedgerStore, CONFIG)
    for entry_id in range(4):
        add_to_each(store, entry_id)
        store.checkpoint()
    return store


def assert_all_there(store: LedgerStore, ledger_ids: range, entry_ids: range) -> None:
    for entry_id in entry_ids:
        for ledger_id in ledger_ids:
            data = entry(ledger_id, entry_id, bytes(500))
            assert store.read_entry(ledger_id, entry_id) == data


@pytest.mark.promise(
    "Several journal and ledger directories work in every journal version, with both kinds of "
    "bookie"
)
def test_logs_and_indexes_spread_over_all_ledger_directories(machine: Machine) -> None:
    store = filled(machine)
    assert all(log_ids(disk) and ledger_ids_on_disk(disk) for disk in machine.ledgers)
    assert_all_there(store, LEDGERS, range(4))


def test_compaction_finds_the_logs_of_every_directory(machine: Machine) -> None:
    store = filled(machine)
    for log_id in store.garbage.collect(deleted_ledgers(store.ledger_ids(), {0, 1})):
        store.garbage.remove_log(log_id)
    for log in store.garbage.logs:
        list(store.garbage.compact(log.log_id, batch_entries=3))
        store.garbage.remove_log(log.log_id)
    store = machine.after_crash(lost).open(LedgerStore, CONFIG)
    assert_all_there(store, range(2), range(4))


@pytest.mark.promise("Journal versions 4 to 6 are written, and versions 1 to 6 are read")
@pytest.mark.parametrize(("journal", "index"), [(4, 0), (5, 0), (6, 1)])
def test_every_version_that_may_be_written_is_replayed(
    machine: Machine, journal: int, index: int
) -> None:
    config = StorageConfig(
        journal_format_version_to_write=journal,
        file_info_format_version_to_write=index,
        journal_max_size_mb=1,
        journal_pre_alloc_size_mb=1,
    )
    store = machine.open(LedgerStore, config)
    add_to_each(store, 0, 1)
    store.fence(3, KEY)
    store.commit()
    restarted = machine.after_crash(lost)
    store = restarted.open(LedgerStore, config)
    assert_all_there(store, LEDGERS, range(2))
    assert present(store.ledger(3)).fenced
    assert [journal_ids(disk) for disk in restarted.journals] == [[1, 2], [1, 2]]
