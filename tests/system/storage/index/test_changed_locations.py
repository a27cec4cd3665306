import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.system.storage.index.changed_locations import ChangedLocations

PAGE_SIZE = 32
SLOTS = 4


def slots(*locations: int) -> bytes:
    return struct.pack(f">{len(locations)}q", *locations)


def test_neighbours_in_a_page_of_the_file_are_written_without_the_rest_of_it() -> None:
    changed = ChangedLocations(PAGE_SIZE)
    changed.set([5, 6], [50, 60])
    assert [*changed.writes(2, lambda _: slots(1, 2, 3, 4))] == [(40, slots(50, 60))]


def test_a_page_that_the_file_lacks_or_with_a_gap_is_written_whole() -> None:
    changed = ChangedLocations(PAGE_SIZE)
    changed.set([1, 3, 4, 5], [10, 30, 40, 50])
    pages = [slots(1, 2, 3, 4), bytes(PAGE_SIZE)]
    written = [*changed.writes(1, pages.__getitem__)]
    assert written == [(0, slots(1, 10, 3, 30)), (32, slots(40, 50, 0, 0))]


@given(
    st.lists(
        st.dictionaries(st.integers(0, 40), st.integers(1, 99), min_size=1), min_size=1, max_size=4
    ),
    st.integers(0, 11),
)
def test_what_is_written_is_what_was_set_over_what_there_was(
    rounds: list[dict[int, int]], page_count: int
) -> None:
    changed = ChangedLocations(PAGE_SIZE)
    before = slots(*range(100, 100 + 11 * SLOTS))
    after = {entry_id: 100 + entry_id for entry_id in range(11 * SLOTS)}
    for each in rounds:
        changed.set([*each], [*each.values()])
        after |= each
    file = bytearray(before)
    for offset, data in changed.writes(
        page_count, lambda page_id: before[page_id * PAGE_SIZE :][:PAGE_SIZE]
    ):
        file[offset : offset + len(data)] = data
    assert bytes(file) == slots(*after.values())
    assert changed.pages == {entry_id // SLOTS for each in rounds for entry_id in each}
    for page_id in range(11):
        at = page_id * PAGE_SIZE
        assert changed.put_into(page_id, before[at:][:PAGE_SIZE]) == bytes(file[at:][:PAGE_SIZE])


def test_a_page_without_a_change_between_two_changes_does_not_count() -> None:
    changed = ChangedLocations(8)
    changed.set([0, 2], [10, 20])
    assert changed.pages == {0, 2}


def test_entries_and_locations_must_be_as_many() -> None:
    changed = ChangedLocations(PAGE_SIZE)
    with pytest.raises(ValueError, match="zip"):
        changed.set([0, 1], [10])
