"""The contract of the `MetadataStore` port, on a real ZooKeeper and on the simulated one.

A rule is a function; it is held against both worlds.  The server of the live world is shared, so
each rule has separate paths.
"""

import asyncio
from contextlib import suppress

import pytest

from labkit.system.metadata.store import (
    LARGEST_NODE,
    BadVersionError,
    MetadataStore,
    MetadataUnavailableError,
    NodeExistsError,
    NodeTooLargeError,
    NoNodeError,
    NotEmptyError,
)
from labkit.worlds.live.zookeeper.server import EmbeddedZooKeeper
from tests.system.metadata.worlds import Rule, Watch, World, hold_live, hold_simulated

RULES: list[Rule] = []


def rule(function: Rule) -> Rule:
    RULES.append(function)
    return function


@rule
async def created_node_has_its_data_and_version_0(world: World) -> None:
    store = await world.session("a")
    assert await store.create("/made/node", b"\x00\xff") == "/made/node"
    assert await store.get("/made/node") == (b"\x00\xff", 0)


@rule
async def node_that_is_too_large_is_refused_and_the_session_goes_on(world: World) -> None:
    store = await world.session("a")
    await store.create("/large/alive", b"", ephemeral=True)
    most = LARGEST_NODE - len("/large/node")
    with pytest.raises(NodeTooLargeError, match="at most 1000000 fit"):
        await store.create("/large/node", bytes(most + 1))
    await store.create("/large/node", bytes(most))
    with pytest.raises(NodeTooLargeError, match="at most 1000000 fit"):
        await store.set("/large/node", bytes(most + 1), 0)
    assert await store.set("/large/node", b"", 0) == 1
    assert await store.exists("/large/alive")


@rule
async def create_makes_missing_parents_with_no_data(world: World) -> None:
    store = await world.session("a")
    await store.create("/parents/a/b/c", b"leaf")
    assert await store.get("/parents/a/b") == (b"", 0)
    assert await store.children("/parents/a/b") == ["c"]


@rule
async def create_makes_parents_although_somebody_removes_them(world: World) -> None:
    one, other = await world.session("a"), await world.session("b")

    async def come_and_go(store: MetadataStore, name: str) -> None:
        for _ in range(200):
            await store.create(f"/busy/x/y/{name}", b"")
            await store.delete(f"/busy/x/y/{name}")
            with suppress(NotEmptyError, NoNodeError):
                for parent in ("/busy/x/y", "/busy/x", "/busy"):
                    await store.delete(parent)

    await asyncio.gather(come_and_go(one, "1"), come_and_go(other, "2"))


@rule
async def node_that_exists_is_not_created_again(world: World) -> None:
    store = await world.session("a")
    await store.create("/once", b"first")
    with pytest.raises(NodeExistsError, match="/once"):
        await store.create("/once", b"second")
    assert await store.get("/once") == (b"first", 0)


@rule
async def set_moves_the_version_by_one(world: World) -> None:
    store = await world.session("a")
    await store.create("/versions", b"0")
    assert await store.set("/versions", b"1", 0) == 1
    assert await store.set("/versions", b"2", 1) == 2
    assert await store.get("/versions") == (b"2", 2)


@rule
async def set_with_an_old_version_changes_nothing(world: World) -> None:
    store = await world.session("a")
    await store.create("/cas", b"0")
    await store.set("/cas", b"mine", 0)
    with pytest.raises(BadVersionError, match="/cas"):
        await store.set("/cas", b"late", 0)
    assert await store.get("/cas") == (b"mine", 1)


@rule
async def of_two_sets_with_the_same_version_one_wins(world: World) -> None:
    one, other = await world.session("a"), await world.session("b")
    await one.create("/race", b"")
    sets = (one.set("/race", b"one", 0), other.set("/race", b"other", 0))
    results = await asyncio.gather(*sets, return_exceptions=True)
    assert [type(result) for result in results if result != 1] == [BadVersionError]
    winner = b"one" if results[0] == 1 else b"other"
    assert await one.get("/race") == (winner, 1)


@rule
async def node_that_is_missing_is_named(world: World) -> None:
    store = await world.session("a")
    for call in (
        store.get("/missing"),
        store.set("/missing", b"", 0),
        store.delete("/missing"),
        store.children("/missing"),
    ):
        with pytest.raises(NoNodeError, match="/missing"):
            await call
    assert not await store.exists("/missing")


@rule
async def delete_with_an_old_version_removes_nothing(world: World) -> None:
    store = await world.session("a")
    await store.create("/kept", b"")
    await store.set("/kept", b"", 0)
    with pytest.raises(BadVersionError, match="/kept"):
        await store.delete("/kept", 0)
    await store.delete("/kept", 1)
    assert not await store.exists("/kept")


@rule
async def node_with_children_is_not_deleted(world: World) -> None:
    store = await world.session("a")
    await store.create("/folder/node", b"")
    with pytest.raises(NotEmptyError, match="/folder"):
        await store.delete("/folder")
    await store.delete("/folder/node")
    await store.delete("/folder")
    assert not await store.exists("/folder")


@rule
async def deleted_node_can_be_created_anew_with_version_0(world: World) -> None:
    store = await world.session("a")
    await store.create("/again", b"1")
    await store.set("/again", b"2", 0)
    await store.delete("/again")
    await store.create("/again", b"3")
    assert await store.get("/again") == (b"3", 0)


@rule
async def children_are_sorted_names(world: World) -> None:
    store = await world.session("a")
    for name in ("b", "a", "c"):
        await store.create(f"/names/{name}", b"")
    assert await store.children("/names") == ["a", "b", "c"]


@rule
async def reads_after_a_sync_see_what_another_session_did_before_it(world: World) -> None:
    one, other = await world.session("a"), await world.session("b")
    await one.create("/seen/first", b"")
    for number in range(10):
        await one.create(f"/seen/{number}", b"")
        await other.sync()
        assert len(await other.children("/seen")) == number + 2


@rule
async def sequential_nodes_get_growing_numbers_of_ten_digits(world: World) -> None:
    one, other = await world.session("a"), await world.session("b")
    paths = [
        await session.create("/queue/ID-", b"", ephemeral=True, sequential=True)
        for session in (one, other, one)
    ]
    assert [path[: -len("0000000000")] for path in paths] == ["/queue/ID-"] * 3
    numbers = [int(path[-10:]) for path in paths]
    assert numbers == sorted(set(numbers))


@rule
async def number_of_a_deleted_sequential_node_does_not_come_again(world: World) -> None:
    store = await world.session("a")
    seen: list[str] = []
    for _ in range(3):
        seen.append(await store.create("/used/ID-", b"", ephemeral=True, sequential=True))
        await store.delete(seen[-1])
    assert seen == sorted(set(seen))


@rule
async def ephemeral_node_ends_with_its_session(world: World) -> None:
    owner, other = await world.session("a"), await world.session("b")
    await owner.create("/alive/me", b"", ephemeral=True)
    gone = Watch()
    assert await other.exists("/alive/me", gone)
    await world.end("a")
    await gone.told()
    assert await other.children("/alive") == []


@rule
async def session_that_was_ended_answers_that_it_is_unavailable(world: World) -> None:
    store = await world.session("a")
    await world.end("a")
    with pytest.raises(MetadataUnavailableError):
        await store.get("/")


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.asyncio(loop_scope="session")
async def test_zookeeper(rule: Rule, zookeeper: EmbeddedZooKeeper) -> None:
    await hold_live(rule, zookeeper)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_simulated_zookeeper(rule: Rule) -> None:
    hold_simulated(rule)
