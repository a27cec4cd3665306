"""Tests the guarantees of a session with the simulated ZooKeeper, especially if the network fails.

The contract that a session shares with a real ZooKeeper is tested in `tests/system/metadata`.
"""

import asyncio

import pytest

from labkit.system.metadata.store import MetadataUnavailableError
from tests.worlds.sim.metadata_world import MetadataWorld, in_metadata_world, run_metadata_world


@in_metadata_world()
async def test_ephemeral_nodes_outlive_a_crash_by_the_sessions_time_out(
    world: MetadataWorld,
) -> None:
    owner, other = await world.session("a"), await world.session("b")
    await owner.create("/alive/a", b"", ephemeral=True)
    gone = asyncio.Event()
    await other.exists("/alive/a", gone.set)
    begin = world.loop.now
    world.crash("a")
    await asyncio.sleep(1)
    assert await other.exists("/alive/a")
    await gone.wait()
    assert world.session_timeout_s - 1.5 <= world.loop.now - begin <= world.session_timeout_s


@in_metadata_world()
async def test_a_session_survives_a_short_cut(world: MetadataWorld) -> None:
    owner, other = await world.session("a"), await world.session("b")
    await owner.create("/alive/a", b"", ephemeral=True)
    world.cut("a")
    await asyncio.sleep(1)
    world.heal()
    await asyncio.sleep(10)
    assert await other.exists("/alive/a")


@in_metadata_world()
async def test_after_a_long_cut_the_node_learns_that_its_session_is_lost(
    world: MetadataWorld,
) -> None:
    owner, other = await world.session("a"), await world.session("b")
    await owner.create("/alive/a", b"", ephemeral=True)
    told: list[str] = []
    owner.on_new_session(lambda: told.append("new session"))
    await owner.exists("/other", lambda: told.append("watch"))
    world.cut("a")
    await asyncio.sleep(10)
    assert not await other.exists("/alive/a")
    assert told == []
    world.heal()
    await asyncio.sleep(5)
    assert told == ["watch", "new session"]
    await owner.create("/alive/a", b"", ephemeral=True)


@in_metadata_world()
async def test_a_watch_that_fires_during_a_cut_is_reported_after_it(world: MetadataWorld) -> None:
    one, other = await world.session("a"), await world.session("b")
    told: list[str] = []
    await one.exists("/x", lambda: told.append("changed"))
    world.network.reset("a", "zk")
    await other.create("/x", b"")
    await asyncio.sleep(1)
    assert told == ["changed"]


@in_metadata_world()
async def test_a_request_whose_connection_breaks_may_have_been_carried_out(
    world: MetadataWorld,
) -> None:
    store = await world.session("a")
    world.network.link("zk", "a").cut()
    creation = asyncio.ensure_future(store.create("/x", b""))
    await asyncio.sleep(0.01)
    world.network.reset("a", "zk")
    with pytest.raises(MetadataUnavailableError):
        await creation
    world.heal()
    assert await store.exists("/x")


@in_metadata_world(dict.fromkeys((f"copy a>zk {number}" for number in range(9)), 5.0))
async def test_a_request_that_the_network_copied_is_carried_out_once(world: MetadataWorld) -> None:
    store = await world.session("a")
    await store.create("/x", b"first", ephemeral=True)
    await store.delete("/x")
    await store.create("/x", b"second", ephemeral=True)
    assert await store.create("/ids/ID-", b"", sequential=True) == "/ids/ID-0000000000"
    await asyncio.sleep(1)
    assert await store.get("/x") == (b"second", 0)
    assert await store.children("/ids") == ["ID-0000000000"]


@in_metadata_world({"copy a>zk 1": 5.0})
async def test_a_copied_request_for_a_session_begins_no_other(world: MetadataWorld) -> None:
    new_sessions: list[str] = []
    store = await world.session("a")
    store.on_new_session(lambda: new_sessions.append("a"))
    await store.create("/x", b"", ephemeral=True)
    await asyncio.sleep(60)
    assert await store.exists("/x")
    assert not new_sessions


