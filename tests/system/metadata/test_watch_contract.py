"""The part of the `MetadataStore` port's contract that is about watches and lost sessions.

A rule is a function; it is held against both worlds.  The server of the live world is shared, so
each rule has separate paths.
"""

import asyncio

import pytest

from labkit.system.metadata.store import (
    NoNodeError,
)
from labkit.worlds.live.zookeeper.server import EmbeddedZooKeeper
from tests.system.metadata.worlds import Rule, Watch, World, answered, hold_live, hold_simulated

RULES: list[Rule] = []


def rule(function: Rule) -> Rule:
    RULES.append(function)
    return function


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
async def watch_on_data_is_told_that_the_node_goes(world: World) -> None:
    store = await world.session("a")
    await store.create("/goes", b"")
    by_get, by_exists = Watch(), Watch()
    await store.get("/goes", by_get)
    assert await store.exists("/goes", by_exists)
    await store.delete("/goes")
    assert not await store.exists("/goes")
    assert (by_get.calls, by_exists.calls) == (1, 1)


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
async def watch_on_data_is_not_told_of_children(world: World) -> None:
    store = await world.session("a")
    await store.create("/above", b"")
    watch = Watch()
    await store.get("/above", watch)
    await store.create("/above/child", b"")
    await store.delete("/above/child")
    assert watch.calls == 0


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
async def watch_on_children_is_told_that_the_node_itself_goes(world: World) -> None:
    store = await world.session("a")
    await store.create("/childless", b"")
    watch = Watch()
    assert await store.children("/childless", watch) == []
    await store.delete("/childless")
    await watch.told()
    assert watch.calls == 1


@rule
async def watch_on_children_is_not_told_of_data(world: World) -> None:
    store = await world.session("a")
    await store.create("/steady/child", b"")
    watch = Watch()
    await store.children("/steady", watch)
    await store.set("/steady", b"1", 0)
    await store.set("/steady/child", b"1", 0)
    await store.create("/steady/child/grandchild", b"")
    assert await store.children("/steady") == ["child"]
    assert watch.calls == 0


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
async def silence_is_told_once_and_before_the_answer_that_ends_it(world: World) -> None:
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


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
@pytest.mark.asyncio(loop_scope="session")
async def test_zookeeper(rule: Rule, zookeeper: EmbeddedZooKeeper) -> None:
    await hold_live(rule, zookeeper)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.__name__)
def test_simulated_zookeeper(rule: Rule) -> None:
    hold_simulated(rule)
