"""Tests for a broker's bundles when the metadata store fails, changes concurrently or ends the
session.
"""

import asyncio
from collections.abc import Awaitable
from itertools import pairwise

import pytest

from labkit.system.broker.ownership import (
    BROKERS,
    BundleUnloadingError,
    NamespaceBundle,
    encode_broker,
    encode_owner,
)
from labkit.system.metadata.store import ANY_VERSION, MetadataUnavailableError, OnChange
from tests.system.broker.ownership_world import (
    BUNDLE,
    NODE,
    OTHER_BUNDLE,
    OTHER_TOPIC,
    TOPIC,
    A,
    B,
    World,
)
from tests.virtual_time import in_virtual_time


@pytest.fixture
def world() -> World:
    return World()


def pauses_of(times: list[float]) -> list[float]:
    return [round(b - a, 6) for a, b in pairwise(times)]


# Recorded events


@in_virtual_time
async def test_each_bundle_that_is_taken_released_or_lost_is_recorded_once(world: World) -> None:
    for _ in range(2):
        assert await world.broker.acquire(TOPIC) == A
        assert await world.broker.acquire(OTHER_TOPIC) == A
    assert world.events == [
        ("bundle.acquired", str(BUNDLE)),
        ("bundle.acquired", str(OTHER_BUNDLE)),
    ]
    for _ in range(2):
        await world.broker.disable(BUNDLE)
        await world.broker.release(BUNDLE)
    world.store.lose_session(OTHER_BUNDLE.path)
    assert world.events[2:] == [
        ("bundle.released", str(BUNDLE)),
        ("bundle.lost", str(OTHER_BUNDLE)),
    ]


# Ownership


@in_virtual_time
async def test_owner_knows_itself_without_asking_the_store(world: World) -> None:
    await world.broker.acquire(TOPIC)
    world.store.is_down = True
    assert await world.broker.owner_of(BUNDLE) is A
    assert await world.broker.acquire(TOPIC) is A
    with pytest.raises(MetadataUnavailableError):
        await world.broker.owner_of(OTHER_BUNDLE)
    with pytest.raises(MetadataUnavailableError):
        await world.broker.acquire(OTHER_TOPIC)


@in_virtual_time
async def test_bundle_that_its_owner_gives_up_is_nobodys(world: World) -> None:
    world.put(B, disabled=True)
    for request in (world.broker.owner_of(BUNDLE), world.broker.acquire(TOPIC)):
        with pytest.raises(BundleUnloadingError, match="by pulsar://b:6650: look its topics"):
            await request
    assert not await world.broker.reacquire(TOPIC)
    assert world.owner() == (B, True)


@in_virtual_time
async def test_node_of_a_dead_process_at_this_address_is_made_again_even_if_it_gave_the_bundle_up(
    world: World,
) -> None:
    world.put(A, disabled=True)
    assert await world.broker.acquire(TOPIC) == A
    assert world.owner() == (A, False)
    # The node now belongs to the broker's current session, so it survives the end of the old
    # one.
    world.store.tree.end_session(2)
    assert world.owner() == (A, False)


# Releasing bundles


@in_virtual_time
async def test_broker_gives_up_and_releases_only_what_it_owns(world: World) -> None:
    world.put(B)
    await world.broker.disable(BUNDLE)
    await world.broker.release(BUNDLE)
    assert world.store.calls == []
    assert world.owner() == (B, False)


@pytest.mark.parametrize("problem", ["down", "gone", "changed"])
@in_virtual_time
async def test_bundle_is_given_up_here_even_if_its_node_cannot_be_marked(
    world: World, problem: str
) -> None:
    await world.broker.acquire(TOPIC)
    if problem == "down":
        world.store.is_down = True
    elif problem == "gone":
        world.store.tree.delete(BUNDLE.path, ANY_VERSION)
    else:

        async def meanwhile() -> None:
            world.store.tree.set(BUNDLE.path, encode_owner(B), ANY_VERSION)

        world.store.before_next_set = meanwhile
    await world.broker.disable(BUNDLE)
    assert not world.broker.owns(TOPIC)
    if problem == "changed":
        assert world.owner() == (B, False)


@in_virtual_time
async def test_giving_up_a_bundle_does_not_overwrite_the_node_of_another_broker(
    world: World,
) -> None:
    await world.broker.acquire(TOPIC)
    world.store.tree.set(BUNDLE.path, encode_owner(B), ANY_VERSION)
    await world.broker.disable(BUNDLE)
    assert world.store.tree.get(BUNDLE.path, None)[0] == encode_owner(B)


@in_virtual_time
async def test_release_is_tried_five_times_a_second_until_the_store_answers(world: World) -> None:
    await world.broker.acquire(TOPIC)
    await world.broker.disable(BUNDLE)
    world.store.is_down = True
    world.store.calls.clear()
    releasing = asyncio.ensure_future(world.broker.release(BUNDLE))
    await asyncio.sleep(1.1)
    assert pauses_of([at for _, at in world.store.calls]) == [0.2] * 5
    assert world.broker.owned == [BUNDLE]
    world.store.is_down = False
    await releasing
    assert (world.broker.owned, world.owner()) == ([], None)
    assert world.events[1:] == [("bundle.released", str(BUNDLE))]


@in_virtual_time
async def test_node_that_is_another_brokers_by_now_stays_when_the_bundle_is_released(
    world: World,
) -> None:
    await world.broker.acquire(TOPIC)
    await world.broker.disable(BUNDLE)
    world.store.tree.set(BUNDLE.path, encode_owner(B), ANY_VERSION)
    await world.broker.release(BUNDLE)
    assert (world.broker.owned, world.owner()) == ([], (B, False))


