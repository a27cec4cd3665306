"""A node that runs a real broker on the simulated network, with its own metadata session."""

import asyncio

from labkit.system.broker.broker import Broker
from labkit.system.broker.ownership import BrokerAddress
from labkit.system.node.broker import serve_until_stopped
from labkit.system.topic.names import full_name
from labkit.system.trace.answers import TopicUnloaded
from labkit.worlds.sim.machine.network import NodeNetwork
from labkit.worlds.sim.machine.process import Process
from labkit.worlds.sim.nodes.environment import Environment
from labkit.worlds.sim.nodes.nodes import SimNode

BROKER_PORT = 6650


def service_url(name: str) -> str:
    return f"pulsar://{name}:{BROKER_PORT}"


class BrokerNode(SimNode):
    """A node with a broker, which keeps its entire state in the metadata store and on bookies."""

    def __init__(self, world: Environment, name: str) -> None:
        super().__init__(world, name)
        self._leaving = asyncio.Event()
        self._down_ms = 0.0
        self._broker: Broker | None = None

    async def serve(self, process: Process) -> None:
        network = NodeNetwork(self.world.network, process)
        client = self.new_client(await self.begin_session(network), network)
        address = BrokerAddress(f"{self.name}:{BROKER_PORT}", service_url(self.name))
        broker = self.world.variant.broker(client, address, self.world.cluster.broker)
        self._broker = broker
        self._leaving = asyncio.Event()
        network.listen(broker.accept, BROKER_PORT)
        await broker.start()
        self.report_started(process)
        await serve_until_stopped(self._leaving, broker, lambda: None)
        self.crash(reason="it left in good order")
        self.world.end_after(self._down_ms, self.start)

    def unload(self, topic: str) -> None:
        if self.is_up and self.is_serving and self._broker is not None:
            self.spawn(self._unload(self._broker, full_name(topic)))

    async def _unload(self, broker: Broker, topic: str) -> None:
        await broker.unload(topic)
        self.world.results.record(TopicUnloaded, self.name, topic)

    def leave(self, down_ms: float) -> None:
        """Unload all topics, shut down gracefully, and restart after `down_ms` (0: stay down)."""
        if self.is_up and self.is_serving:
            self._down_ms = down_ms
            self._leaving.set()
