"""Tests for all cursors of a chain, with a scripted client: creation, takeover and deletion."""

import pytest

from labkit.system.metadata.store import ANY_VERSION, MetadataUnavailableError
from labkit.system.model.errors import BKLedgerClosedException, BKReadException
from labkit.system.topic.chain.guarded_node import GuardedNode, ManagedLedgerFencedError
from labkit.system.topic.chain.ledger_chain import LedgerChain, LedgerInfo
from labkit.system.topic.config import ManagedLedgerConfig
from labkit.system.topic.cursors.acknowledged import CursorState
from labkit.system.topic.cursors.cursor import ManagedCursor, Start
from labkit.system.topic.cursors.formats import IN_NODE, CursorNode, encode_cursor_node
from labkit.system.topic.cursors.managed_cursors import ManagedCursors
from tests.system.topic.clients import PlayedClient

PATH = "/managed-ledgers/public/default/persistent/t"
DOWN = MetadataUnavailableError("it does not answer")


class Owner:
    """The cursors of one owner, on a chain of ten entries."""

    def __init__(self, client: PlayedClient | None = None) -> None:
        self.client = client or PlayedClient()
        chain = LedgerChain([LedgerInfo(3, 10, 1, 1)])
        self.chain_node = GuardedNode(self.client.store, PATH, "the chain of t")
        if not self.client.store.tree.exists(PATH, None):
            self.client.store.tree.create(PATH, b"", 0, False)
        self.cursors = ManagedCursors(
            PATH,
            chain,
            self.chain_node,
            self.client.real,
            ManagedLedgerConfig(),
            lambda _: None,
        )

    async def open(
        self, name: str, start: Start = "earliest", *, durable: bool = True
    ) -> ManagedCursor:
        await self.chain_node.read()
        return await self.cursors.open(name, start, durable, {"filter": name})

    @property
    def ends(self) -> dict[str, tuple[int, int]]:
        return {name: cursor.mark_delete for name, cursor in self.cursors.by_name.items()}

    def nodes(self) -> list[str]:
        return self.client.store.tree.children(PATH, None)


# Creation


async def test_cursor_is_made_once_and_is_the_same_for_all_who_ask() -> None:
    owner = Owner()
    cursor = await owner.open("s", (3, 4))
    assert await owner.open("s", "latest") is cursor
    assert owner.client.calls == ["node create"]
    assert (cursor.mark_delete, cursor.name) == ((3, 3), "s")
    assert dict(cursor.cursor_properties) == {"filter": "s"}


async def test_cursor_that_is_not_durable_has_neither_node_nor_properties() -> None:
    owner = Owner()
    cursor = await owner.open("reader", durable=False)
    assert (owner.client.calls, cursor.is_durable) == ([], False)
    assert dict(cursor.cursor_properties) == {}
    await owner.cursors.delete("reader")
    assert (owner.client.calls, owner.ends) == ([], {})


async def test_cursor_whose_creation_got_a_late_response_is_found_as_it_was_made() -> None:
    owner = Owner()
    owner.client.failing.fail("node create", DOWN)
    with pytest.raises(MetadataUnavailableError):
        await owner.open("s", (3, 4))
    assert owner.ends == {}
    node = encode_cursor_node(CursorNode(IN_NODE, CursorState((3, 5))))
    owner.client.store.tree.create(f"{PATH}/s", node, 0, False)  # In fact, it was created.
    assert (await owner.open("s", "latest")).mark_delete == (3, 5)


async def test_cursor_is_not_created_if_another_owner_takes_the_chain_over_meanwhile() -> None:
    owner = Owner()
    create_child = owner.client.store.create_child

    async def late(path: str, data: bytes, parent_version: int) -> None:
        owner.client.store.tree.set(PATH, b"taken over", ANY_VERSION)
        await create_child(path, data, parent_version)

    owner.client.store.create_child = late  # type: ignore[method-assign]
    with pytest.raises(ManagedLedgerFencedError, match="the chain of t"):
        await owner.open("s")
    assert (owner.ends, owner.nodes()) == ({}, [])


# Taking over


async def test_all_cursors_are_taken_over_by_their_names() -> None:
    former = Owner()
    await former.open("s", (3, 4))
    await former.open("a/b c", "latest")
    await former.open("reader", durable=False)
    owner = Owner(former.client)
    await owner.cursors.take_over()
    assert owner.ends == {"s": (3, 3), "a/b c": (3, 9)}
    assert dict(owner.cursors.by_name["s"].cursor_properties) == {"filter": "s"}


async def test_chain_that_was_never_there_has_no_cursors() -> None:
    owner = Owner()
    await owner.cursors.take_over()
    assert (owner.ends, owner.client.calls) == ({}, [])


async def test_cursor_that_cannot_be_recovered_ends_the_takeover() -> None:
    former = Owner()
    cursor = await former.open("s")
    cursor.acknowledge_up_to((3, 4))
    await cursor.flush()
    former.client.failing.fail("open", BKReadException("no bookie has it"))
    with pytest.raises(BKReadException):
        await Owner(former.client).cursors.take_over()


# The slowest cursor


async def test_slowest_durable_cursor_counts() -> None:
    owner = Owner()
    assert owner.cursors.slowest_durable is None
    await owner.open("reader", "earliest", durable=False)
    assert owner.cursors.slowest_durable is None
    await owner.open("fast", "latest")
    assert owner.cursors.slowest_durable == (3, 9)
    await owner.open("slow", (3, 2))
    assert owner.cursors.slowest_durable == (3, 1)
    await owner.cursors.delete("slow")
    assert owner.cursors.slowest_durable == (3, 9)


# Deletion and close


async def test_deleted_cursor_leaves_no_node_and_may_be_deleted_again() -> None:
    owner = Owner()
    await owner.open("s")
    await owner.open("other")
    for _ in range(2):
        await owner.cursors.delete("s")
    assert (list(owner.ends), owner.nodes()) == (["other"], ["other"])


async def test_cursor_that_cannot_be_deleted_now_is_still_known_and_may_be_deleted_later() -> None:
    owner = Owner()
    await owner.open("s")
    owner.client.failing.fail("node delete", DOWN)
    with pytest.raises(MetadataUnavailableError):
        await owner.cursors.delete("s")
    assert (list(owner.ends), owner.nodes()) == (["s"], ["s"])
    await owner.cursors.delete("s")
    assert (owner.ends, owner.nodes()) == ({}, [])


async def test_cursor_that_cannot_be_closed_keeps_no_other_from_it() -> None:
    owner = Owner()
    for cursor in [await owner.open(name) for name in ("a", "b")]:
        cursor.acknowledge_up_to((3, 4))
    owner.client.failing.fail("node set", DOWN, times=2)
    await owner.cursors.close(BKLedgerClosedException("the topic was closed"))
    following = Owner(owner.client)
    await following.cursors.take_over()
    # No entry is skipped; instead, the acknowledged entries are redelivered.
    assert following.ends == {"a": (3, -1), "b": (3, 4)}


async def test_stopped_cursors_all_say_why() -> None:
    owner = Owner()
    cursors = [await owner.open(name) for name in ("a", "b")]
    owner.cursors.stop(ManagedLedgerFencedError("another owner"))
    for cursor in cursors:
        cursor.acknowledge_up_to((3, 4))
        with pytest.raises(ManagedLedgerFencedError, match="another owner"):
            await cursor.flush()
    assert set(owner.client.calls) == {"node create"}
