"""The contract of the `MetadataStore` port, tested on a real and on a simulated ZooKeeper.

Each rule is a function that is run in both worlds. Rules use separate paths, because they share the
real server.
"""

import asyncio
from contextlib import suppress

import pytest

from labkit.system.metadata.store import (
    MAX_NODE_BYTES,
    BadVersionError,
    MetadataStore,
    MetadataUnavailableError,
    NodeExistsError,
    NodeTooLargeError,
    NoNodeError,
    NotEmptyError,
)
from labkit.worlds.live.zookeeper.server import EmbeddedZooKeeper
from tests.system.metadata.worlds import Rule, Watch, World, answered, hold_live, hold_simulated

RULES: list[Rule] = []


def rule(function: Rule) -> Rule:
    RULES.append(function)
    return function


@rule
async def node_is_created_once_with_its_data_and_missing_parents(world: World) -> None:
    store = await world.session("a")
    assert await store.create("/made/a/b/node", b"\x00\xff") == "/made/a/b/node"
    with pytest.raises(NodeExistsError, match="/made/a/b/node"):
        await store.create("/made/a/b/node", b"second")
    assert await store.get("/made/a/b/node") == (b"\x00\xff", 0)
    assert await store.get("/made/a/b") == (b"", 0)
    assert await store.children("/made/a/b") == ["node"]


@rule
async def node_that_is_too_large_is_rejected_and_the_session_goes_on(world: World) -> None:
    store = await world.session("a")
    await store.create("/large/alive", b"", ephemeral=True)
    most = MAX_NODE_BYTES - len("/large/node")
    with pytest.raises(NodeTooLargeError, match="the path, is 1000000 bytes"):
        await store.create("/large/node", bytes(most + 1))
    await store.create("/large/node", bytes(most))
    with pytest.raises(NodeTooLargeError, match="the path, is 1000000 bytes"):
        await store.set("/large/node", bytes(most + 1), 0)
    assert await store.set("/large/node", b"", 0) == 1
    assert await store.exists("/large/alive")


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
async def child_is_created_only_below_a_parent_that_has_the_expected_version(world: World) -> None:
    store = await world.session("a")
    await store.create("/parent", b"")
    await store.create_child("/parent/first", b"1", 0)
    await store.set("/parent", b"", 0)
    with pytest.raises(BadVersionError, match="/parent"):
        await store.create_child("/parent/late", b"", 0)
    with pytest.raises(NodeExistsError, match="/parent/first"):
        await store.create_child("/parent/first", b"2", 1)
    with pytest.raises(NoNodeError, match="/no-parent"):
        await store.create_child("/no-parent/child", b"", 0)
    with pytest.raises(NodeTooLargeError):
        await store.create_child("/parent/large", bytes(MAX_NODE_BYTES), 1)
    assert await store.children("/parent") == ["first"]
    assert await store.get("/parent/first") == (b"1", 0)
    assert not await store.exists("/no-parent")


@rule
async def set_needs_the_current_version_and_moves_it_by_one(world: World) -> None:
    store = await world.session("a")
    await store.create("/versions", b"0")
    assert await store.set("/versions", b"1", 0) == 1
    with pytest.raises(BadVersionError, match="/versions"):
        await store.set("/versions", b"late", 0)
    assert await store.set("/versions", b"2", 1) == 2
    assert await store.get("/versions") == (b"2", 2)


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
async def delete_needs_the_current_version_and_no_children(world: World) -> None:
    store = await world.session("a")
    await store.create("/folder/node", b"1")
    await store.set("/folder/node", b"2", 0)
    with pytest.raises(BadVersionError, match="/folder/node"):
        await store.delete("/folder/node", 0)
    with pytest.raises(NotEmptyError, match="/folder"):
        await store.delete("/folder")
    await store.delete("/folder/node", 1)
    assert not await store.exists("/folder/node")
    await store.create("/folder/node", b"3")
    assert await store.get("/folder/node") == (b"3", 0)
    await store.delete("/folder/node")
    await store.delete("/folder")
    assert not await store.exists("/folder")


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
async def sequential_nodes_get_growing_numbers_that_are_not_reused(world: World) -> None:
    one, other = await world.session("a"), await world.session("b")
    paths: list[str] = []
    for session in (one, other, one):
        paths.append(await session.create("/queue/ID-", b"", ephemeral=True, sequential=True))
        if session is other:
            await session.delete(paths[-1])
    assert [path[: -len("0000000000")] for path in paths] == ["/queue/ID-"] * 3
    numbers = [int(path[-10:]) for path in paths]
    assert numbers == sorted(set(numbers))


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
async def session_that_was_ended_responds_that_it_is_unavailable(world: World) -> None:
    store = await world.session("a")
    await world.end("a")
    with pytest.raises(MetadataUnavailableError):
        await store.get("/")


