"""Tests for batch read frames against bytes derived by hand from BookKeeper's encoder."""

import pytest

from labkit.system.model.batch_read import (
    encode_batch_read,
    find_batch_entries,
    room_for,
    room_taken,
)
from labkit.system.model.errors import BKReadException
from labkit.system.model.wire import (
    MAX_FRAME_SIZE,
    BatchReadRequest,
    Code,
    Flag,
    decode_requests,
    decode_responses,
)
from tests.batch_answers import batch_answer

REQUEST = BatchReadRequest(7, 0, 9, 10, MAX_FRAME_SIZE)
ENTRY = bytes.fromhex(
    "00000000000000070000000000000000ffffffffffffffff00000000000000059e3e717b68656c6c6f"
)


def test_request_is_encoded_as_bookkeeper_does() -> None:
    assert encode_batch_read(REQUEST).hex() == (
        "020700000000000000000007000000000000000000000000000000090000000a0000000000500000"
    )


def test_response_is_encoded_as_bookkeeper_does() -> None:
    assert batch_answer(REQUEST, Code.OK, [ENTRY]).hex() == (
        "020700000000000000000000000000070000000000000000000000000000000900000029" + ENTRY.hex()
    )


def test_request_comes_back_from_its_bytes() -> None:
    fencing = REQUEST._replace(flags=int(Flag.FENCE), master_key=bytes(range(20)))
    for request in (REQUEST, fencing):
        assert decode_requests([encode_batch_read(request)]) == [request]


@pytest.mark.parametrize("entries", [[], [ENTRY], [ENTRY, b"", ENTRY]])
def test_entries_come_back_from_a_response(entries: list[bytes]) -> None:
    [answer] = decode_responses([batch_answer(REQUEST, Code.OK, entries)])
    assert (answer.ledger_id, answer.entry_id, answer.code) == (7, 0, Code.OK)
    found = find_batch_entries(answer.entry)
    assert [answer.entry[start:end] for start, end in found] == entries


def test_response_that_is_cut_short_is_an_error() -> None:
    [answer] = decode_responses([batch_answer(REQUEST, Code.OK, [ENTRY])])
    for size in range(len(answer.entry) - len(ENTRY) - 3, len(answer.entry)):
        with pytest.raises(BKReadException, match="ends within its entry 0"):
            find_batch_entries(answer.entry[:size])


def test_room_counts_the_whole_frame() -> None:
    answer = batch_answer(REQUEST, Code.OK, [ENTRY, ENTRY])
    assert room_for(REQUEST) - 2 * room_taken(ENTRY) == MAX_FRAME_SIZE - 4 - len(answer)
