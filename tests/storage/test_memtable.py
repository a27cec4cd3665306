from hypothesis import given
from hypothesis import strategies as st

from labkit.storage.memtable import Memtable


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
