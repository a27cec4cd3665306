"""The live and the simulated world, in which the `MetadataStore` port must behave identically."""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Protocol

from kazoo.client import KazooClient

from labkit.system.metadata.location import MetadataLocation
from labkit.system.metadata.store import MetadataStore, MetadataUnavailableError
from labkit.worlds.live.host.posix import continue_process, stop_process
from labkit.worlds.live.zookeeper.secret import sasl_options
from labkit.worlds.live.zookeeper.server import EmbeddedZooKeeper
from labkit.worlds.live.zookeeper.store import ZooKeeperStore
from tests.until import DEADLINE_S
from tests.worlds.sim.metadata_world import MetadataWorld, run_metadata_world


class World(Protocol):
    """A metadata store, and nodes that have sessions with it."""

    async def session(self, node: str) -> MetadataStore:
        """Start a session for that node."""

    async def end(self, node: str) -> None:
        """End the node's session."""

    async def expire(self, node: str) -> None:
        """Expire the node's session on the server."""

    def break_connection(self, node: str) -> None:
        """Break the node's connection without ending its session; the node reconnects by itself."""

    async def hang(self) -> None:
        """Make the store stop responding."""

    def thaw(self) -> None:
        """Make the store respond again."""


class LiveWorld:
    """A world with a real ZooKeeper server."""

    def __init__(self, server: EmbeddedZooKeeper) -> None:
        self._server = server
        self._address = server.address
        self._stores: dict[str, ZooKeeperStore] = {}

    async def session(self, node: str) -> ZooKeeperStore:
        store = self._stores[node] = ZooKeeperStore(MetadataLocation(self._address))
        await store.start()
        return store

    async def end(self, node: str) -> None:
        await self._stores[node].stop()

    async def expire(self, node: str) -> None:
        """End the session with a second client, which needs only the id and the password of the
        session.
        """
        client = self._stores[node].client
        twin = KazooClient(
            self._address, client_id=client.client_id, sasl_options=sasl_options(self._address)
        )
        await asyncio.to_thread(twin.start)
        await asyncio.to_thread(twin.stop)
        twin.close()

    def break_connection(self, node: str) -> None:
        self._stores[node].client._connection._socket.shutdown(socket.SHUT_RDWR)

    async def hang(self) -> None:
        await stop_process(self._server.pid)

    def thaw(self) -> None:
        continue_process(self._server.pid)

    async def stop(self) -> None:
        for store in self._stores.values():
            await store.stop()


class SimWorld:
    """A world with a simulated ZooKeeper."""

    def __init__(self, world: MetadataWorld) -> None:
        self._world = world
        self._stores: dict[str, MetadataStore] = {}

    async def session(self, node: str) -> MetadataStore:
        store = self._stores[node] = await self._world.session(node)
        return store

    async def end(self, node: str) -> None:
        await self._stores[node].stop()  # type: ignore[attr-defined]

    async def expire(self, node: str) -> None:
        self._world.zookeeper.expire(node)

    def break_connection(self, node: str) -> None:
        self._world.network.reset(node, "zk")

    async def hang(self) -> None:
        self._world.hang()

    def thaw(self) -> None:
        self._world.thaw()


Rule = Callable[[World], Awaitable[None]]


async def hold_live(rule: Rule, server: EmbeddedZooKeeper) -> None:
    world = LiveWorld(server)
    try:
        await rule(world)
    finally:
        await world.stop()


def hold_simulated(rule: Rule) -> None:
    run_metadata_world(lambda world: rule(SimWorld(world)))


class Watch:
    """Counts its calls; `told` waits for the first one."""

    def __init__(self) -> None:
        self.calls = 0
        self._called = asyncio.Event()

    def __call__(self) -> None:
        self.calls += 1
        self._called.set()

    async def told(self) -> None:
        async with asyncio.timeout(DEADLINE_S):
            await self._called.wait()


async def answered(ask: Callable[[], Awaitable[object]]) -> object:
    """Retry until the request succeeds, because the connection may be down briefly."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                return await ask()
            except MetadataUnavailableError:
                await asyncio.sleep(0.05)
