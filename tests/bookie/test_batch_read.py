"""How many entries a batch read gives."""

import pytest

from labkit.bookie.batch_read import read_batch
from labkit.model.batch_read import room_for, room_taken
from labkit.model.errors import NoEntryException
from labkit.model.wire import BatchReadRequest

ENTRY = bytes(100)


def read(_: int, entry_id: int) -> bytes:
    if entry_id == 9:
        raise NoEntryException("no entry 9")
    return ENTRY


def request(first: int = 0, most: int = 0, size: int = 10_000) -> BatchReadRequest:
    return BatchReadRequest(7, first, 1, most, size)


def size_of(entries: int) -> int:
    """Bytes of an answer that this number of entries fills."""
    return entries * room_taken(ENTRY) + 10_000 - room_for(request())


@pytest.mark.parametrize(("size", "count"), [(0, 3), (-1, 2), (1, 3)])
def test_an_entry_that_fills_the_answer_to_the_last_byte_fits(size: int, count: int) -> None:
    assert read_batch(read, request(size=size_of(3) + size)) == [ENTRY] * count


def test_the_first_entry_is_given_whatever_its_size() -> None:
    assert read_batch(read, request(size=size_of(1) - 1)) == [ENTRY]
    assert read_batch(read, request(size=0)) == [ENTRY]


def test_a_batch_ends_at_the_number_asked_for_and_in_front_of_what_is_missing() -> None:
    assert [len(read_batch(read, request(most=most))) for most in (1, 2)] == [1, 2]
    assert len(read_batch(read, request(first=5))) == 4
    with pytest.raises(NoEntryException):
        read_batch(read, request(first=9))
