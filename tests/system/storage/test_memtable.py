import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.system.storage.memtable import Memtable


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9), st.binary(max_size=5))))
def test_a_memtable_keeps_the_first_copy_and_gives_all_in_order(
    puts: list[tuple[int, int, bytes]],
) -> None:
    memtable, first = Memtable(), dict[tuple[int, int], bytes]()
    for ledger_id, entry_id, data in puts:
        memtable.put(ledger_id, entry_id, data)
        first.setdefault((ledger_id, entry_id), data)
    assert [((ledger, entry), data) for ledger, entry, data in memtable] == sorted(first.items())
    assert (memtable.entry_count, memtable.size_bytes) == (
        len(first),
        sum(map(len, first.values())),
    )
    for ledger_id in range(5):
        entry_ids = [entry for ledger, entry in first if ledger == ledger_id]
        assert memtable.last_entry_id(ledger_id) == max(entry_ids, default=-1)
        assert memtable.get(ledger_id, 10) is None


@given(
    st.dictionaries(st.tuples(st.integers(0, 2), st.integers(0, 9)), st.binary(max_size=5)),
    st.integers(1, 12),
)
def test_slices_are_all_entries_in_order_and_each_can_be_removed(
    entries: dict[tuple[int, int], bytes], size_bytes: int
) -> None:
    memtable, left = Memtable(), dict(sorted(entries.items()))
    for key, data in entries.items():
        memtable.put(*key, data)
    for runs in memtable.slices(size_bytes):
        found = [
            (run.ledger_id, entry_id, data)
            for run in runs
            for entry_id, data in zip(run.entry_ids, run.entries, strict=True)
        ]
        assert sum(len(data) for *_, data in found[:-1]) < size_bytes
        assert [((ledger, entry), data) for ledger, entry, data in found] == [*left.items()][
            : len(found)
        ]
        memtable.remove(runs)
        for ledger_id, entry_id, _ in found:
            del left[ledger_id, entry_id]
            assert memtable.get(ledger_id, entry_id) is None
        assert [((ledger, entry), data) for ledger, entry, data in memtable] == [*left.items()]
        assert memtable.size_bytes == sum(map(len, left.values()))
    assert left == {}
    for ledger_id in range(3):
        ids = [entry_id for ledger, entry_id in entries if ledger == ledger_id]
        assert memtable.last_entry_id(ledger_id) == max(ids, default=-1)
    assert memtable.entry_count == 0


@given(st.lists(st.one_of(st.integers(0, 99), st.none())))
def test_the_last_entry_is_right_whenever_it_is_asked_for(steps: list[int | None]) -> None:
    """Each None asks for the last entry, which the memtable then caches."""
    memtable = Memtable()
    for step in (*steps, None):
        if step is None:
            assert memtable.last_entry_id(1) == max(memtable.entry_ids(1), default=-1)
        else:
            memtable.put(1, step, b"")


@pytest.mark.parametrize(
    ("size", "count", "limit", "full"),
    [
        (100, 9, 1000, False),
        (100, 10, 1000, True),
        (0, 99_999, 1000, False),
        (0, 100_000, 1000, True),
        (0, 100_000, 256 * 100_001, False),
        (0, 100_001, 256 * 100_001, True),
    ],
)
def test_a_memtable_is_full_of_bytes_or_of_small_entries(
    size: int, count: int, limit: int, full: bool
) -> None:
    memtable = Memtable()
    for entry_id in range(count):
        memtable.put(1, entry_id, bytes(size))
    assert memtable.is_full(limit) == full


@pytest.mark.promise(
    "A memtable of small entries, and a flush of many new ledgers, stay within their memory "
    "and open-file limits"
)
def test_many_small_entries_take_little_more_memory_than_the_limit() -> None:
    limit = 16 * 1024 * 1024
    tracemalloc.start()
    try:
        memtable = Memtable()
        while not memtable.is_full(limit):
            memtable.put(7, memtable.entry_count, bytes(32))
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken < 2 * limit


def test_an_entry_that_was_removed_can_be_put_again() -> None:
    memtable = Memtable()
    for entry_id in range(2):
        memtable.put(1, entry_id, b"first")
    (runs,) = memtable.slices(100)
    memtable.remove(runs)
    memtable.put(1, 0, b"second")
    assert list(memtable) == [(1, 0, b"second")]
    assert (memtable.entry_count, memtable.size_bytes) == (1, 6)
    assert memtable.last_entry_id(1) == 1
