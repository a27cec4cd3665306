"""Test where a cursor is stored, and when its ledgers are created and deleted, with a scripted
client.
"""

from dataclasses import replace

import pytest

from labkit.system.metadata.store import ANY_VERSION, MetadataUnavailableError, NodeTooLargeError
from labkit.system.model.errors import BKNotEnoughBookiesException, BKWriteException
from labkit.system.topic.chain.formats import DamagedNodeError
from labkit.system.topic.chain.guarded_node import GuardedNode, ManagedLedgerFencedError
from labkit.system.topic.chain.ledger_chain import NOWHERE
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.cursors.acknowledged import CursorState, Range
from labkit.system.topic.cursors.cursor_store import MAX_CURSOR_PROPERTIES_BYTES, CursorStore
from labkit.system.topic.cursors.formats import (
    IN_NODE,
    CursorNode,
    decode_cursor_node,
    decode_position,
    encode_cursor_node,
    encode_position,
)
from labkit.system.topic.names import managed_ledger_path
from tests.system.topic.clients import PlayedClient

CHAIN_PATH = managed_ledger_path("persistent://public/default/t")
PATH = f"{CHAIN_PATH}/s"
CONFIG = ManagedLedgerConfig(4, 3, 2, max_entries_per_cursor_ledger=3)
DOWN = MetadataUnavailableError("it does not answer")
FAILED = BKWriteException("no bookie answers")


class Kept:
    """Cursor `s` on a scripted client."""

    def __init__(self, client: PlayedClient | None = None, **config: int) -> None:
        self.client = client or PlayedClient()
        self.config = replace(CONFIG, **config)
        tree = self.client.store.tree
        if not tree.exists(CHAIN_PATH, None):
            tree.create(CHAIN_PATH, b"", 0, False)
        self.chain_node = GuardedNode(self.client.store, CHAIN_PATH, "the chain")
        self.store = CursorStore(PATH, "s", self.chain_node, self.client.real, self.config)

    async def create(self, state: CursorState, cursor_properties: dict[str, str]) -> None:
        await self.chain_node.read()
        await self.store.create(state, cursor_properties)

    async def begun(self) -> "Kept":
        """Create the cursor and write its first state to ledger 1."""
        await self.create(at(0), {"filter": "a"})
        await self.store.write(at(1))
        assert self.client.calls == ["node create", "create 1", "add 1", "node set"]
        return self

    @property
    def node(self) -> CursorNode:
        return decode_cursor_node(self.client.store.tree.get(PATH, None)[0])

    @property
    def ledgers(self) -> list[int]:
        return list(self.client.ledgers)

    def states(self, ledger_id: int) -> list[CursorState]:
        return [decode_position(data) for data in self.client.ledgers[ledger_id].entries]

    def somebody_writes(self, node: CursorNode) -> None:
        """Overwrite the cursor's node, as another owner would."""
        self.client.store.tree.set(PATH, encode_cursor_node(node), ANY_VERSION)


def at(entry_id: int, ranges: int = 0, batches: int = 0) -> CursorState:
    """Return a state with this mark-delete entry and this many ranges and batches after it."""
    behind = entry_id + 10
    return CursorState(
        (3, entry_id),
        tuple(Range((3, behind + 2 * n), (3, behind + 2 * n + 1)) for n in range(ranges)),
        tuple(((3, behind + 100 + n), 1) for n in range(batches)),
    )


# Writes


async def test_new_cursor_is_in_its_node_and_needs_no_ledger() -> None:
    kept = Kept()
    await kept.create(at(0), {"filter": "a"})
    assert kept.node == CursorNode(IN_NODE, at(0), (("filter", "a"),))
    assert kept.client.calls == ["node create"]


async def test_first_write_goes_into_a_new_ledger_before_the_node_names_it() -> None:
    kept = await Kept().begun()
    assert kept.node.ledger_id == 1
    assert kept.node.cursor_properties == (("filter", "a"),)
    metadata = kept.client.ledgers[1].metadata
    assert (metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum) == (4, 3, 2)
    assert metadata.custom_metadata == (
        ("application", b"pulsar"),
        ("component", b"managed-ledger"),
        ("pulsar/managed-ledger", b"public/default/persistent/t"),
        ("pulsar/cursor", b"s"),
    )