# Watches and lost sessions


@rule
async def watch_on_data_is_told_once_of_a_change(world: World) -> None:
    one, other = await world.session("a"), await world.session("b")
    await one.create("/data/node", b"0")
    watch = Watch()
    await one.get("/data/node", watch)
    await other.set("/data/node", b"1", 0)
    await other.set("/data/node", b"2", 1)
    assert await one.get("/data/node") == (b"2", 2)
    assert watch.calls == 1


@rule
async def watch_is_told_before_the_new_data_can_be_seen(world: World) -> None:
    one, other = await world.session("a"), await world.session("b")
    await one.create("/before", b"")
    for version in range(100):
        watch = Watch()
        await one.get("/before", watch)
        await other.set("/before", b"new", version)
        assert await one.get("/before") == (b"new", version + 1)
        assert watch.calls == 1


@rule
async def every_watch_is_told_that_the_node_is_deleted(world: World) -> None:
    store = await world.session("a")
    await store.create("/goes", b"")
    by_get, by_exists, by_children = Watch(), Watch(), Watch()
    await store.get("/goes", by_get)
    assert await store.exists("/goes", by_exists)
    assert await store.children("/goes", by_children) == []
    await store.delete("/goes")
    assert not await store.exists("/goes")
    assert (by_get.calls, by_exists.calls, by_children.calls) == (1, 1, 1)


@rule
async def watch_on_a_missing_node_is_told_that_it_comes(world: World) -> None:
    one, other = await world.session("a"), await world.session("b")
    watch = Watch()
    assert not await one.exists("/comes/node", watch)
    await other.create("/comes/node", b"")
    await watch.told()
    await other.delete("/comes/node")
    assert not await one.exists("/comes/node")
    assert watch.calls == 1


@rule
async def watch_on_children_is_told_of_each_that_comes_or_goes(world: World) -> None:
    one, other = await world.session("a"), await world.session("b")
    await one.create("/children/old", b"")
    for change in (
        lambda: other.create("/children/new", b""),
        lambda: other.delete("/children/old"),
    ):
        watch = Watch()
        await one.children("/children", watch)
        await change()
        await watch.told()
    assert await one.children("/children") == ["new"]


@rule
async def watches_on_data_and_on_children_are_separate(world: World) -> None:
    store = await world.session("a")
    await store.create("/steady/child", b"")
    on_data, on_children = Watch(), Watch()
    await store.get("/steady", on_data)
    await store.create("/steady/other", b"")
    await store.delete("/steady/other")
    assert await store.children("/steady", on_children) == ["child"]
    assert on_data.calls == 0
    await store.set("/steady", b"1", 0)
    await store.set("/steady/child", b"1", 0)
    await store.create("/steady/child/grandchild", b"")
    assert await store.children("/steady") == ["child"]
    assert on_children.calls == 0


@rule
async def nothing_is_watched_where_there_is_no_node(world: World) -> None:
    store = await world.session("a")
    watch = Watch()
    for ask in (store.get, store.children):
        with pytest.raises(NoNodeError):
            await ask("/nowhere", watch)
    await store.create("/nowhere/child", b"")
    await store.set("/nowhere", b"1", 0)
    assert watch.calls == 0


