"""Tests for stores with several journal directories and several ledger directories."""

import pytest

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.entry_log import log_ids
from labkit.system.storage.garbage import deleted_ledgers
from labkit.system.storage.index.ledger_index import ledger_ids_on_disk
from labkit.system.storage.journal import journal_ids
from labkit.system.storage.store import LedgerStore
from labkit.system.trace.recorder import Recorder
from labkit.worlds.sim.machine.disk import DiskController, SimDisk
from labkit.worlds.sim.machine.disk_operation import lost
from tests.system.storage.support import KEY, entry, present

CONFIG = StorageConfig(
    journal_max_size_mb=1,
    journal_pre_alloc_size_mb=1,
    journal_max_backups=0,
    log_size_limit=2048,
)
LEDGERS = range(6)


class Machine:
    """A bookie with two journals and three ledger directories."""

    def __init__(self) -> None:
        self.journals = [SimDisk(), SimDisk()]
        self.ledgers = [SimDisk() for _ in range(3)]

    def open(self, config: StorageConfig = CONFIG) -> LedgerStore:
        return LedgerStore(self.journals, self.ledgers, config, Recorder("bookie", lambda: 0), 1)

    def cut_power(self) -> None:
        self.journals = [disk.after_crash(lost, DiskController()) for disk in self.journals]
        self.ledgers = [disk.after_crash(lost, DiskController()) for disk in self.ledgers]


def add_to_each(store: LedgerStore, *entry_ids: int) -> None:
    for entry_id in entry_ids:
        for ledger_id in LEDGERS:
            store.add_entry(ledger_id, entry_id, entry(ledger_id, entry_id, bytes(500)), KEY)
    store.commit()


def assert_all_there(store: LedgerStore, *entry_ids: int) -> None:
    for entry_id in entry_ids:
        for ledger_id in LEDGERS:
            data = entry(ledger_id, entry_id, bytes(500))
            assert store.read_entry(ledger_id, entry_id) == data


@pytest.mark.promise(
    "Several journal and ledger directories work in every journal version, with both kinds of "
    "bookie"
)
def test_a_ledgers_journal_is_its_id_modulo_their_number() -> None:
    store = Machine().open()
    assert [store.journals.index(store.journal_of(i)) for i in LEDGERS] == [0, 1, 0, 1, 0, 1]


def test_logs_and_indexes_spread_over_all_ledger_directories() -> None:
    machine = Machine()
    store = machine.open()
    for entry_id in range(4):
        add_to_each(store, entry_id)
        store.checkpoint()
    assert all(log_ids(disk) and ledger_ids_on_disk(disk) for disk in machine.ledgers)
    assert_all_there(store, *range(4))


def test_compaction_finds_the_logs_of_every_directory() -> None:
    machine = Machine()
    store = machine.open()
    for entry_id in range(4):
        add_to_each(store, entry_id)
        store.checkpoint()
    living = {0, 1}
    for log_id in store.garbage.collect(deleted_ledgers(store.ledger_ids(), living)):
        store.garbage.remove_log(log_id)
    for log in store.garbage.logs:
        list(store.garbage.compact(log.log_id, batch_entries=3))
        store.garbage.remove_log(log.log_id)
    machine.cut_power()
    store = machine.open()
    for ledger_id in living:
        for entry_id in range(4):
            assert store.read_entry(ledger_id, entry_id) == entry(ledger_id, entry_id, bytes(500))


@pytest.mark.promise("Journal versions 4 to 6 are written, and versions 1 to 6 are read")
@pytest.mark.parametrize(("journal", "index"), [(4, 0), (5, 0), (6, 1)])
def test_every_version_that_may_be_written_is_replayed(journal: int, index: int) -> None:
    config = StorageConfig(
        journal_format_version_to_write=journal,
        file_info_format_version_to_write=index,
        journal_max_size_mb=1,
        journal_pre_alloc_size_mb=1,
    )
    machine = Machine()
    store = machine.open(config)
    add_to_each(store, 0, 1)
    store.fence(3, KEY)
    store.commit()
    machine.cut_power()
    store = machine.open(config)
    assert_all_there(store, 0, 1)
    ledger = present(store.ledger(3))
    assert ledger.fenced
    assert [journal_ids(disk) for disk in machine.journals] == [[1, 2], [1, 2]]


@pytest.mark.parametrize(("journal", "index"), [(3, 0), (7, 1), (6, 0), (5, 1), (4, 1)])
def test_versions_that_do_not_go_together_are_refused(journal: int, index: int) -> None:
    with pytest.raises(BKIncorrectParameterException, match="valid combinations: 4 or 5 with 0"):
        StorageConfig(
            journal_format_version_to_write=journal, file_info_format_version_to_write=index
        )


def test_formats_without_room_for_an_explicit_lac_keep_it_in_memory_only() -> None:
    config = StorageConfig(journal_format_version_to_write=5, file_info_format_version_to_write=0)
    machine = Machine()
    store = machine.open(config)
    add_to_each(store, 0)
    assert store.set_explicit_lac(0, bytes(20), KEY) == store.journals[0].synced
    store.close()
    ledger = present(machine.open(config).ledger(0))
    assert ledger.explicit_lac == b""
