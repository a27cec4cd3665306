"""A server's ports on this machine: TCP, ZooKeeper, the clock, random numbers."""

import random

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientConfig
from labkit.system.metadata.place import MetadataPlace
from labkit.system.metadata.store import MetadataStore
from labkit.system.node.ports import ServerPorts
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.clock import wall_clock_ms
from labkit.worlds.live.new_client import new_client
from labkit.worlds.live.zookeeper.store import ZooKeeperStore


def server_ports(node: str, place: MetadataPlace, recorder: Recorder) -> ServerPorts:
    """The ports of the server called `node`, in the cluster at `place`."""

    async def begin_session() -> ZooKeeperStore:
        store = ZooKeeperStore(place)
        await store.start()
        return store

    def client_of(store: MetadataStore, config: ClientConfig) -> BookKeeper:
        return new_client(store, recorder, config=config)

    return ServerPorts(node, recorder, begin_session, client_of, random.randrange, wall_clock_ms)