@rule
async def watches_are_told_apart(world: World) -> None:
    store = await world.session("a")
    await store.create("/many", b"")
    watches = [Watch() for _ in range(3)]
    for watch in watches:
        await store.get("/many", watch)
    await store.set("/many", b"1", 0)
    assert await store.get("/many") == (b"1", 1)
    assert [watch.calls for watch in watches] == [1, 1, 1]


@rule
async def lost_session_takes_its_nodes_and_tells_its_watches(world: World) -> None:
    store, other = await world.session("a"), await world.session("b")
    await store.create("/lost/me", b"", ephemeral=True)
    await store.create("/lost/stays", b"")
    renewed, watch, gone = Watch(), Watch(), Watch()
    store.on_new_session(renewed)
    await store.get("/lost/stays", watch)
    await other.exists("/lost/me", gone)
    await world.expire("a")
    await gone.told()
    await renewed.told()
    await watch.told()
    assert await answered(lambda: store.children("/lost")) == ["stays"]
    await store.set("/lost/stays", b"1", 0)
    assert await store.get("/lost/stays") == (b"1", 1)
    assert (renewed.calls, watch.calls) == (1, 1)


@rule
async def each_lost_session_is_told(world: World) -> None:
    store = await world.session("a")
    for _ in range(2):
        renewed = Watch()
        store.on_new_session(renewed)
        await world.expire("a")
        await renewed.told()
        assert await answered(lambda: store.exists("/twice")) is False


@rule
async def lost_connection_keeps_the_session(world: World) -> None:
    store, other = await world.session("a"), await world.session("b")
    await store.create("/kept-alive/me", b"", ephemeral=True)
    renewed = Watch()
    store.on_new_session(renewed)
    for _ in range(3):
        world.break_connection("a")
        assert await answered(lambda: store.children("/kept-alive")) == ["me"]
    assert await other.children("/kept-alive") == ["me"]
    assert renewed.calls == 0


@rule
async def change_after_a_lost_connection_does_not_go_untold(world: World) -> None:
    store, other = await world.session("a"), await world.session("b")
    await other.create("/untold", b"0")
    watch = Watch()
    await store.get("/untold", watch)
    world.break_connection("a")
    assert await answered(lambda: store.exists("/untold"))
    await other.set("/untold", b"1", 0)
    await watch.told()
    assert await answered(lambda: store.get("/untold")) == (b"1", 1)
    assert watch.calls == 1


@rule
async def change_during_a_lost_connection_does_not_go_untold(world: World) -> None:
    store, other = await world.session("a"), await world.session("b")
    await other.create("/meanwhile/node", b"")
    watch = Watch()
    await store.children("/meanwhile", watch)
    world.break_connection("a")
    await other.delete("/meanwhile/node")
    await watch.told()
    assert await answered(lambda: store.children("/meanwhile")) == []
    assert watch.calls == 1


@rule
async def silence_is_told_once_and_before_the_response_that_ends_it(world: World) -> None:
    store = await world.session("a")
    await store.create("/silent", b"")
    told: list[str] = []
    store.on_silence(lambda: told.append("silence"))
    await store.exists("/silent")
    await world.hang()
    await asyncio.sleep(0.75 * store.session_timeout_s)
    assert told == []
    world.thaw()
    assert await answered(lambda: store.exists("/silent"))
    told.append("answer")
    await asyncio.sleep(0.75 * store.session_timeout_s)
    assert told == ["silence", "answer"]


@pytest.mark.core
@pytest.mark.promise(
    "Both worlds have the same metadata store, whose watches report each change once and survive "
    "lost connections and sessions"
)
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.asyncio(loop_scope="session")
async def test_zookeeper(rule: Rule, zookeeper: EmbeddedZooKeeper) -> None:
    await hold_live(rule, zookeeper)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_simulated_zookeeper(rule: Rule) -> None:
    hold_simulated(rule)
