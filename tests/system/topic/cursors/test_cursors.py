"""Tests for cursors in the simulated world: a new owner finds stored acknowledgements, and no
others.
"""

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.model.errors import BKIncorrectParameterException
from tests.system.topic.simulated import (
    found_by,
    in_simulation,
    opened,
    stored,
    with_cursor,
)

# Start position


@in_simulation
async def test_cursor_begins_with_the_entry_that_is_asked_for(client: BookKeeper) -> None:
    ledger = await opened(client)
    before = await ledger.open_cursor("before", "latest")
    positions = await stored(ledger, 0, 12)
    earliest = await ledger.open_cursor("earliest", "earliest")
    latest = await ledger.open_cursor("latest", "latest")
    seventh = await ledger.open_cursor("seventh", positions[7], durable=False)
    fifth = await ledger.open_cursor("fifth", positions[5])
    far = await ledger.open_cursor("far", (2**63 - 1, 2**63 - 1))
    assert found_by(before, positions) == found_by(earliest, positions) == []
    assert found_by(latest, positions) == found_by(far, positions) == list(range(12))
    assert found_by(seventh, positions) == list(range(7))
    assert found_by(fifth, positions) == list(range(5))
    assert ledger.chain.next_position(fifth.mark_delete) == positions[5]
    assert await ledger.open_cursor("fifth", "latest") is fifth
    counts = [each.unacknowledged_count for each in ledger.cursors.values()]
    assert counts == [12, 12, 0, 5, 7, 0]
    await ledger.close()


# Allowed positions


@in_simulation
async def test_acknowledging_an_unconfirmed_entry_acknowledges_nothing(client: BookKeeper) -> None:
    ledger, cursor, positions = await with_cursor(client, entries=3)
    ledger_id = positions[0][0]
    for wrong in ((ledger_id, 3), (ledger_id + 1, 0)):
        with pytest.raises(BKIncorrectParameterException, match="last confirmed entry is"):
            cursor.acknowledge([positions[0], wrong])
        with pytest.raises(BKIncorrectParameterException):
            cursor.acknowledge_up_to(wrong)
        with pytest.raises(BKIncorrectParameterException):
            cursor.acknowledge_batch(wrong, 2, 0)
    assert found_by(cursor, positions) == []
    await ledger.close()


@in_simulation
async def test_acknowledgement_of_what_is_not_there_needs_nothing(client: BookKeeper) -> None:
    ledger, cursor, positions = await with_cursor(client, entries=7)
    first = positions[0][0]
    cursor.acknowledge([(first, 99), (first - 1, 0), (first, -1)])
    assert cursor.state.ranges == ()
    for position in ((first, 99), (first - 1, 0), (first, -1)):
        cursor.acknowledge_batch(position, 64, 1)
    assert cursor.state.batches == ()
    # A position after the end of a closed ledger is treated as the ledger's end.
    cursor.acknowledge_up_to((first, 99))
    assert cursor.mark_delete == (first, 4)
    await ledger.close()


@in_simulation
async def test_seek_reopens_everything_behind_it_and_is_durable(client: BookKeeper) -> None:
    _ledger, cursor, positions = await with_cursor(client)
    cursor.acknowledge_up_to(positions[7])
    cursor.acknowledge([positions[9]])
    cursor.acknowledge_batch(positions[8], 2, 0b01)
    await cursor.flush()
    await cursor.reset(positions[5])
    assert found_by(cursor, positions) == [0, 1, 2, 3, 4]
    again = await opened(client)
    state = again.cursors["s"].state
    assert (state.ranges, state.batches) == ((), ())
    assert found_by(again.cursors["s"], positions) == [0, 1, 2, 3, 4]
    await again.cursors["s"].reset("latest")
    assert found_by(again.cursors["s"], positions) == list(range(10))
    await again.cursors["s"].reset("earliest")
    assert found_by(again.cursors["s"], positions) == []
    await again.close()
