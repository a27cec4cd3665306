"""The `ServerPorts` of a real server: ZooKeeper, TCP, the clock, and random numbers."""

import random

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientConfig
from labkit.system.metadata.location import MetadataLocation
from labkit.system.metadata.store import MetadataStore
from labkit.system.node.ports import ServerPorts
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.clock import wall_clock_ms
from labkit.worlds.live.new_client import new_client
from labkit.worlds.live.zookeeper.store import ZooKeeperStore


def server_ports(node: str, location: MetadataLocation, recorder: Recorder) -> ServerPorts:
    async def begin_session() -> ZooKeeperStore:
        store = ZooKeeperStore(location)
        await store.start()
        return store

    def client_of(store: MetadataStore, config: ClientConfig) -> BookKeeper:
        return new_client(store, recorder, config=config)

    return ServerPorts(node, recorder, begin_session, client_of, random.randrange, wall_clock_ms)
