"""Test which entry a message id, a timestamp or the end of the topic refers to."""

import pytest

from labkit.system.broker.positions import (
    EARLIEST,
    LATEST,
    first_or_next_free,
    first_published_from,
    last_message_id,
)
from labkit.system.broker.protocol.frames import position_of
from labkit.system.topic.chain.ledger_chain import Position
from labkit.system.topic.messages import OutgoingMessage, encode_message
from tests.system.broker.in_memory import MemoryLedger, batch, message


def published(time_ms: int) -> bytes:
    return encode_message(OutgoingMessage(b"x", "", 0, (), 0), "p", time_ms)


@pytest.mark.parametrize(
    ("meant", "found"),
    [
        (EARLIEST, (10, 0)),
        (LATEST, (12, 1)),
        ((10, 1), (10, 1)),
        ((10, 2), (12, 0)),
        ((11, -1), (12, 0)),
        ((3, 7), (10, 0)),
        ((12, 0), (12, 0)),
        ((12, 9), (12, 1)),
        ((13, 0), (12, 1)),
    ],
)
def test_a_position_is_that_of_the_next_entry_there_is(meant: Position, found: Position) -> None:
    ledger = MemoryLedger([message(), message()], [], [message()])
    assert first_or_next_free(ledger, meant) == found


@pytest.mark.promise(
    "A seek to a time finds the first message published at that time or later, across many ledgers"
)
@pytest.mark.parametrize("time_ms", range(1, 12))
async def test_a_time_is_that_of_the_first_entry_published_then_or_later(time_ms: int) -> None:
    times = [[2, 2, 3], [5], [], [7, 8, 8, 10]]
    ledger = MemoryLedger(*[[published(each) for each in part] for part in times])
    flat = [(10 + at, i, each) for at, part in enumerate(times) for i, each in enumerate(part)]
    expected = next(((at, i) for at, i, each in flat if each >= time_ms), (13, 4))
    assert await first_published_from(ledger, time_ms) == expected


@pytest.mark.parametrize("before", [0, 1, 5])
async def test_what_is_stored_during_the_search_is_not_passed_over(before: int) -> None:
    ledger = MemoryLedger([published(1)] * before)

    def store() -> None:
        ledger.append(published(9))

    ledger.before_read = store
    position = await first_published_from(ledger, 5)
    store()
    assert position == (10, before)


async def test_a_time_costs_few_reads() -> None:
    ledger = MemoryLedger([published(at) for at in range(1, 1001)])
    assert await first_published_from(ledger, 700) == (10, 699)
    assert len(ledger.reads) <= 11


async def test_no_time_is_found_where_nothing_is_stored() -> None:
    assert await first_published_from(MemoryLedger([]), 5) == (10, 0)


@pytest.mark.parametrize(
    ("ledgers", "position", "batch_index"),
    [
        ([[message(), batch(7)], []], (10, 1), 6),
        ([[batch(7), message()]], (10, 1), -1),
        ([[batch(1)]], (10, 0), 0),
        ([[]], (-1, -1), -1),
    ],
)
async def test_the_last_message_has_an_index_in_a_batch_alone(
    ledgers: list[list[bytes]], position: Position, batch_index: int
) -> None:
    last = await last_message_id(MemoryLedger(*ledgers), 3)
    assert (position_of(last), last.batch_index, last.partition) == (position, batch_index, 3)