async def test_later_writes_are_entries_alone_until_the_ledger_is_full() -> None:
    kept = await Kept().begun()
    for entry_id in (2, 3):
        await kept.store.write(at(entry_id))
    assert kept.client.calls == ["add 1", "add 1"]
    assert kept.states(1) == [at(1), at(2), at(3)]
    await kept.store.write(at(4))
    assert kept.client.calls == ["create 2", "add 2", "node set", "close 1", "delete 1"]
    assert kept.states(2) == [at(4)]
    assert kept.node.ledger_id == 2


async def test_ledger_is_left_when_it_is_as_old_as_it_may_become() -> None:
    kept = await Kept(max_cursor_ledger_age_ms=1000).begun()
    kept.client.now_ms += 999
    await kept.store.write(at(2))
    assert kept.client.calls == ["add 1"]
    kept.client.now_ms += 1
    await kept.store.write(at(3))
    assert kept.ledgers == [2]
    # The age of the next ledger is counted from its own creation.
    kept.client.now_ms += 999
    await kept.store.write(at(4))
    assert kept.states(2) == [at(3), at(4)]


async def test_write_that_fails_in_one_ledger_goes_into_the_next() -> None:
    kept = await Kept().begun()
    kept.client.failing.fail("add", FAILED)
    kept.client.failing.fail("close", FAILED)
    await kept.store.write(at(2))
    assert kept.client.calls[1:] == ["create 2", "add 2", "node set", "close 1", "delete 1"]
    assert (kept.node.ledger_id, kept.ledgers) == (2, [2])
    await kept.store.write(at(3))
    assert kept.states(2) == [at(2), at(3)]


async def test_ledger_that_does_not_take_the_first_state_is_deleted_at_once() -> None:
    kept = await Kept().begun()
    kept.client.failing.fail("add", FAILED, times=2)
    with pytest.raises(BKWriteException):
        await kept.store.write(at(2))
    assert (kept.node.ledger_id, kept.ledgers) == (1, [1])
    await kept.store.write(at(3))
    assert kept.states(1) == [at(1), at(3)]
    kept.client.failing.fail("add", FAILED)
    await kept.store.write(at(4))
    assert (kept.node.ledger_id, kept.ledgers) == (3, [3])


async def test_without_bookies_for_a_new_ledger_the_write_says_so() -> None:
    kept = Kept()
    await kept.create(at(0), {})
    kept.client.failing.fail("create", BKNotEnoughBookiesException("one of three"))
    with pytest.raises(BKNotEnoughBookiesException):
        await kept.store.write(at(1))
    assert kept.node == CursorNode(IN_NODE, at(0))


async def test_ledger_that_the_node_may_name_after_a_lost_response_goes_with_another() -> None:
    kept = await Kept().begun()
    kept.client.failing.fail("add", FAILED)
    kept.client.failing.fail("node set", DOWN, times=2)
    with pytest.raises(MetadataUnavailableError):
        await kept.store.write(at(2))
    assert kept.ledgers == [1, 2]
    kept.client.failing.fail("add", FAILED)
    await kept.store.write(at(3))
    assert (kept.node.ledger_id, kept.ledgers) == (3, [3])


async def test_overtaken_owner_takes_its_new_ledger_away_and_no_other() -> None:
    kept = await Kept().begun()
    kept.somebody_writes(CursorNode(1, at(1)))
    kept.client.failing.fail("add", FAILED)
    with pytest.raises(ManagedLedgerFencedError, match="cursor s of public/default/persistent/t"):
        await kept.store.write(at(2))
    assert kept.ledgers == [1]
    assert kept.node == CursorNode(1, at(1))


# Limits on the stored state


async def test_ranges_and_batches_beyond_the_limit_are_not_stored_in_a_ledger() -> None:
    kept = await Kept(max_ranges_stored=2).begun()
    await kept.store.write(at(2, ranges=3, batches=4))
    assert kept.states(1)[-1] == at(2, ranges=2, batches=2)
    await kept.store.close(at(3, ranges=3, batches=4))
    assert kept.node.state == at(3, ranges=2, batches=2)


