"""Test that unreadable data are reported as damage and never as a missing entry or ledger."""

import struct
from pathlib import Path

import pytest

from labkit.system.model.errors import (
    NoEntryException,
    StorageDamagedException,
)
from labkit.system.storage.index.ledger_index import index_path
from labkit.system.storage.log_mark import read_last_mark
from tests.system.storage.machine import Machine
from tests.system.storage.support import add, open_store


@pytest.fixture
def flushed(machine: Machine) -> Machine:
    store = machine.open()
    add(store, 5, 0, 1)
    store.close()
    return machine


def test_an_entry_cut_off_its_log_is_damaged_not_absent(flushed: Machine) -> None:
    log = flushed.ledgers.open("current/0.log")
    data = log.read(0, log.size())
    for size in (0, 1024, 1030, 1044, len(data) - 1):
        flushed.ledgers.create("current/0.log").write(0, data[:size])
        with pytest.raises(StorageDamagedException, match=r"0\.log, offset"):
            flushed.open().read_entry(5, 1)


@pytest.mark.promise('"No such ledger", "no such entry" and "could not read" are never confused')
def test_an_entry_whose_log_is_gone_is_damaged_not_absent(flushed: Machine) -> None:
    flushed.ledgers.remove("current/0.log")
    store = flushed.open()
    with pytest.raises(StorageDamagedException, match=r"0\.log is missing"):
        store.read_entry(5, 0)
    with pytest.raises(NoEntryException):
        store.read_entry(5, 2)


@pytest.mark.parametrize("size", [0, 11, 39, 40, 1023])
def test_a_ledger_with_an_index_cut_in_its_header_is_damaged_not_absent(
    flushed: Machine, size: int
) -> None:
    index = flushed.ledgers.open(index_path(5))
    data = index.read(0, size)
    flushed.ledgers.create(index_path(5)).write(0, data)
    for entry_id in (0, 1):
        with pytest.raises(StorageDamagedException, match=r"5\.idx: unreadable header"):
            flushed.open().read_entry(5, entry_id)


def test_a_journal_cut_before_the_mark_is_damaged_not_empty(machine: Machine) -> None:
    store = machine.open()
    add(store, 5, 0)
    store.checkpoint()
    add(store, 5, 1)
    (name,) = machine.journal.names("current")
    journal = machine.journal.open(f"current/{name}")
    data = journal.read(0, read_last_mark(machine.ledgers).offset - 1)
    machine.journal.create(f"current/{name}").write(0, data)
    with pytest.raises(StorageDamagedException, match="acknowledged entries are missing"):
        machine.open()


@pytest.mark.parametrize("location", [1, 3, -1, 2**62, -(2**63)])
def test_an_index_with_an_impossible_location_is_damaged_not_absent(
    tmp_path: Path, location: int
) -> None:
    store = open_store(tmp_path)
    add(store, 5, 0)
    store.close()
    index = tmp_path / "l" / index_path(5)
    data = bytearray(index.read_bytes())
    data[1024:1032] = struct.pack(">q", location)
    index.write_bytes(data)
    with pytest.raises((StorageDamagedException, OSError)):
        open_store(tmp_path).read_entry(5, 0)
