"""Tests for a node with a single owner when responses may be lost."""

import asyncio
from unittest.mock import patch

import pytest

from labkit.system.metadata.store import MetadataUnavailableError, NodeExistsError
from labkit.system.topic.chain.guarded_node import GuardedNode, ManagedLedgerFencedError
from tests.system.metadata.lossy_store import LossyStore

NO_RESPONSE = MetadataUnavailableError("the metadata store is not responding")


@pytest.fixture
def store() -> LossyStore:
    return LossyStore()


def node(store: LossyStore) -> GuardedNode:
    return GuardedNode(store, "/chain", "the chain of t")


async def test_of_two_owners_the_one_that_reads_last_goes_on(store: LossyStore) -> None:
    old, new = node(store), node(store)
    assert not await old.read()
    await old.write(b"1")
    await old.write(b"2")
    assert await new.read()
    await new.write(b"3")
    for _ in range(2):
        with pytest.raises(ManagedLedgerFencedError, match="changed the chain of t: open the"):
            await old.write(b"4")
    with pytest.raises(ManagedLedgerFencedError):
        await old.delete()
    await new.write(b"5")
    assert store.tree.get("/chain", None)[0] == new.data == b"5"


async def test_of_two_owners_that_create_the_node_one_goes_on(store: LossyStore) -> None:
    one, other = node(store), node(store)
    await one.read()
    await other.read()
    await one.write(b"1")
    with pytest.raises(ManagedLedgerFencedError):
        await other.write(b"2")


async def loses(store: LossyStore, lost: str, owner: GuardedNode, data: bytes) -> None:
    """Let the owner write, lose the request or the response, and let the next read fail."""
    store.lose = [lost]
    with (
        patch.object(store, "get", side_effect=NO_RESPONSE),
        pytest.raises(MetadataUnavailableError),
    ):
        await owner.write(data)


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_owner_whose_response_was_lost_goes_on_or_deletes_the_node(
    store: LossyStore, begun: bool, lost: str
) -> None:
    for deletes in (False, True):
        owner = node(store)
        await owner.read()
        if begun:
            await owner.write(b"0")
        await loses(store, lost, owner, b"1")
        if not deletes:
            await owner.write(b"2")
            assert store.tree.get("/chain", None)[0] == b"2"
        await owner.delete()
        assert not store.tree.exists("/chain", None)
        # The owner creates the node again.
        await owner.write(b"2")
        assert store.tree.get("/chain", None) == (b"2", 0)
        await owner.delete()


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_owner_survives_one_lost_message(store: LossyStore, begun: bool, lost: str) -> None:
    owner = node(store)
    if begun:
        await owner.write(b"0")
    store.lose = [lost]
    await owner.write(b"1")
    assert owner.data == store.tree.get("/chain", None)[0] == b"1"
    await owner.write(b"2")
    assert store.tree.get("/chain", None)[0] == b"2"


@pytest.mark.parametrize("deletes", [False, True])
async def test_owner_continues_after_a_cancelled_change(store: LossyStore, deletes: bool) -> None:
    owner = node(store)
    await owner.write(b"0")
    store.lose = ["caller"]
    with pytest.raises(asyncio.CancelledError):
        await (owner.delete() if deletes else owner.write(b"1"))
    await owner.write(b"2")
    assert store.tree.get("/chain", None)[0] == b"2"


async def test_node_below_another_is_created_only_by_the_owner_of_both(store: LossyStore) -> None:
    old, new = node(store), node(store)
    await old.write(b"0")
    await new.read()
    await new.write(b"1")
    late = GuardedNode(store, "/chain/s", "cursor s", old)
    for create in (late.create, late.write, late.create):
        with pytest.raises(ManagedLedgerFencedError, match="changed the chain of t"):
            await create(b"late")
    assert store.tree.children("/chain", None) == []
    await GuardedNode(store, "/chain/s", "cursor s", new).create(b"s")
    with pytest.raises(NodeExistsError):
        await GuardedNode(store, "/chain/s", "cursor s", new).create(b"again")
    assert store.tree.get("/chain/s", None)[0] == b"s"


@pytest.mark.parametrize("deletes", [False, True])
@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_owner_whose_response_was_lost_is_fenced_if_another_wrote_since(
    store: LossyStore, lost: str, deletes: bool
) -> None:
    owner, other = node(store), node(store)
    await owner.write(b"0")
    await loses(store, lost, owner, b"1")
    await other.read()
    await other.write(b"2")
    for _ in range(2):
        with pytest.raises(ManagedLedgerFencedError):
            await (owner.delete() if deletes else owner.write(b"3"))
    assert store.tree.get("/chain", None)[0] == b"2"


