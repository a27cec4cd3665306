"""One auditor at a time, and the next one when it goes."""

import asyncio

import pytest

from labkit.system.autorecovery.election import current_auditor, win_election
from labkit.system.autorecovery.nodes import AutoRecoveryNodes
from labkit.system.metadata.place import MetadataPlace
from labkit.system.metadata.store import MetadataUnavailableError
from tests.system.autorecovery.world import World, run

NODES = AutoRecoveryNodes(MetadataPlace("any"))


def elected(world: World) -> list[str]:
    return [row.node for row in world.events("auditor.elected")]


def test_oldest_vote_wins() -> None:
    async def rule(world: World) -> None:
        assert await current_auditor(world.store) is None
        await world.start_autorecovery("a", "b", "c")
        assert elected(world) == ["a"]
        assert await current_auditor(world.store) == "a"

    run(rule)


def test_votes_are_bookkeepers_nodes() -> None:
    async def rule(world: World) -> None:
        await world.start_autorecovery("a", "b")
        names = await world.store.children(NODES.election)
        assert names == ["V_0000000000", "V_0000000001"]
        assert (await world.store.get(f"{NODES.election}/{names[1]}"))[0] == b'bookieId: "b"\n'
        assert (await world.store.get(NODES.election))[0] == b'bookieId: "a"\n'

    run(rule)


def test_next_vote_takes_over_when_the_auditor_dies() -> None:
    async def rule(world: World) -> None:
        await world.start_autorecovery("a", "b", "c")
        world.metadata.crash("a")
        await asyncio.sleep(10)
        assert elected(world) == ["a", "b"]
        assert await current_auditor(world.store) == "b"

    run(rule)


def test_death_of_a_candidate_changes_no_auditor() -> None:
    async def rule(world: World) -> None:
        await world.start_autorecovery("a", "b", "c")
        world.metadata.crash("b")
        await asyncio.sleep(10)
        assert elected(world) == ["a"]
        world.metadata.crash("a")
        await asyncio.sleep(10)
        assert elected(world) == ["a", "c"]

    run(rule)


def test_auditor_resigns_when_its_session_is_lost() -> None:
    async def rule(world: World) -> None:
        await world.start_autorecovery("a", "b")
        world.metadata.zookeeper.expire("a")
        with pytest.raises(MetadataUnavailableError):
            await world.instances["a"]
        await asyncio.sleep(10)
        assert elected(world) == ["a", "b"]

    run(rule)


def test_candidate_without_its_vote_does_not_win() -> None:
    async def rule(world: World) -> None:
        await win_election(world.store, "a")
        store = await world.metadata.session("b")
        waiting = asyncio.ensure_future(win_election(store, "b"))
        await asyncio.sleep(1)
        first, second = await world.store.children(NODES.election)
        await world.store.delete(f"{NODES.election}/{second}")
        await world.store.delete(f"{NODES.election}/{first}")
        with pytest.raises(MetadataUnavailableError, match="V_0000000001 is gone"):
            await waiting

    run(rule)


def test_candidate_asks_nothing_while_the_auditor_stays() -> None:
    async def rule(world: World) -> None:
        await win_election(world.store, "a")
        store = await world.metadata.session("b")
        waiting = asyncio.ensure_future(win_election(store, "b"))
        await asyncio.sleep(5)
        asked = world.metadata.asked()
        await asyncio.sleep(300)
        assert set(asked) == {"ping"}
        assert not waiting.done()
        waiting.cancel()

    run(rule)


def test_winner_knows_whether_there_was_an_auditor_before() -> None:
    async def rule(world: World) -> None:
        assert not await win_election(world.store, "a")
        [vote] = await world.store.children(NODES.election)
        await world.store.delete(f"{NODES.election}/{vote}")
        assert await win_election(await world.metadata.session("b"), "b")

    run(rule)


def test_first_candidate_of_a_cluster_makes_the_place_for_the_votes() -> None:
    async def rule(world: World) -> None:
        assert not await world.store.exists(NODES.election)
        assert not await win_election(world.store, "a")
        assert await current_auditor(world.store) == "a"

    run(rule)
