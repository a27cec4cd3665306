"""Tests for dropping a ledger's entries because other bookies store them: the space is reclaimed,
the fence is kept, and new entries are not lost.
"""

import errno
from contextlib import suppress

import pytest

from labkit.system.model.errors import LedgerFencedException, NoEntryException
from labkit.system.storage.entry_log import log_ids
from labkit.system.storage.index.ledger_index import index_path
from labkit.system.storage.store import LedgerStore
from labkit.worlds.sim.machine.disk import CrashError
from labkit.worlds.sim.machine.disk_operation import kept
from tests.system.storage.machine import Machine
from tests.system.storage.support import KEY, entry
from tests.system.storage.test_garbage import DELETED as MOVED
from tests.system.storage.test_garbage import (
    ENTRY_COUNT,
    KEEPS,
    LIVING,
    ROLLS_SOON,
    assert_living_is_whole,
    fill,
)
from tests.system.storage.unreliable import failing


def filled(machine: Machine) -> LedgerStore:
    """Return a store with two ledgers that have received no entries recently; one of them is
    fenced.
    """
    store = machine.open(ROLLS_SOON)
    fill(store)
    store.fence(MOVED, KEY)
    store.commit()
    store.checkpoint()
    store.ledgers.take_settled(store.ledger_ids())
    return store


def drop(store: LedgerStore) -> bool:
    dropped = store.garbage.drop_entries(MOVED)
    for log_id in store.garbage.collect([]):
        store.garbage.remove_log(log_id)
    return dropped


def moved_entries(store: LedgerStore) -> list[bytes]:
    found = []
    for entry_id in range(ENTRY_COUNT):
        with suppress(NoEntryException):
            found.append(store.read_entry(MOVED, entry_id))
    return found


def copies() -> list[bytes]:
    return [entry(MOVED, entry_id, bytes(900)) for entry_id in range(ENTRY_COUNT)]


def add_copies(store: LedgerStore) -> None:
    for entry_id, data in enumerate(copies()):
        store.add_entry(MOVED, entry_id, data, KEY, recovery=True)
    store.commit()


def test_entries_go_and_the_fence_stays(machine: Machine) -> None:
    store = filled(machine)
    assert drop(store)
    assert moved_entries(store) == []
    machine.cut_power()
    store = machine.open(ROLLS_SOON)
    assert moved_entries(store) == []
    with pytest.raises(LedgerFencedException):
        store.add_entry(MOVED, ENTRY_COUNT, entry(MOVED, ENTRY_COUNT), KEY)
    assert_living_is_whole(store)


def test_logs_that_held_nothing_else_go(machine: Machine) -> None:
    store = machine.open(ROLLS_SOON)
    for entry_id, data in enumerate(copies()):
        store.add_entry(MOVED, entry_id, data, KEY)
        store.commit()
        if entry_id % 3 == 2:
            store.checkpoint()
    store.ledgers.take_settled([MOVED])
    before = log_ids(machine.ledgers)
    assert len(before) > 4
    assert drop(store)
    assert len(log_ids(machine.ledgers)) <= 2
    assert not set(before[:-2]) & set(log_ids(machine.ledgers))


def test_ledger_that_has_got_entries_since_it_was_looked_at_keeps_them() -> None:
    store = filled(Machine())
    store.add_entry(MOVED, 0, entry(MOVED, 0, bytes(900)), KEY, recovery=True)
    assert not drop(store)
    assert store.ledgers.take_settled([LIVING, MOVED]) == [LIVING]
    assert moved_entries(store) == copies()
    assert store.ledgers.take_settled([LIVING, MOVED]) == [LIVING, MOVED]
    store.commit()
    store.checkpoint()
    assert drop(store)
    assert moved_entries(store) == []


def test_ledger_without_entries_is_not_dropped_again(machine: Machine) -> None:
    store = filled(machine)
    assert drop(store)
    assert not drop(store)
    store.close()
    assert not drop(machine.open(ROLLS_SOON))


def test_copies_that_come_back_are_kept(machine: Machine) -> None:
    store = filled(machine)
    assert store.garbage.drop_entries(MOVED)
    # The copies arrive before the index on disk is emptied.
    add_copies(store)
    store.garbage.collect([])
    assert moved_entries(store) == copies()
    machine.cut_power()
    store = machine.open(ROLLS_SOON)
    assert moved_entries(store) == copies()


def test_deleted_ledger_goes_wholly() -> None:
    store = filled(Machine())
    assert drop(store)
    store.garbage.collect([MOVED])
    assert store.ledger_ids() == [LIVING]


def test_ledger_that_is_deleted_before_its_index_is_emptied_leaves_no_index(
    machine: Machine,
) -> None:
    store = filled(machine)
    assert store.garbage.drop_entries(MOVED)
    store.garbage.collect([MOVED])
    assert store.ledger_ids() == [LIVING]
    assert not machine.ledgers.exists(index_path(MOVED))


@pytest.mark.parametrize("keep", KEEPS)
def test_dropping_may_crash_at_any_operation(keep: str) -> None:
    """If the copies were durably added again, all of them are kept; otherwise any may be
    missing.
    """
    stop_at = 0
    while True:
        machine = Machine()
        filled(machine).close()
        controller = machine.crash(kept)
        store = machine.open(ROLLS_SOON)
        controller.stop_at = len(controller.operations) + stop_at
        is_durable = False
        with suppress(CrashError):
            drop(store)
            add_copies(store)
            is_durable = True
            store.checkpoint()
            drop(store)
        finished = len(controller.operations) < controller.stop_at
        machine.crash(KEEPS[keep])
        store = machine.open(ROLLS_SOON)
        assert_living_is_whole(store)
        found = moved_entries(store)
        assert found == copies() if is_durable else set(found) <= set(copies())
        with pytest.raises(LedgerFencedException):
            store.add_entry(MOVED, ENTRY_COUNT, entry(MOVED, ENTRY_COUNT), KEY)
        if finished:
            break
        stop_at += 1
    assert stop_at > 10


def test_a_ledger_with_its_first_entry_alone_gives_it_up(machine: Machine) -> None:
    store = machine.open(ROLLS_SOON)
    store.add_entry(MOVED, 0, entry(MOVED, 0), KEY)
    store.commit()
    store.checkpoint()
    assert not store.garbage.drop_entries(MOVED)
    store.ledgers.take_settled([MOVED])
    assert store.garbage.drop_entries(MOVED)
    assert not store.garbage.drop_entries(MOVED)
    assert not store.garbage.drop_entries(99)


def test_copies_that_come_back_after_a_flush_without_space_are_kept(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = machine.open(ROLLS_SOON)
    add_copies(store)
    with monkeypatch.context() as full_disk:
        full_disk.setattr(store.ledgers, "flush", failing(errno.ENOSPC))
        with pytest.raises(OSError, match="No space left on device"):
            store.checkpoint()
    store.ledgers.take_settled([MOVED])
    assert store.garbage.drop_entries(MOVED)
    add_copies(store)
    store.checkpoint()
    assert moved_entries(store) == copies()
    machine.cut_power()
    assert moved_entries(machine.open(ROLLS_SOON)) == copies()
