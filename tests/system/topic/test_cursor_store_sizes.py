"""Where a cursor is kept whose state is too large for a node, for an entry, or for several."""

from dataclasses import replace

import pytest

from labkit.system.metadata.store import NodeTooLargeError
from labkit.system.topic.chain.acknowledged import CursorState
from labkit.system.topic.chain.chain import NOWHERE
from labkit.system.topic.chain.formats import IN_NODE, CursorNode
from labkit.system.topic.cursors.cursor_store import LARGEST_CURSOR_PROPERTIES
from tests.system.topic.cursors.test_cursor_store import Kept, at

LARGE_BATCH = int("10" * 32_768, 2)
"""Of a batch of 65,536 messages each second one is left."""


def partly_acknowledged(batches: int) -> CursorState:
    return CursorState((3, 0), (), tuple(((3, 10 + n), LARGE_BATCH) for n in range(batches)))


async def test_state_of_few_but_large_batches_stays_in_the_ledger_and_is_recovered() -> None:
    state = partly_acknowledged(120)
    kept = await Kept().begun()
    await kept.store.close(state)
    assert kept.node.ledger_id == 1
    for _ in range(2):
        following = Kept(kept.client)
        assert await following.store.recover() == state
        await following.store.close(state)
    assert len(kept.ledgers) == 1


async def test_state_larger_than_an_entry_takes_several_and_is_recovered_whole() -> None:
    state = replace(partly_acknowledged(1000), ranges=at(0, ranges=1000).ranges)
    kept = await Kept().begun()
    await kept.store.write(state)
    parts = kept.states(1)[1:]
    assert len(parts) == 3
    assert await Kept(kept.client).store.recover() == state
    # Pulsar's broker reads the last entry alone: it has the lowest ranges and batches.
    assert parts[-1].ranges == state.ranges
    assert parts[-1].batches == state.batches[: len(parts[-1].batches)] != ()


async def test_owner_that_dies_between_two_parts_leaves_a_state_that_acknowledges_less() -> None:
    state = partly_acknowledged(1000)
    kept = await Kept().begun()
    await kept.store.write(state)
    entries = kept.client.ledgers[1].entries
    for parts in (2, 1):
        kept.client.ledgers[1].entries = entries[: 1 + parts]
        kept.somebody_writes(CursorNode(1, at(1)))
        found = await Kept(kept.client, max_ranges_in_node=1).store.recover()
        assert found is not None
        assert (found.mark_delete, found.ranges) == (state.mark_delete, ())
        assert set(found.batches) < set(state.batches)


async def test_what_does_not_fit_into_four_entries_is_not_stored_from_the_highest_on() -> None:
    state = partly_acknowledged(2000)
    kept = await Kept().begun()
    await kept.store.write(state)
    found = await Kept(kept.client).store.recover()
    assert found is not None
    assert found.batches == state.batches[: len(found.batches)]
    assert 1500 < len(found.batches) < 2000


async def test_state_in_a_node_that_is_too_large_for_labkit_moves_to_a_ledger() -> None:
    kept = Kept(max_ranges_in_node=1)
    await kept.store.create(at(0), {})
    kept.somebody_writes(CursorNode(IN_NODE, at(2, ranges=2)))
    assert await kept.store.recover() == at(2, ranges=2)
    assert (kept.node.ledger_id, kept.states(1)) == (1, [at(2, ranges=2)])


async def test_ledger_that_the_node_cannot_name_is_deleted_at_once() -> None:
    kept = Kept()
    await kept.store.create(at(0), {})
    kept.client.failing.fail("node set", NodeTooLargeError("too many bytes"))
    with pytest.raises(NodeTooLargeError):
        await kept.store.write(at(1))
    assert (kept.node.ledger_id, kept.ledgers) == (IN_NODE, [])


async def test_snapshot_too_large_for_the_node_is_in_the_ledger_alone() -> None:
    marks = tuple((f"producer {number} {'x' * 1000}", number) for number in range(2000))
    state = replace(at(7), properties=marks)
    kept = await Kept().begun()
    await kept.store.write(at(2))
    await kept.store.close(state)
    assert await Kept(kept.client).store.recover() == state
    # Without its ledger the cursor begins at the first entry: no mark is missing then.
    del kept.client.ledgers[kept.node.ledger_id]
    assert await Kept(kept.client).store.recover() == CursorState(NOWHERE)


async def test_properties_that_leave_no_room_in_the_node_are_refused_at_the_creation() -> None:
    kept = Kept()
    with pytest.raises(NodeTooLargeError, match=r"cursor s of public/default.* at most 524288"):
        await kept.store.create(at(0), {"filter": "x" * LARGEST_CURSOR_PROPERTIES})
    assert kept.client.calls == []
