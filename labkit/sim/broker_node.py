"""A broker's node: the real broker, over the simulated network and a session of its own."""

from contextlib import suppress
from typing import TYPE_CHECKING

from labkit.model.errors import LabkitError
from labkit.pulsar.broker import Broker
from labkit.sim.network import NodeNetwork
from labkit.sim.nodes import Node
from labkit.sim.process import Process
from labkit.topic.ownership import BrokerAddress

if TYPE_CHECKING:
    from labkit.sim.world import World

BROKER_PORT = 6650


def service_url(name: str) -> str:
    """Where the broker of that name listens."""
    return f"pulsar://{name}:{BROKER_PORT}"


class BrokerNode(Node):
    """A node with a broker; all that it knows is in the metadata store and on the bookies."""

    def __init__(self, world: "World", name: str) -> None:
        super().__init__(world, name)
        self._broker: Broker | None = None

    async def _serve(self, process: Process) -> None:
        network = NodeNetwork(self.world.network, process)
        client = self.new_client(await self.begin_session(network), network)
        address = BrokerAddress(f"{self.name}:{BROKER_PORT}", service_url(self.name))
        broker = self.world.variant.broker(client, address, self.world.scenario.cluster.broker)
        self._broker = broker
        network.listen(broker.accept, BROKER_PORT)
        await broker.start()
        self.serves = True
        self.recorder.record("node.started")
        await broker.run()

    def leave(self, for_ms: float) -> None:
        """Give up all topics in good order, then end the process, and come back."""
        if self.is_up and self.serves and self._broker is not None:
            self.spawn(self._leave(self._broker, for_ms))

    async def _leave(self, broker: Broker, for_ms: float) -> None:
        with suppress(LabkitError):  # It leaves all the same; its session ends by itself.
            await broker.stop()
        self.crash(why="it left in good order")
        if for_ms:
            self.world.after(for_ms, self.start)
