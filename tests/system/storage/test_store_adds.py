"""Tests for adding entries of several ledgers in one step."""

import pytest

from labkit.system.model.errors import (
    LedgerFencedException,
    UnauthorizedAccessException,
)
from labkit.system.storage.journal import LEDGER_KEY
from labkit.system.storage.journal_scan import JournalScan
from tests.system.storage.machine import Machine
from tests.system.storage.support import KEY, OTHER_KEY, entry, present


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
    fenced = present(store.ledger(6))
    assert not fenced.has_new_entries


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