async def test_owner_is_fenced_when_the_node_was_taken_away(store: LossyStore) -> None:
    owner, other = node(store), node(store)
    await owner.read()
    await owner.write(b"0")
    await other.read()
    await other.delete()
    with pytest.raises(ManagedLedgerFencedError):
        await owner.write(b"1")


async def test_deletion_whose_response_was_lost_may_be_repeated(store: LossyStore) -> None:
    owner = node(store)
    await owner.read()
    await owner.write(b"0")
    store.lose = ["answer"]
    with pytest.raises(MetadataUnavailableError):
        await owner.delete()
    await owner.delete()
    assert not await owner.read()


@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_a_write_after_an_unknown_deletion_stores_it(store: LossyStore, lost: str) -> None:
    owner = node(store)
    await owner.write(b"0")
    store.lose = [lost]
    with pytest.raises(MetadataUnavailableError):
        await owner.delete()
    await owner.write(b"1")
    assert store.tree.get("/chain", None)[0] == b"1"


async def test_node_that_was_not_read_yet_is_taken_for_missing(store: LossyStore) -> None:
    first, second = node(store), node(store)
    assert first.data == b""
    await first.write(b"1")
    with pytest.raises(ManagedLedgerFencedError):
        await second.write(b"2")
    await node(store).delete()
    assert store.tree.get("/chain", None)[0] == b"1"


async def test_owner_knows_the_nodes_content_by_what_was_surely_written(store: LossyStore) -> None:
    owner = node(store)
    await owner.write(b"1")
    assert owner.data == b"1"
    await loses(store, "request", owner, b"2")
    assert owner.data == b"1"
    assert await owner.read()
    await loses(store, "answer", owner, b"2")
    assert owner.data == b"1"
    assert await owner.read()
    assert owner.data == b"2"
    await owner.delete()
    assert owner.data == b""
    assert not await owner.read()


async def test_read_makes_an_overtaken_owner_the_one_that_goes_on(store: LossyStore) -> None:
    one, other = node(store), node(store)
    await one.write(b"0")
    await loses(store, "answer", one, b"1")
    await other.read()
    await other.write(b"2")
    # The outcome of the write whose response was lost no longer matters.
    assert await one.read()
    await one.write(b"3")
    with pytest.raises(ManagedLedgerFencedError):
        await other.write(b"4")


async def test_node_that_cannot_be_read_is_not_taken_for_missing(store: LossyStore) -> None:
    owner = node(store)
    await owner.write(b"0")
    with (
        patch.object(store, "get", side_effect=NO_RESPONSE),
        pytest.raises(MetadataUnavailableError),
    ):
        await owner.read()
    assert owner.data == b"0"
    await owner.write(b"1")


async def test_owner_that_writes_its_content_again_does_not_undo_a_change_in_progress() -> None:
    class SlowStore(LossyStore):
        async def set(self, path: str, data: bytes, version: int) -> int:
            await asyncio.sleep(0)
            return await super().set(path, data, version)

    store = SlowStore()
    owner = node(store)
    await owner.read()
    await owner.write(b"one ledger")
    change = asyncio.create_task(owner.write(b"two ledgers"))
    await asyncio.sleep(0)
    await asyncio.gather(change, owner.rewrite())
    assert store.tree.get("/chain", None)[0] == owner.data == b"two ledgers"


async def test_owner_that_writes_its_content_again_notices_another_owner(store: LossyStore) -> None:
    old, new = node(store), node(store)
    await old.read()
    await old.write(b"1")
    await new.read()
    await new.write(b"1")
    with pytest.raises(ManagedLedgerFencedError):
        await old.rewrite()


@pytest.mark.parametrize("before", [b"0", b"closed"])
@pytest.mark.parametrize("lost", ["request", "answer"])
async def test_owner_whose_response_was_lost_is_fenced_if_the_next_owner_wrote_the_same_bytes(
    store: LossyStore, lost: str, before: bytes
) -> None:
    """The next owner of a closed or terminated chain stores the same bytes when it takes over."""
    owner, other = node(store), node(store)
    await owner.write(before)
    await loses(store, lost, owner, b"closed")
    await other.read()
    await other.write(b"closed")
    await other.write(b"closed")
    cursor = GuardedNode(store, "/chain/s", "cursor s", owner)
    for change in (lambda: cursor.create(b"s"), owner.rewrite, lambda: owner.write(b"1")):
        with pytest.raises(ManagedLedgerFencedError):
            await change()
    await other.write(b"2")
    assert store.tree.children("/chain", None) == []
