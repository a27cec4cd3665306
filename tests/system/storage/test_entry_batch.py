"""Test that a batch read returns the same entries as single reads, up to the first failing read."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.system.model.errors import NoEntryException, NoLedgerException, StorageDamagedException
from labkit.system.storage.entry_batch import read_entries
from labkit.system.storage.entry_log import location_of
from labkit.system.storage.store import LedgerStore
from labkit.worlds.sim.machine.disk import SimDisk
from tests.system.storage.support import KEY, entry, present, store_over

SIZES = (0, 1, 30, 5_000, 40_000)
ADDS = st.lists(
    st.tuples(st.sampled_from((5, 6)), st.integers(0, 8), st.sampled_from(SIZES)), max_size=25
)
PAGE = 1024
"""The number of locations in an index page."""


def filled(*parts: list[tuple[int, int, int]]) -> LedgerStore:
    """Return a store with these entries, given as (ledger, entry, payload size); all entries except
    those of the last part are in entry logs.
    """
    store = store_over(SimDisk(), SimDisk())
    for number, part in enumerate(parts):
        for ledger_id, entry_id, size in part:
            store.add_entry(ledger_id, entry_id, entry(ledger_id, entry_id, bytes(size)), KEY)
        if number < len(parts) - 1:
            store.checkpoint()
    return store


def one_by_one(store: LedgerStore, ledger_id: int, first: int, most: int, room: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < most:
        try:
            data = store.read_entry(ledger_id, first + len(found))
        except (NoEntryException, NoLedgerException, StorageDamagedException):
            break
        room -= 4 + len(data)
        if room < 0:
            break
        found.append(len(data).to_bytes(4, "big") + data)
    return found


@given(ADDS, ADDS, ADDS, st.integers(0, 8), st.integers(0, 9), st.integers(-1, 100_000))
def test_a_run_is_what_single_reads_give(
    older: list[tuple[int, int, int]],
    newer: list[tuple[int, int, int]],
    newest: list[tuple[int, int, int]],
    first: int,
    most: int,
    room: int,
) -> None:
    # Use one size per entry, so that duplicate copies of an entry are identical.
    size = {(ledger, number): size for ledger, number, size in older + newer + newest}
    parts = [
        [(ledger, number, size[ledger, number]) for ledger, number, _ in part]
        for part in (older, newer, newest)
    ]
    store = filled(*parts)
    run = read_entries(store, 5, first, most, room)
    expected = one_by_one(store, 5, first, most, room)
    assert b"".join(run.pieces) == b"".join(expected)
    assert run.entry_count == len(expected)


def test_what_lies_in_a_row_is_one_piece() -> None:
    store = filled([(5, entry_id, 30) for entry_id in range(100)], [])
    assert len(read_entries(store, 5, 0, 100, 100_000).pieces) == 1


def test_a_run_goes_over_the_pages_of_the_index() -> None:
    store = filled([(5, PAGE + at, 1) for at in range(-3, 3)], [])
    assert read_entries(store, 5, PAGE - 3, 10, 10_000).entry_count == 6


def test_a_run_goes_over_entry_logs_and_memory() -> None:
    store = filled([(5, 0, 9)], [(5, 2, 9)], [(5, 1, 9), (5, 3, 9)])
    assert read_entries(store, 5, 0, 10, 10_000).entry_count == 4


@pytest.mark.parametrize("entry_id", range(4))
def test_a_run_ends_in_front_of_a_damaged_entry(entry_id: int) -> None:
    store = filled([(5, each, 30) for each in range(4)], [])
    ledger = present(store.ledgers.get(5))
    location = ledger.index.location(entry_id)
    log = store.ledger_disks[0].open(f"current/{location >> 32:x}.log")
    # Overwrite part of the entry's ledger id.
    log.write((location & 0xFFFFFFFF) + 7, b"\6")
    assert read_entries(store, 5, 0, 4, 10_000).entry_count == entry_id


@pytest.mark.parametrize("is_flushed", [True, False])
def test_a_run_takes_what_fits_to_the_last_byte(is_flushed: bool) -> None:
    entries = [(5, entry_id, 30) for entry_id in range(3)]
    store = filled(entries, []) if is_flushed else filled(entries)
    size = 4 + len(entry(5, 0, bytes(30)))
    for room, count in ((0, 0), (size - 1, 0), (size, 1), (2 * size - 1, 1), (2 * size, 2)):
        run = read_entries(store, 5, 0, 3, room)
        assert run.entry_count == count
        assert sum(map(len, run.pieces)) == count * size


def test_a_large_entry_in_a_log_comes_if_it_fits_to_the_last_byte() -> None:
    store = filled([(5, 0, 100_000)], [])
    size = 4 + len(entry(5, 0, bytes(100_000)))
    assert read_entries(store, 5, 0, 1, size - 1) == ([], 0)
    run = read_entries(store, 5, 0, 1, size)
    assert run.entry_count == 1
    assert b"".join(run.pieces)[4:] == entry(5, 0, bytes(100_000))


def test_a_run_ends_in_front_of_an_entry_whose_log_is_gone() -> None:
    store = filled([(5, 0, 30)], [(5, 1, 30)])
    store.ledgers.set_locations(5, [0, 2], [location_of(99, 2000)] * 2)
    assert read_entries(store, 5, 0, 9, 999) == ([], 0)
    assert read_entries(store, 5, 1, 9, 999).entry_count == 1


def test_a_run_finds_what_a_flush_under_way_has_not_written_yet() -> None:
    store = filled([(5, 0, 9), (5, 2, 9)])
    store.begin_checkpoint()
    store.add_entry(5, 1, entry(5, 1, bytes(9)), KEY)
    run = read_entries(store, 5, 0, 9, 999)
    found = [entry(5, entry_id, bytes(9)) for entry_id in range(3)]
    assert (run.pieces[1::2], run.entry_count) == (found, 3)
