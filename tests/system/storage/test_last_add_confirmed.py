"""Tests for the LastAddConfirmed that a bookie knows for a ledger."""

import pytest

from labkit.system.model.entry import ENTRY_HEADER, Entry, encode_entry, encode_explicit_lac
from labkit.system.model.errors import NoLedgerException, StorageDamagedException
from labkit.system.storage.last_add_confirmed import last_add_confirmed
from labkit.system.storage.store import LedgerStore
from tests.system.storage.machine import Machine
from tests.system.storage.support import CRC32C, KEY, add


def add_confirming(store: LedgerStore, entry_id: int, confirmed: int) -> None:
    data = encode_entry(Entry(5, entry_id, confirmed, 1, b"x"), CRC32C)
    store.add_entry(5, entry_id, data, KEY)


def tell(store: LedgerStore, confirmed: int) -> None:
    store.set_explicit_lac(5, encode_explicit_lac(5, confirmed, CRC32C), KEY)


def test_the_last_entry_tells_it(machine: Machine) -> None:
    store = machine.open()
    with pytest.raises(NoLedgerException):
        last_add_confirmed(store, 5)
    for entry_id, confirmed, known in ((0, -1, -1), (2, 0, 0), (1, -1, 0), (7, 5, 5), (8, 4, 5)):
        add_confirming(store, entry_id, confirmed)
        assert last_add_confirmed(store, 5) == known


def test_an_explicit_lac_tells_it_without_an_entry(machine: Machine) -> None:
    store = machine.open()
    tell(store, 3)
    assert last_add_confirmed(store, 5) == 3
    add_confirming(store, 4, 2)
    assert last_add_confirmed(store, 5) == 3
    add_confirming(store, 5, 4)
    assert last_add_confirmed(store, 5) == 4


def test_it_is_known_after_a_flush_and_after_a_restart(machine: Machine) -> None:
    store = machine.open()
    add(store, 5, 0, 1, 2)
    store.checkpoint()
    assert last_add_confirmed(store, 5) == 1
    tell(store, 2)
    store.commit()
    store = machine.open()
    assert last_add_confirmed(store, 5) == 2


def test_a_fenced_ledger_without_entries_has_none(machine: Machine) -> None:
    store = machine.open()
    store.fence(5, KEY)
    assert last_add_confirmed(store, 5) == -1


def test_a_last_entry_without_a_header_is_damage(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = machine.open()
    add(store, 5, 0)
    monkeypatch.setattr(store, "read_entry", lambda ledger_id, entry_id: b"short")
    with pytest.raises(StorageDamagedException, match="entry 0 of ledger 5 is too short"):
        last_add_confirmed(store, 5)


def test_an_entry_of_a_header_alone_tells_it(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = machine.open()
    add(store, 5, 0)
    header = encode_entry(Entry(5, 0, 7, 1, b""), CRC32C)[: ENTRY_HEADER.size]
    monkeypatch.setattr(store, "read_entry", lambda ledger_id, entry_id: header)
    assert last_add_confirmed(store, 5) == 7


@pytest.mark.parametrize(("size", "known"), [(15, -1), (16, 3), (20, 3)])
def test_an_explicit_lac_needs_its_two_numbers(machine: Machine, size: int, known: int) -> None:
    store = machine.open()
    store.set_explicit_lac(5, encode_explicit_lac(5, 3, CRC32C)[:size], KEY)
    assert last_add_confirmed(store, 5) == known


def test_the_last_entry_is_read_once(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    store, reads = machine.open(), list[int]()
    read_entry = store.read_entry

    def counted(ledger_id: int, entry_id: int) -> bytes:
        reads.append(entry_id)
        return read_entry(ledger_id, entry_id)

    monkeypatch.setattr(store, "read_entry", counted)
    for entry_id in (0, 2, 1, 3):
        add_confirming(store, entry_id, entry_id - 1)
        for _ in range(2):
            last_add_confirmed(store, 5)
    assert reads == [0, 2, 3]
