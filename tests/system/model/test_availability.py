import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.system.model.availability import (
    AvailabilityOfEntries,
    Sequences,
    availability_of,
    decode_availability,
    encode_availability,
)

HEADER = "0000000000000003" + "00" * 56
WORKED = (
    HEADER
    + "0000000000000000" * 2
    + "0000000200000000"
    + "0000000000000003" * 2
    + "0000000200000000"
    + "0000000000000006" * 2
    + "0000000200000000"
)
"""The response of Apache's bookie that has entries 0, 1, 3, 4, 6 and 7, with one group per run."""


def test_apaches_response_is_read() -> None:
    found = decode_availability(bytes.fromhex(WORKED))
    assert [entry_id for entry_id in range(-1, 10) if entry_id in found] == [0, 1, 3, 4, 6, 7]


def test_a_stripe_takes_one_group_however_long_the_ledger_is() -> None:
    entries = [entry_id for entry_id in range(30_000) if entry_id % 3 != 2]
    assert availability_of(entries).groups == (Sequences(0, 29_997, 2, 3),)


def test_a_gap_begins_a_new_group() -> None:
    assert availability_of([0, 1, 3, 4, 9, 10, 11]).groups == (
        Sequences(0, 3, 2, 3),
        Sequences(9, 9, 3, 0),
    )


@given(st.sets(st.integers(0, 300)))
def test_every_set_of_entries_comes_back(entry_ids: set[int]) -> None:
    encoded = encode_availability(availability_of(sorted(entry_ids)))
    found = decode_availability(encoded)
    assert {entry_id for entry_id in range(-5, 320) if entry_id in found} == entry_ids


@pytest.mark.parametrize(
    "group",
    [
        Sequences(-1, 0, 1, 1),
        Sequences(5, 4, 1, 1),
        Sequences(0, 0, 0, 0),
        Sequences(0, 3, 1, 0),
        Sequences(0, 3, 1, 2),
        Sequences(0, 3, 1, -3),
    ],
)
def test_groups_that_make_no_sense_are_rejected(group: Sequences) -> None:
    with pytest.raises(ValueError, match="is invalid"):
        decode_availability(encode_availability(AvailabilityOfEntries((group,))))


@pytest.mark.parametrize(
    "data",
    [
        b"",
        bytes.fromhex(WORKED)[:-1],
        bytes.fromhex(WORKED)[:-24],
        b"\0\0\0\1" + bytes.fromhex(WORKED)[4:],
    ],
)
def test_a_list_that_is_not_whole_is_rejected(data: bytes) -> None:
    with pytest.raises(ValueError, match="not a list of entries"):
        decode_availability(data)