@pytest.mark.parametrize(("ranges", "batches", "fits"), [(2, 1, True), (0, 3, True), (2, 2, False)])
async def test_cursor_rests_in_its_node_if_it_fits(ranges: int, batches: int, fits: bool) -> None:
    kept = await Kept(max_ranges_in_node=3).begun()
    state = at(2, ranges, batches)
    await kept.store.close(state)
    if fits:
        assert kept.client.calls == ["node set", "close 1", "delete 1"]
        assert kept.node == CursorNode(IN_NODE, state, (("filter", "a"),))
    else:
        assert kept.client.calls == ["add 1", "close 1"]
        assert kept.node.ledger_id == 1
    following = Kept(kept.client, max_ranges_in_node=3)
    assert await following.store.take_over() == state
    assert following.store.cursor_properties == (("filter", "a"),)


# Deletion


async def test_deleted_cursor_leaves_no_node_and_no_ledger() -> None:
    kept = await Kept().begun()
    await kept.store.delete()
    assert kept.client.calls == ["node delete", "close 1", "delete 1"]
    assert not kept.client.store.tree.exists(PATH, None)
    assert kept.ledgers == []


async def test_cursor_that_another_owner_has_is_not_deleted() -> None:
    kept = await Kept().begun()
    kept.somebody_writes(CursorNode(1, at(1)))
    with pytest.raises(ManagedLedgerFencedError):
        await kept.store.delete()
    assert kept.ledgers == [1]


async def test_ledger_that_cannot_be_deleted_is_deleted_the_next_time_and_forgotten() -> None:
    kept = await Kept(max_entries_per_cursor_ledger=1).begun()
    kept.client.failing.fail("delete", DOWN)
    await kept.store.write(at(2))
    assert kept.ledgers == [1, 2]
    await kept.store.write(at(3))
    assert kept.ledgers == [3]
    assert kept.client.calls[-2:] == ["delete 1", "delete 2"]
    await kept.store.write(at(4))
    assert [call for call in kept.client.calls if "delete" in call] == ["delete 3"]


async def test_ledger_that_another_client_has_deleted_is_forgotten() -> None:
    kept = await Kept(max_entries_per_cursor_ledger=1).begun()
    del kept.client.ledgers[1]
    await kept.store.write(at(2))
    await kept.store.write(at(3))
    assert [call for call in kept.client.calls if "delete" in call] == ["delete 1", "delete 2"]


# The next owner


async def test_cursor_without_a_node_is_not_there() -> None:
    kept = Kept()
    assert await kept.store.take_over() is None
    assert kept.client.calls == []


async def test_cursor_that_rests_is_found_in_its_node_which_is_written_again() -> None:
    kept = Kept()
    await kept.create(at(5), {"filter": "a"})
    following = Kept(kept.client)
    assert await following.store.take_over() == at(5)
    assert kept.client.calls == ["node create", "node set"]
    with pytest.raises(ManagedLedgerFencedError):
        await kept.store.write(at(6))


async def test_next_owner_reads_the_last_state_stops_the_former_and_deletes_its_ledger() -> None:
    kept = await Kept().begun()
    await kept.store.write(at(2))
    kept.client.failing.calls.clear()
    following = Kept(kept.client)
    assert await following.store.take_over() == at(2)
    assert kept.client.calls == ["open 1", "node set", "delete 1"]
    assert kept.node == CursorNode(IN_NODE, at(2), (("filter", "a"),))
    with pytest.raises(ManagedLedgerFencedError):
        await kept.store.write(at(3))
    assert kept.ledgers == []


@pytest.mark.parametrize("ledger", ["empty", "gone"])
async def test_without_a_state_in_the_ledger_that_of_the_node_counts(ledger: str) -> None:
    kept = await Kept().begun()
    if ledger == "empty":
        kept.client.ledgers[1].entries.clear()
    else:
        del kept.client.ledgers[1]
    following = Kept(kept.client)
    assert await following.store.take_over() == at(1)
    assert (kept.node.ledger_id, kept.ledgers) == (IN_NODE, [])


async def test_state_that_does_not_fit_into_the_node_stays_in_its_ledger() -> None:
    kept = await Kept().begun()
    await kept.store.write(at(2, ranges=2))
    following = Kept(kept.client, max_ranges_in_node=1)
    kept.client.failing.calls.clear()
    assert await following.store.take_over() == at(2, ranges=2)
    # The node is written anyway, so that the former owner can no longer switch to a new ledger.
    assert kept.client.calls == ["open 1", "node set"]
    assert (kept.node.ledger_id, kept.ledgers) == (1, [1])
    await following.store.write(at(3))
    assert (kept.node.ledger_id, kept.ledgers) == (2, [2])


