from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from labkit.system.model.errors import NoLedgerException, StorageDamagedException
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.entry_log import log_ids
from labkit.system.storage.garbage import (
    EntryLogMetadata,
    deleted_ledgers,
    logs_to_compact,
    read_log_metadata,
)
from labkit.system.storage.index.ledger_index import index_path
from labkit.system.storage.store import LedgerStore
from labkit.worlds.sim.machine.disk import CrashError, SimDiskError, SimFile
from labkit.worlds.sim.machine.disk_operation import Keep, at_random, kept, lost
from tests.system.storage.machine import Machine
from tests.system.storage.support import KEY, entry, present

ROLLS_SOON = StorageConfig(
    journal_max_size_mb=1, journal_pre_alloc_size_mb=1, journal_max_backups=0, log_size_limit=2048
)
KEEPS: dict[str, Keep] = {"lost": lost, "kept": kept, "random": at_random(7)}
LIVING, DELETED = 5, 6
ENTRY_COUNT = 12


def log(log_id: int, total: int, **living: int) -> EntryLogMetadata:
    return EntryLogMetadata(log_id, total, {int(name[1:]): size for name, size in living.items()})


def fill(store: LedgerStore) -> None:
    """Fill several logs, each larger than the size limit, with entries of two ledgers."""
    for entry_id in range(ENTRY_COUNT):
        for ledger_id in (LIVING, DELETED):
            size = 100 if ledger_id == LIVING else 900
            store.add_entry(ledger_id, entry_id, entry(ledger_id, entry_id, bytes(size)), KEY)
        store.commit()
        if entry_id % 3 == 2:
            store.checkpoint()


def collect_and_compact(store: LedgerStore) -> None:
    """Do what one run of the garbage collector does."""
    for log_id in store.garbage.collect(deleted_ledgers(store.ledger_ids(), {LIVING})):
        store.garbage.remove_log(log_id)
    for log_id in logs_to_compact(store.garbage.logs, 0.8):
        for _ in store.garbage.compact(log_id, batch_entries=2):
            pass
        store.garbage.remove_log(log_id)


def assert_living_is_whole(store: LedgerStore) -> None:
    for entry_id in range(ENTRY_COUNT):
        assert store.read_entry(LIVING, entry_id) == entry(LIVING, entry_id, bytes(100))


def test_only_ledgers_that_the_metadata_lacks_are_deleted() -> None:
    assert deleted_ledgers([1, 2, 3], {2, 9}) == [1, 3]


def test_the_emptiest_logs_are_compacted_first_and_full_and_empty_ones_not_at_all() -> None:
    logs = [log(1, 100, l5=79), log(2, 100, l5=80), log(3, 100, l5=11), log(4, 100)]
    assert logs_to_compact(logs, 0.8) == [3, 1]
    assert logs_to_compact(logs, 0.2) == [3]


@pytest.mark.promise(
    "Deleted ledgers and empty entry logs are deleted; when in doubt, nothing is deleted"
)
def test_a_deleted_ledgers_space_comes_back_and_the_others_entries_stay(machine: Machine) -> None:
    store = machine.open(ROLLS_SOON)
    fill(store)
    before = log_ids(machine.ledgers)
    collect_and_compact(store)
    assert_living_is_whole(store)
    with pytest.raises(NoLedgerException):
        store.read_entry(DELETED, 0)
    assert not set(before[:-2]) & set(log_ids(machine.ledgers))


