"""Test that a garbage-collected ledger does not reappear."""

import pytest

from labkit.system.model.errors import LedgerFencedException, NoLedgerException
from labkit.system.storage.collected_ledgers import CollectedLedgers
from labkit.system.storage.store import LedgerStore
from tests.system.storage.machine import Machine
from tests.system.storage.support import KEY, add, entry

SEVEN_DAYS_S = 604_800
LEDGER = 6
LAC = bytes(20)


def with_a_collected_ledger(machine: Machine, *, fenced: bool = False) -> LedgerStore:
    store = machine.open()
    add(store, LEDGER, 0)
    if fenced:
        store.fence(LEDGER, KEY)
    store.commit()
    store.collected.add([LEDGER])
    store.garbage.collect([LEDGER])
    return store


def test_a_collected_ledger_is_remembered_for_seven_days_after_the_last_request() -> None:
    collected = CollectedLedgers()
    collected.advance_to(100)
    collected.add([1, 2])
    collected.advance_to(100 + SEVEN_DAYS_S - 1)
    assert collected.must_reject(1)
    collected.advance_to(100 + SEVEN_DAYS_S)
    assert (collected.must_reject(1), collected.must_reject(2)) == (True, False)
    collected.advance_to(100 + 2 * SEVEN_DAYS_S)
    assert not collected.must_reject(1)


@pytest.mark.promise(
    "A collected ledger accepts no adds, not even recovery's, for seven days after the last request"
)
@pytest.mark.parametrize("recovery", [False, True])
@pytest.mark.parametrize("fenced", [False, True])
def test_an_add_to_a_collected_ledger_is_answered_as_one_to_a_fenced_ledger(
    machine: Machine, fenced: bool, recovery: bool
) -> None:
    store = with_a_collected_ledger(machine, fenced=fenced)
    with pytest.raises(LedgerFencedException, match="ledger 6 was deleted"):
        store.add_entry(LEDGER, 1, entry(LEDGER, 1), KEY, recovery=recovery)
    assert store.ledger_ids() == []


def test_a_collected_ledger_is_not_created_by_a_fence_or_an_explicit_lac(machine: Machine) -> None:
    store = with_a_collected_ledger(machine)
    with pytest.raises(NoLedgerException, match="ledger 6 was deleted"):
        store.fence(LEDGER, KEY)
    with pytest.raises(NoLedgerException, match="ledger 6 was deleted"):
        store.set_explicit_lac(LEDGER, LAC, KEY)
    assert store.ledger_ids() == []


def test_an_add_that_comes_between_the_decision_and_the_collection_is_refused(
    machine: Machine,
) -> None:
    store = machine.open()
    add(store, LEDGER, 0)
    store.collected.add([LEDGER])
    with pytest.raises(LedgerFencedException):
        store.add_entry(LEDGER, 1, entry(LEDGER, 1), KEY)


def test_a_restart_forgets_what_was_collected_as_in_bookkeeper(machine: Machine) -> None:
    store = with_a_collected_ledger(machine)
    store.checkpoint()
    store = machine.open()
    assert store.ledger_ids() == []
    add(store, LEDGER, 1)
    assert store.read_entry(LEDGER, 1) == entry(LEDGER, 1)


def test_a_fence_that_replay_finds_holds_until_the_ledger_is_collected_again(
    machine: Machine,
) -> None:
    store = with_a_collected_ledger(machine, fenced=True)
    store = machine.open()
    assert store.ledger_ids() == [LEDGER]
    with pytest.raises(LedgerFencedException, match="a client has started to recover it"):
        store.add_entry(LEDGER, 1, entry(LEDGER, 1), KEY)
