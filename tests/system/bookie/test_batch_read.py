"""Test how many entries a batch read returns."""

import pytest

from labkit.system.bookie import batch_read
from labkit.system.bookie.batch_read import MAX_ENTRIES, read_batch
from labkit.system.model.batch_read import encode_size, room_for, room_taken
from labkit.system.model.errors import NoEntryException
from labkit.system.model.wire import BatchReadRequest
from labkit.system.storage.entry_batch import EntryBatch, read_entries
from labkit.system.storage.store import LedgerStore
from labkit.system.trace.events import Event
from labkit.worlds.sim.machine.disk import SimDisk
from tests.system.storage.support import KEY, entry, store_over

LEDGER = 7
PAYLOAD = bytes(64)
COUNT = 9


def stored(entry_id: int) -> bytes:
    return entry(LEDGER, entry_id, PAYLOAD)


@pytest.fixture(params=["in memory", "in the entry log"])
def store(request: pytest.FixtureRequest) -> LedgerStore:
    """Return a store with entries 0 to 8 of one ledger."""
    store = store_over(SimDisk(), SimDisk())
    for entry_id in range(COUNT):
        store.add_entry(LEDGER, entry_id, stored(entry_id), KEY)
    if request.param == "in the entry log":
        store.checkpoint()
    return store


def asked(first: int = 0, most: int = 0, size: int = 10_000) -> BatchReadRequest:
    return BatchReadRequest(LEDGER, first, 1, most, size)


def count(store: LedgerStore, request: BatchReadRequest) -> int:
    """Run the batch read, check the returned entries and return their number."""
    pieces, found = read_batch(store.read_entry, store, request)
    first = request.first_entry_id
    expected = map(stored, range(first, first + found))
    assert b"".join(pieces) == b"".join(encode_size(each) + each for each in expected)
    return found


def size_of(entries: int) -> int:
    """Return the response size limit at which exactly this many entries fit."""
    return entries * room_taken(stored(0)) + 10_000 - room_for(asked())


@pytest.mark.parametrize(("size", "found"), [(0, 3), (-1, 2), (1, 3)])
def test_an_entry_that_fills_the_answer_to_the_last_byte_fits(
    store: LedgerStore, size: int, found: int
) -> None:
    assert count(store, asked(size=size_of(3) + size)) == found


def test_the_first_entry_is_given_whatever_its_size(store: LedgerStore) -> None:
    assert count(store, asked(size=size_of(1) - 1)) == 1
    assert count(store, asked(size=0)) == 1


def test_a_batch_ends_at_the_number_asked_for_and_in_front_of_what_is_missing(
    store: LedgerStore,
) -> None:
    assert [count(store, asked(most=most)) for most in (1, 2)] == [1, 2]
    assert count(store, asked(first=5)) == 4
    with pytest.raises(NoEntryException):
        read_batch(store.read_entry, store, asked(first=COUNT))


def test_a_batch_has_a_limited_number_of_entries(store: LedgerStore) -> None:
    for entry_id in range(COUNT, MAX_ENTRIES + COUNT):
        store.add_entry(LEDGER, entry_id, stored(entry_id), KEY)
    assert count(store, asked(size=1_000_000)) == MAX_ENTRIES


def test_each_entry_that_a_batch_gives_is_reported_with_its_place(store: LedgerStore) -> None:
    rows: list[Event] = []
    in_memory = store.is_in_memory(LEDGER, 1)
    store.recorder.listen(rows.extend)
    assert count(store, asked(most=3)) == 3
    place = "memtable" if in_memory else "entry log"
    # The bookie itself reports the read of the first entry.
    assert [(row.kind, row.entry, row.detail) for row in rows] == [
        ("read.served", entry_id, place) for entry_id in (1, 2)
    ]


def test_entries_count_as_read_from_the_memtable_if_a_flush_ends_during_the_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def read_during_a_flush(store: LedgerStore, *details: int) -> EntryBatch:
        found = read_entries(store, *details)
        store.checkpoint()
        return found

    monkeypatch.setattr(batch_read, "read_entries", read_during_a_flush)
    store, rows = store_over(SimDisk(), SimDisk()), list[Event]()
    for entry_id in range(COUNT):
        store.add_entry(LEDGER, entry_id, stored(entry_id), KEY)
    store.recorder.listen(rows.extend)
    assert count(store, asked(most=3)) == 3
    read = [(row.entry, row.detail) for row in rows if row.kind == "read.served"]
    assert read == [(1, "memtable"), (2, "memtable")]