@pytest.mark.parametrize("batch_entries", [1, 2, 3])
def test_compaction_pauses_after_each_batch_and_says_what_it_copied(batch_entries: int) -> None:
    store = Machine().open(ROLLS_SOON)
    fill(store)
    store.garbage.collect([DELETED])
    size = len(entry(LIVING, 0, bytes(100)))
    counts = [batch_entries] * (3 // batch_entries) + [3 % batch_entries]
    copied = list(store.garbage.compact(0, batch_entries))
    assert copied == [(count, count * size) for count in counts]
    assert_living_is_whole(store)


def test_compaction_takes_no_copy_that_the_index_does_not_point_to(machine: Machine) -> None:
    store = machine.open(ROLLS_SOON)
    fill(store)
    collect_and_compact(store)
    # A second run finds nothing to compact, because each entry was copied once.
    store.garbage.collect(deleted_ledgers(store.ledger_ids(), {LIVING}))
    total = sum(found.total_bytes for found in store.garbage.logs)
    assert total <= ENTRY_COUNT * (100 + 40)


def test_the_log_in_use_and_the_one_created_ahead_are_never_finished(machine: Machine) -> None:
    store = machine.open(ROLLS_SOON)
    store.add_entry(LIVING, 0, entry(LIVING, 0), KEY)
    store.checkpoint()
    assert store.garbage.collect(deleted_ledgers(store.ledger_ids(), {LIVING})) == []
    assert log_ids(machine.ledgers) == [0, 1]


def test_empty_logs_of_earlier_lives_are_removed(machine: Machine) -> None:
    store = machine.open(ROLLS_SOON)
    store.add_entry(LIVING, 0, entry(LIVING, 0), KEY)
    store.close()
    store = machine.open(ROLLS_SOON)
    assert store.garbage.collect(deleted_ledgers(store.ledger_ids(), {LIVING})) == [1]


@pytest.mark.promise("Compaction may crash at every step")
@pytest.mark.parametrize("keep", KEEPS)
def test_garbage_collection_may_crash_at_any_operation(keep: str) -> None:
    stop_at = 0
    while True:
        machine = Machine()
        fill(machine.open(ROLLS_SOON))
        controller = machine.crash(kept)
        store = machine.open(ROLLS_SOON)
        controller.stop_at = len(controller.operations) + stop_at
        with suppress(CrashError):
            collect_and_compact(store)
        finished = len(controller.operations) < controller.stop_at
        machine.crash(KEEPS[keep])
        store = machine.open(ROLLS_SOON)
        assert_living_is_whole(store)
        collect_and_compact(store)
        assert_living_is_whole(store)
        if finished:
            break
        stop_at += 1
    assert stop_at > 20


@pytest.mark.parametrize("stop_at", range(40, 60))
def test_a_log_goes_only_when_the_copies_of_a_killed_process_are_durable(
    machine: Machine, stop_at: int
) -> None:
    store = machine.open(ROLLS_SOON)
    fill(store)
    controller = machine.ledgers.controller
    controller.stop_at = len(controller.operations) + stop_at
    with suppress(CrashError):
        collect_and_compact(store)
    controller.stop_at = -1
    store = machine.open(ROLLS_SOON)  # The next process can read data that have not been synced.
    collect_and_compact(store)
    machine.cut_power()
    assert_living_is_whole(machine.open(ROLLS_SOON))


@pytest.mark.parametrize("good_syncs", range(8))
def test_a_log_goes_only_when_an_index_whose_sync_failed_is_written_again(
    machine: Machine, good_syncs: int
) -> None:
    store = machine.open(ROLLS_SOON)
    fill(store)
    with machine.syncs_that_fail(after=good_syncs), suppress(SimDiskError):
        collect_and_compact(store)
    store = machine.open(ROLLS_SOON)
    collect_and_compact(store)
    machine.cut_power()
    assert_living_is_whole(machine.open(ROLLS_SOON))


def test_a_log_goes_only_when_the_log_with_the_later_copies_is_synced() -> None:
    """The process that copied the entries was killed before the copies were synced."""
    machine = Machine()
    first = machine.open(ROLLS_SOON)
    fill(first)
    first.garbage.collect([DELETED])
    old, newest = first.garbage.logs[0].log_id, max(log_ids(machine.ledgers))
    with syncs_that_do_nothing():
        for _ in first.garbage.compact(old, batch_entries=2):
            pass
    store = machine.open(ROLLS_SOON)  # The next process can read data that have not been synced.
    ledger = present(store.ledger(LIVING))
    assert ledger.index.location(0) >> 32 in range(old + 1, newest + 1)
    store.garbage.collect([])
    for _ in store.garbage.compact(old, batch_entries=2):
        pass
    store.garbage.remove_log(old)
    machine.cut_power()
    assert_living_is_whole(machine.open(ROLLS_SOON))


@contextmanager
def syncs_that_do_nothing() -> Iterator[None]:
    """Disable syncs: the next process can read what was written, but a power cut discards it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(SimFile, "sync", lambda file: None)
        yield


def test_a_copy_is_named_only_where_the_index_still_points_to_the_old_one() -> None:
    store = Machine().open(ROLLS_SOON)
    fill(store)
    ledger = present(store.ledger(LIVING))
    now = ledger.index.location(0)
    added_since, deleted_since = (LIVING, 0, now + 1, 7), (99, 0, now, 7)
    store.garbage.point_to_copies([added_since, deleted_since])
    assert ledger.index.location(0) == now
    assert store.ledger(99) is None


def test_logs_in_the_same_tenth_go_in_their_own_order() -> None:
    assert logs_to_compact([log(1, 100, l5=19), log(2, 100, l5=10)], 0.8) == [1, 2]
    logs = [log(1, 100, l5=99), log(2, 100, l5=89), log(3, 100, l5=20), log(4, 100, l5=19)]
    assert logs_to_compact(logs, 1.0) == [4, 3, 2, 1]


def test_a_log_without_entries_has_no_usage() -> None:
    assert (log(1, 0).usage, log(1, 8, l5=2).usage) == (0.0, 0.25)


def test_a_scan_adds_up_what_each_ledger_has(machine: Machine) -> None:
    store = machine.open(ROLLS_SOON)
    for entry_id in range(2):
        for ledger_id in (5, 6):
            store.add_entry(ledger_id, entry_id, entry(ledger_id, entry_id, b"hello"), KEY)
    store.close()
    assert read_log_metadata(machine.ledgers, 0) == log(0, 180, l5=90, l6=90)


def test_a_log_with_a_ledgers_first_entry_alone_is_kept(machine: Machine) -> None:
    store = machine.open(ROLLS_SOON)
    store.add_entry(LIVING, 0, entry(LIVING, 0), KEY)
    store.close()
    store = machine.open(ROLLS_SOON)
    for log_id in store.garbage.collect([]):
        store.garbage.remove_log(log_id)
    assert store.read_entry(LIVING, 0) == entry(LIVING, 0)
    assert [each.log_id for each in store.garbage.logs] == [0]


def test_a_log_is_left_alone_if_one_of_its_ledgers_has_a_damaged_index(machine: Machine) -> None:
    store = machine.open(ROLLS_SOON)
    fill(store)
    store.close()
    machine.ledgers.open(index_path(LIVING)).write(0, b"damaged")
    store = machine.open(ROLLS_SOON)
    with pytest.raises(StorageDamagedException):
        store.read_entry(LIVING, 0)
    empty = store.garbage.collect([DELETED])
    skipped = store.garbage.skipped_logs
    for log_id in set(log_ids(machine.ledgers)) - set(empty) - set(skipped):
        assert LIVING not in read_log_metadata(machine.ledgers, log_id).ledger_bytes
    assert len(skipped) == 4
    for error in skipped.values():
        assert "unreadable header" in str(error)
    assert store.garbage.logs == [log(log_id, 0) for log_id in empty]
    with pytest.raises(NoLedgerException):
        store.read_entry(DELETED, 0)
