"""What a server gets of this machine: TCP, ZooKeeper, the clock, chance."""

import random

from labkit.client.bookkeeper import BookKeeper
from labkit.client.context import ClientConfig
from labkit.live.clock import wall_clock_ms
from labkit.live.net import TcpNetwork
from labkit.live.zookeeper_store import ZooKeeperStore
from labkit.metadata.place import MetadataPlace
from labkit.metadata.store import MetadataStore
from labkit.server.ports import ServerPorts
from labkit.trace.recorder import Recorder


def server_ports(node: str, place: MetadataPlace, recorder: Recorder) -> ServerPorts:
    """The ports of the server of that name, in the cluster at that place."""

    async def begin_session() -> ZooKeeperStore:
        store = ZooKeeperStore(place)
        await store.start()
        return store

    def new_client(store: MetadataStore, config: ClientConfig) -> BookKeeper:
        return BookKeeper(
            store,
            TcpNetwork(),
            recorder,
            random.sample,
            lambda: random.getrandbits(63),
            wall_clock_ms,
            config,
        )

    return ServerPorts(node, recorder, begin_session, new_client, random.randrange, wall_clock_ms)