@in_virtual_time
async def test_bundle_that_is_lost_while_it_is_released_is_not_reported_as_released(
    world: World,
) -> None:
    await world.broker.acquire(TOPIC)
    await world.broker.disable(BUNDLE)
    releasing = asyncio.ensure_future(world.broker.release(BUNDLE))
    await asyncio.sleep(0)
    world.store.lose_session(BUNDLE.path)
    await releasing
    assert world.events[1:] == [("bundle.lost", str(BUNDLE))]


@pytest.mark.parametrize("step", ["disable", "close topics", "release"])
@in_virtual_time
async def test_bundle_that_is_lost_while_it_is_given_up_and_acquired_again_stays(
    world: World, step: str
) -> None:
    async def lose_and_acquire() -> None:
        world.store.lose_session(BUNDLE.path)
        assert await world.broker.acquire(TOPIC) is A

    async def during(work: Awaitable[None]) -> None:
        world.store.gate = asyncio.Event()
        working = asyncio.ensure_future(work)
        await asyncio.sleep(0.01)
        again = asyncio.ensure_future(lose_and_acquire())
        await asyncio.sleep(0.01)
        world.store.gate.set()
        await asyncio.gather(working, again)

    await world.broker.acquire(TOPIC)
    if step == "disable":
        await during(world.broker.disable(BUNDLE))
        await world.broker.release(BUNDLE)
    else:
        await world.broker.disable(BUNDLE)
        if step == "close topics":
            await lose_and_acquire()
            await world.broker.release(BUNDLE)
        else:
            await during(world.broker.release(BUNDLE))
    assert world.broker.owns(TOPIC)
    assert world.owner() == (A, False)


@in_virtual_time
async def test_broker_that_leaves_knows_of_each_bundle_that_it_acquires(world: World) -> None:
    world.store.gate = asyncio.Event()
    acquiring = asyncio.ensure_future(world.broker.acquire(TOPIC))
    await asyncio.sleep(0.01)
    leaving = asyncio.ensure_future(world.broker.unregister())
    await asyncio.sleep(0.01)
    assert not leaving.done()
    world.store.gate.set()
    await leaving
    assert await acquiring is A
    assert world.broker.owned == [BUNDLE]
    with pytest.raises(BundleUnloadingError):
        await world.broker.acquire(OTHER_TOPIC)
    assert world.owner(OTHER_BUNDLE) is None


# Lost sessions


@in_virtual_time
async def test_lost_session_is_reported_with_its_bundles_to_all_that_asked(world: World) -> None:
    again: list[list[NamespaceBundle]] = []
    world.broker.when_lost(again.append)
    world.store.lose_session()
    assert (world.lost, again) == ([], [])
    await world.broker.acquire(OTHER_TOPIC)
    await world.broker.acquire(TOPIC)
    world.store.lose_session(BUNDLE.path, OTHER_BUNDLE.path)
    assert world.lost == again == [[BUNDLE, OTHER_BUNDLE]]
    assert world.broker.owned == []


@in_virtual_time
async def test_registered_broker_registers_again_five_times_a_second_until_it_works(
    world: World,
) -> None:
    await world.broker.register()
    world.store.is_down = True
    world.store.calls.clear()
    world.store.lose_session(NODE)
    await asyncio.sleep(1.1)
    assert pauses_of([at for _, at in world.store.calls]) == [0.2] * 5
    world.store.is_down = False
    await asyncio.sleep(0.2)
    assert await world.broker.brokers() == [A]
    calls = len(world.store.calls)
    await asyncio.sleep(5)
    assert len(world.store.calls) == calls


@in_virtual_time
async def test_broker_that_never_registered_or_has_left_does_not_register_in_a_new_session(
    world: World,
) -> None:
    world.store.lose_session()
    await asyncio.sleep(1)
    assert await world.broker.brokers() == []
    await world.broker.register()
    await world.broker.unregister()
    world.store.lose_session()
    await asyncio.sleep(1)
    assert await world.broker.brokers() == []
    assert not world.store.tree.exists(NODE, None)


@in_virtual_time
async def test_broker_that_leaves_while_it_registers_again_gives_it_up(world: World) -> None:
    await world.broker.register()
    world.store.is_down = True
    world.store.lose_session(NODE)
    await asyncio.sleep(0.5)
    world.store.is_down = False
    await world.broker.unregister()  # Its node was deleted with the session, which is not an error.
    await asyncio.sleep(1)
    assert await world.broker.brokers() == []


# Registered brokers


@in_virtual_time
async def test_node_of_a_dead_process_at_this_address_is_registered_again(world: World) -> None:
    world.store.tree.create(NODE, b"old", 2, False)
    await world.broker.register()
    world.store.tree.end_session(2)
    assert await world.broker.brokers() == [A]


@in_virtual_time
async def test_node_of_a_dead_process_may_go_while_it_is_replaced(world: World) -> None:
    world.store.tree.create(NODE, b"old", 2, False)
    registering = asyncio.ensure_future(world.broker.register())
    while [name for name, _ in world.store.calls] != ["create", "delete"]:  # noqa: ASYNC110
        await asyncio.sleep(0)
    world.store.tree.end_session(2)
    await registering
    assert await world.broker.brokers() == [A]


@in_virtual_time
async def test_broker_that_leaves_while_the_list_is_read_is_left_out(world: World) -> None:
    for broker in (A, B):
        world.store.tree.create(f"{BROKERS}/{broker.broker_id}", encode_broker(broker), 2, False)
    get = world.store.get

    async def left(path: str, on_change: OnChange | None = None) -> tuple[bytes, int]:
        if world.store.tree.exists(NODE, None):
            world.store.tree.delete(NODE, ANY_VERSION)
        return await get(path, on_change)

    world.store.get = left  # type: ignore[method-assign]
    assert await world.broker.brokers() == [B]
