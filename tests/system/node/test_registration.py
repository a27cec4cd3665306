"""Test that a bookie registers again whenever it has lost its session."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from labkit.system.metadata.cluster import init_cluster
from labkit.system.metadata.registration import (
    BOOKIE_RPC,
    Endpoint,
    register_bookie,
    writable_bookies,
)
from labkit.system.metadata.store import ANY_VERSION, MetadataUnavailableError, NodeExistsError
from labkit.system.node import registration
from labkit.system.node.registration import Registration
from labkit.system.trace.recorder import Recorder
from tests.virtual_time import in_world
from tests.worlds.sim.metadata_world import MetadataWorld, run_metadata_world

HERE = [Endpoint(BOOKIE_RPC, "b", 3181)]


class Registered:
    """A bookie's registration, and a second session that observes it."""

    def __init__(self, world: MetadataWorld) -> None:
        self.world = world
        self.read_only = False

    async def begin(self) -> None:
        self.onlooker = await self.world.session("onlooker")
        store = await self.world.session("b")
        recorder = Recorder("b", lambda: 0)
        await init_cluster(self.onlooker, "1")
        self.warnings: list[str] = []
        self.registration = Registration(
            store, "b", "1", lambda: self.read_only, recorder, self.warnings.append
        )

    async def writable(self) -> list[str]:
        return await writable_bookies(self.onlooker)


def run(rule: Callable[[Registered], Awaitable[None]]) -> None:
    async def body(world: MetadataWorld) -> None:
        registered = Registered(world)
        await registered.begin()
        await rule(registered)

    run_metadata_world(body)


registered = in_world(run)


@registered
async def test_a_session_lost_before_any_waiter_is_noticed(bookie: Registered) -> None:
    """Between the first registration and `run`, the bookie starts to accept connections."""
    await bookie.registration.register(HERE)
    bookie.world.zookeeper.expire("b")
    await asyncio.sleep(1)
    assert await bookie.writable() == []
    staying = asyncio.ensure_future(bookie.registration.run())
    await asyncio.sleep(1)
    assert await bookie.writable() == ["b"]
    staying.cancel()


@registered
async def test_a_session_lost_while_the_bookie_registers_is_noticed(bookie: Registered) -> None:
    registering = asyncio.ensure_future(bookie.registration.register(HERE))
    await asyncio.sleep(0.0004)  # The bookie's request has arrived, but the response has not.
    bookie.world.zookeeper.expire("b")
    await asyncio.wait((registering,))
    staying = asyncio.ensure_future(bookie.registration.run())
    await asyncio.sleep(2)
    assert await bookie.writable() == ["b"]
    staying.cancel()


@pytest.mark.parametrize("error", [MetadataUnavailableError, NodeExistsError])
@registered
async def test_a_failure_to_register_again_is_followed_by_another_try(
    bookie: Registered, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The create request of the lost session may be executed late; then the node already exists."""
    failures = iter([error("too early"), error("again")])

    async def failing(*args: Any, **options: Any) -> None:
        if (failure := next(failures, None)) is not None:
            raise failure
        await register_bookie(*args, **options)

    await bookie.registration.register(HERE)
    monkeypatch.setattr(registration, "register_bookie", failing)
    staying = asyncio.ensure_future(bookie.registration.run())
    bookie.world.zookeeper.expire("b")
    await asyncio.sleep(5)
    assert await bookie.writable() == ["b"]
    assert not staying.done()
    staying.cancel()


@registered
async def test_it_says_whether_the_bookie_takes_writes(bookie: Registered) -> None:
    await bookie.registration.register(HERE)
    staying = asyncio.ensure_future(bookie.registration.run())
    bookie.read_only = True
    bookie.registration.renew()
    await asyncio.sleep(1)
    assert await bookie.writable() == []
    assert await bookie.onlooker.children("/ledgers/available/readonly") == ["b"]
    staying.cancel()


@registered
async def test_the_first_registration_fails_aloud(bookie: Registered) -> None:
    bookie.world.cut("b")
    with pytest.raises(MetadataUnavailableError):
        await bookie.registration.register(HERE)


@pytest.mark.parametrize("new_instance_id", ["", "2"])
@registered
async def test_a_bookie_registers_with_no_other_cluster_than_its_own(
    bookie: Registered, new_instance_id: str
) -> None:
    """A metadata store that lost its data assigns ledger ids for which the bookie has entries."""
    await bookie.registration.register(HERE)
    staying = asyncio.ensure_future(bookie.registration.run())
    tree = bookie.world.zookeeper.tree
    tree.delete("/ledgers/INSTANCEID", ANY_VERSION)
    if new_instance_id:
        tree.create("/ledgers/INSTANCEID", new_instance_id.encode(), 0, False)
    bookie.world.zookeeper.expire("b")
    await asyncio.sleep(5)
    assert await bookie.writable() == []
    [warning] = bookie.warnings
    assert "b is not registered" in warning

    if new_instance_id:
        tree.delete("/ledgers/INSTANCEID", ANY_VERSION)
    tree.create("/ledgers/INSTANCEID", b"1", 0, False)
    await asyncio.sleep(1)
    assert await bookie.writable() == ["b"], "the data have been restored"
    staying.cancel()
