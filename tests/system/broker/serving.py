"""Run a broker in the test's own event loop with its own settings; the bookies are processes."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from labkit.system.broker.broker import Broker
from labkit.system.broker.config import BrokerConfig
from labkit.system.broker.ownership import BrokerAddress
from labkit.system.broker.protocol.authentication import Authenticate
from labkit.system.model.net import Connection, OnBodies
from labkit.worlds.live.host.ports import LOOPBACK
from labkit.worlds.live.net import listen, port_of
from labkit.worlds.live.processes.cluster import LocalCluster


@asynccontextmanager
async def serving(
    cluster: LocalCluster, config: BrokerConfig, authenticate: Authenticate | None = None
) -> AsyncIterator[Broker]:
    """Run a broker next to the cluster's own; its URL is `address.service_url`."""
    brokers: list[Broker] = []

    def accept(connection: Connection) -> OnBodies:
        return brokers[0].accept(connection)

    server = await listen(accept, serving=False)
    address = f"{LOOPBACK}:{port_of(server)}"
    client = await cluster.connect()
    keywords: dict[str, Any] = {} if authenticate is None else {"authenticate": authenticate}
    broker = Broker(client, BrokerAddress(address, f"pulsar://{address}"), config, **keywords)
    brokers.append(broker)
    await server.start_serving()
    await broker.start()
    yield broker
    server.close()
    await broker.stop()