async def test_former_owner_that_moves_on_during_the_takeover_is_followed() -> None:
    kept = await Kept(max_entries_per_cursor_ledger=1).begun()
    following = Kept(kept.client)

    async def former_owner_moves() -> None:
        kept.client.store.before_next_set = None
        await kept.store.write(at(7))

    kept.client.store.before_next_set = former_owner_moves
    assert await following.store.take_over() == at(7)
    assert (kept.node, kept.ledgers) == (CursorNode(IN_NODE, at(7), (("filter", "a"),)), [])


async def test_damaged_cursor_is_reported_and_left_as_it_is() -> None:
    kept = await Kept().begun()
    kept.client.ledgers[1].entries.append(b"\xff")
    kept.client.failing.calls.clear()
    with pytest.raises(DamagedNodeError):
        await Kept(kept.client).store.take_over()
    assert (kept.client.calls, kept.ledgers) == (["open 1"], [1])
    assert encode_position(at(1)) == kept.client.ledgers[1].entries[:1]


# States that are too large for a node, for one entry, or for several

LARGE_BATCH = int("10" * 32_768, 2)
"""The bit set of a batch of 65,536 messages of which every second one is unacknowledged."""


def partly_acknowledged(batches: int) -> CursorState:
    return CursorState((3, 0), (), tuple(((3, 10 + n), LARGE_BATCH) for n in range(batches)))


@pytest.mark.promise(
    "Cursors of any size are stored, and no ledger is trimmed beyond the stored position"
)
async def test_state_of_few_but_large_batches_stays_in_the_ledger_and_is_recovered() -> None:
    state = partly_acknowledged(120)
    kept = await Kept().begun()
    await kept.store.close(state)
    assert kept.node.ledger_id == 1
    for _ in range(2):
        following = Kept(kept.client)
        assert await following.store.take_over() == state
        await following.store.close(state)
    assert len(kept.ledgers) == 1


async def test_state_larger_than_an_entry_takes_several_and_is_recovered_whole() -> None:
    state = replace(partly_acknowledged(1000), ranges=at(0, ranges=1000).ranges)
    kept = await Kept().begun()
    await kept.store.write(state)
    parts = kept.states(1)[1:]
    assert len(parts) == 3
    assert await Kept(kept.client).store.take_over() == state
    # Pulsar's broker reads only the last entry, which contains the lowest ranges and batches.
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
        found = await Kept(kept.client, max_ranges_in_node=1).store.take_over()
        assert found is not None
        assert (found.mark_delete, found.ranges) == (state.mark_delete, ())
        assert set(found.batches) < set(state.batches)


async def test_what_does_not_fit_into_four_entries_is_not_stored_from_the_highest_on() -> None:
    state = partly_acknowledged(2000)
    kept = await Kept().begun()
    await kept.store.write(state)
    found = await Kept(kept.client).store.take_over()
    assert found is not None
    assert found.batches == state.batches[: len(found.batches)]
    assert 1500 < len(found.batches) < 2000


async def test_state_in_a_node_that_is_too_large_for_labkit_moves_to_a_ledger() -> None:
    kept = Kept(max_ranges_in_node=1)
    await kept.create(at(0), {})
    kept.somebody_writes(CursorNode(IN_NODE, at(2, ranges=2)))
    assert await kept.store.take_over() == at(2, ranges=2)
    assert (kept.node.ledger_id, kept.states(1)) == (1, [at(2, ranges=2)])


async def test_ledger_that_the_node_cannot_name_is_deleted_at_once() -> None:
    kept = Kept()
    await kept.create(at(0), {})
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
    assert await Kept(kept.client).store.take_over() == state
    # If the ledger is missing, the cursor starts at the first entry and needs no marks.
    del kept.client.ledgers[kept.node.ledger_id]
    assert await Kept(kept.client).store.take_over() == CursorState(NOWHERE)


async def test_properties_that_leave_no_room_in_the_node_are_rejected_at_the_creation() -> None:
    kept = Kept()
    with pytest.raises(NodeTooLargeError, match=r"cursor s of public/default.* at most 524288"):
        await kept.create(at(0), {"filter": "x" * MAX_CURSOR_PROPERTIES_BYTES})
    assert kept.client.calls == []
