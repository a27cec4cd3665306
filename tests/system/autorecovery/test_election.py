"""Test that there is one auditor at a time, and that another takes over when it fails."""

import asyncio

import pytest

from labkit.system.autorecovery.election import win_election
from labkit.system.metadata.store import MetadataUnavailableError
from tests.system.autorecovery.world import PATHS, World, simulated


@simulated
async def test_a_candidate_whose_vote_was_deleted_does_not_win(world: World) -> None:
    await win_election(world.store, "a")
    store = await world.metadata.session("b")
    waiting = asyncio.ensure_future(win_election(store, "b"))
    await asyncio.sleep(1)
    first, second = await world.store.children(PATHS.election)
    await world.store.delete(f"{PATHS.election}/{second}")
    await world.store.delete(f"{PATHS.election}/{first}")
    with pytest.raises(MetadataUnavailableError, match="V_0000000001 was deleted"):
        await waiting


@simulated
async def test_a_candidate_sends_no_requests_while_the_auditor_lives(world: World) -> None:
    await win_election(world.store, "a")
    store = await world.metadata.session("b")
    waiting = asyncio.ensure_future(win_election(store, "b"))
    await asyncio.sleep(5)
    asked = world.metadata.asked()
    await asyncio.sleep(300)
    assert set(asked) == {"ping"}
    assert not waiting.done()
    waiting.cancel()


@simulated
async def test_the_election_says_whether_there_was_another_auditor(world: World) -> None:
    assert not await win_election(world.store, "a")
    [vote] = await world.store.children(PATHS.election)
    await world.store.delete(f"{PATHS.election}/{vote}")
    assert await win_election(await world.metadata.session("b"), "b")


@simulated
async def test_nodes_other_than_votes_are_ignored(world: World) -> None:
    for name in ("V_", "V_other", "V_1", "other"):
        await world.store.create(f"{PATHS.election}/{name}", b"")
    assert not await win_election(world.store, "a")