@in_metadata_world()
async def test_without_an_answer_a_request_ends_after_a_time(world: MetadataWorld) -> None:
    store = await world.session("a")
    world.cut("a")
    await asyncio.sleep(5)
    with pytest.raises(MetadataUnavailableError, match="within 15 s"):
        await store.get("/x")


@in_metadata_world()
async def test_an_expired_session_is_replaced(world: MetadataWorld) -> None:
    store = await world.session("a")
    await store.create("/alive/a", b"", ephemeral=True)
    renewed = asyncio.Event()
    store.on_new_session(renewed.set)
    world.zookeeper.expire("a")
    await renewed.wait()
    assert not await store.exists("/alive/a")
    assert ("session.lost", "a", "expired") in world.reports


@in_metadata_world()
async def test_what_waits_for_a_connection_is_not_carried_out_in_another_session(
    world: MetadataWorld,
) -> None:
    """A lock must be released in the session that acquired it, or not at all."""
    owner, other = await world.session("a"), await world.session("b")
    await owner.create("/lock", b"", ephemeral=True)
    world.cut("a")
    await asyncio.sleep(10)
    release = asyncio.ensure_future(owner.delete("/lock"))
    await other.create("/lock", b"", ephemeral=True)
    world.heal()
    with pytest.raises(MetadataUnavailableError, match="session was lost"):
        await release
    assert await other.exists("/lock")


@pytest.mark.parametrize(
    ("decisions", "hang_s", "survives"),
    [
        pytest.param({"expire a 1": 1}, 3, True, id="a hang shorter than a session"),
        pytest.param({}, 10, True, id="a long hang, heard first"),
        pytest.param({"expire a 1": 5}, 10, False, id="a long hang, expired first"),
    ],
)
def test_a_session_survives_a_hang_unless_it_expires_before_what_waits_is_read(
    decisions: dict[str, float], hang_s: float, survives: bool
) -> None:
    async def hang(world: MetadataWorld) -> None:
        owner, other = await world.session("a"), await world.session("b")
        await owner.create("/alive/a", b"", ephemeral=True)
        renewed: list[str] = []
        owner.on_new_session(lambda: renewed.append("a"))
        world.hang()
        await asyncio.sleep(hang_s)
        world.thaw()
        await asyncio.sleep(10)
        assert await other.exists("/alive/a") is survives
        assert bool(renewed) is not survives

    run_metadata_world(hang, decisions)


@in_metadata_world({"expire a 1": 200})
async def test_an_ephemeral_node_may_outlive_the_hang_for_a_moment(world: MetadataWorld) -> None:
    """The session has expired, but the server has not processed its expiry yet."""
    owner, other = await world.session("a"), await world.session("b")
    await owner.create("/alive/a", b"", ephemeral=True)
    world.crash("a")
    world.hang()
    await asyncio.sleep(10)
    world.thaw()
    await asyncio.sleep(0.1)
    assert await other.exists("/alive/a")
    await asyncio.sleep(0.2)
    assert not await other.exists("/alive/a")


@in_metadata_world({"thaw a 0": 200})
async def test_connections_may_be_served_later_than_others(world: MetadataWorld) -> None:
    first, second = await world.session("a"), await world.session("b")
    world.hang()
    asked = [asyncio.ensure_future(store.exists("/x")) for store in (first, second)]
    await asyncio.sleep(0.5)
    world.thaw()
    await asyncio.sleep(0.1)
    assert [each.done() for each in asked] == [False, True]
    await asyncio.sleep(0.2)
    assert [each.done() for each in asked] == [True, True]


@in_metadata_world()
async def test_a_silence_is_reported_to_listeners_and_an_idle_time_is_not(
    world: MetadataWorld,
) -> None:
    store = await world.session("a")
    told: list[float] = []
    store.on_silence(lambda: told.append(world.loop.now))
    await asyncio.sleep(60)
    assert told == []
    world.cut("a")
    await asyncio.sleep(3)
    world.heal()
    await asyncio.sleep(1)
    assert len(told) == 1
