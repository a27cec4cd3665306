"""Test that no committed entry is lost, no matter at which disk operation the machine stops."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from labkit.system.model.entry import decode_entry
from labkit.system.model.errors import (
    BKDigestMatchException,
    LedgerFencedException,
    NoEntryException,
    NoLedgerException,
)
from labkit.system.storage.config import MIB, StorageConfig
from labkit.system.storage.store import LedgerStore
from labkit.worlds.sim.machine.disk import CrashError, DiskController, SimDisk
from labkit.worlds.sim.machine.disk_operation import Keep, at_random, kept, lost
from tests.repeat import repeated
from tests.system.storage.support import CRC32C, KEY, entry, present, store_over

pytestmark = pytest.mark.slow

CONFIG = StorageConfig(
    journal_max_size_mb=1,
    journal_pre_alloc_size_mb=1,
    journal_max_backups=0,
    skip_list_size_limit=400,
    log_size_limit=2048,
)
UNSEEN = 99


def drawn(draw: int) -> Callable[[int], Keep]:
    return lambda stop: at_random(1000 * draw + stop)


VARIANTS: dict[str, Callable[[int], Keep]] = {
    "unsynced lost": lambda stop: lost,
    "unsynced kept": lambda stop: kept,
    **{f"random {draw}": drawn(draw) for draw in range(6)},
}


@dataclass
class Bookie:
    """Runs a store, and records what has been added and committed."""

    disks: tuple[SimDisk, SimDisk]
    told: dict[tuple[int, int], bytes] = field(default_factory=dict)
    told_fences: set[int] = field(default_factory=set)
    committed: dict[tuple[int, int], bytes] = field(default_factory=dict)
    committed_fences: set[int] = field(default_factory=set)

    def open(self) -> LedgerStore:
        return store_over(*self.disks, CONFIG)

    def add(self, store: LedgerStore, ledger_id: int, entry_id: int, size: int = 40) -> None:
        data = entry(ledger_id, entry_id, bytes([ledger_id % 256]) * size)
        self.told[ledger_id, entry_id] = data
        store.add_entry(ledger_id, entry_id, data, KEY)

    def fence(self, store: LedgerStore, ledger_id: int) -> None:
        self.told_fences.add(ledger_id)
        store.fence(ledger_id, KEY)

    def commit(self, store: LedgerStore) -> None:
        entries, fences = dict(self.told), set(self.told_fences)
        store.commit()
        self.committed, self.committed_fences = entries, fences


def live_three_lives(bookie: Bookie) -> None:
    """Run a store through every kind of step: adds, fences, log rolls, checkpoints, replays and a
    clean shutdown.
    """
    store = bookie.open()
    for entry_id in range(3):
        bookie.add(store, 5, entry_id)
        bookie.commit(store)
    bookie.add(store, 0x1234, 0, size=1500)
    bookie.fence(store, UNSEEN)
    bookie.commit(store)
    checkpoint = store.begin_checkpoint()
    bookie.add(store, 6, 0)
    bookie.fence(store, 5)
    store.flush(checkpoint)
    store.end_checkpoint()
    bookie.commit(store)
    bookie.add(store, 0, 0, size=MIB)
    bookie.commit(store)
    bookie.add(store, 0, 1)
    bookie.commit(store)

    store = bookie.open()
    bookie.add(store, 0, 2)
    bookie.add(store, 8, 0)
    bookie.commit(store)
    store.checkpoint()
    bookie.fence(store, 8)
    bookie.commit(store)
    store.close()

    store = bookie.open()
    bookie.add(store, 6, 1)
    bookie.commit(store)
    store.checkpoint()
    bookie.add(store, 6, 2)
    bookie.commit(store)


def check(store: LedgerStore, bookie: Bookie) -> None:
    for (ledger_id, entry_id), data in bookie.told.items():
        if (ledger_id, entry_id) in bookie.committed:
            assert store.read_entry(ledger_id, entry_id) == data
    for ledger_id, entry_id in bookie.told.keys() - bookie.committed.keys():
        # Records have no checksum, so a torn record may be returned; the client's digest detects
        # it.
        with suppress(NoLedgerException, NoEntryException, BKDigestMatchException):
            found = store.read_entry(ledger_id, entry_id)
            decode_entry(found, CRC32C, ledger_id, entry_id)
            assert found == bookie.told[ledger_id, entry_id]
    for ledger_id in bookie.committed_fences:
        with pytest.raises(LedgerFencedException):
            store.add_entry(ledger_id, 1000, entry(ledger_id, 1000), KEY)
    for ledger_id in store.ledger_ids():
        ledger = present(store.ledger(ledger_id))
        assert ledger.master_key == KEY
        assert not ledger.fenced or ledger_id in bookie.told_fences


def count_operations() -> int:
    controller = DiskController()
    live_three_lives(Bookie((SimDisk(controller), SimDisk(controller))))
    return len(controller.operations)


def run_until(stop_at: int) -> Bookie:
    controller = DiskController(stop_at)
    bookie = Bookie((SimDisk(controller), SimDisk(controller)))
    with pytest.raises(CrashError):
        live_three_lives(bookie)
    return bookie


def restart(bookie: Bookie, keep: Keep, stop_at: int = -1) -> None:
    controller = DiskController(stop_at)
    journal, ledgers = bookie.disks
    bookie.disks = journal.after_crash(keep, controller), ledgers.after_crash(keep, controller)


@pytest.mark.parametrize("variant", repeated(VARIANTS, once=3))
def test_committed_survives_a_stop_at_every_disk_operation(variant: str) -> None:
    for stop_at in range(count_operations()):
        bookie = run_until(stop_at)
        restart(bookie, VARIANTS[variant](stop_at))
        store = bookie.open()
        check(store, bookie)
        store.close()
        check(bookie.open(), bookie)


@pytest.mark.parametrize("variant", ["unsynced lost", "random 0"])
def test_committed_survives_a_stop_at_every_disk_operation_of_the_replay(variant: str) -> None:
    stop_first = count_operations() * 3 // 5
    bookie = run_until(stop_first)
    restart(bookie, kept)
    bookie.open()
    replay_operations = len(bookie.disks[0].controller.operations)
    assert replay_operations > 10
    for stop_at in range(replay_operations):
        bookie = run_until(stop_first)
        restart(bookie, kept, stop_at)
        with pytest.raises(CrashError):
            bookie.open()
        restart(bookie, VARIANTS[variant](stop_at))
        check(bookie.open(), bookie)


def test_a_power_cut_after_a_kill_and_a_start_takes_nothing() -> None:
    for stop_at in range(count_operations()):
        bookie = run_until(stop_at)
        controller = DiskController()
        journal, ledgers = bookie.disks
        bookie.disks = journal.after_kill(controller), ledgers.after_kill(controller)
        bookie.open()
        restart(bookie, lost)
        check(bookie.open(), bookie)
