"""A simulated ZooKeeper and nodes that ask it, for tests of the metadata port and of what uses it.

def test_rule() -> None:
    async def rule(world: MetadataWorld) -> None:
        store = await world.session("a")
        ...
    run_metadata_world(rule)
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from labkit.sim.decisions import Decisions
from labkit.sim.loop import SimLoop
from labkit.sim.metadata import METADATA_SERVER, PORT, SimMetadataStore, SimZooKeeper
from labkit.sim.network import NodeNetwork, SimNetwork
from labkit.sim.process import NodeClock, Process

T = TypeVar("T")


class MetadataWorld:
    """A server and any number of nodes, each with a session or none."""

    def __init__(self, loop: SimLoop, session_timeout_s: float = 4.0) -> None:
        self.loop = loop
        self.session_timeout_s = session_timeout_s
        self.reports: list[tuple[str, ...]] = []
        self.network = SimNetwork(loop, Decisions(None, {}), self._report)
        self.zookeeper = SimZooKeeper(loop, session_timeout_s, self._report)
        self.processes: dict[str, Process] = {}
        self.start_node(METADATA_SERVER)
        self.network.listen(self.processes[METADATA_SERVER], self.zookeeper.accept, PORT)

    async def session(self, node: str) -> SimMetadataStore:
        """Start the node and its session; its tasks run as the node's."""
        process = self.start_node(node)
        store = process.context.copy().run(self._store, node, process)
        await process.spawn(store.start())
        return store

    def start_node(self, node: str) -> Process:
        process = self.processes[node] = Process(node, NodeClock())
        self.loop.start(process)
        self.network.started(process)
        return process

    def crash(self, node: str, *, silently: bool = True) -> None:
        process = self.processes[node]
        process.kill()
        self.network.died(process, silently=silently)

    def cut(self, node: str) -> None:
        """Nothing goes between that node and the server."""
        self.network.link(node, METADATA_SERVER).cut()
        self.network.link(METADATA_SERVER, node).cut()

    def heal(self) -> None:
        self.network.behave()

    def _store(self, node: str, process: Process) -> SimMetadataStore:
        return SimMetadataStore(NodeNetwork(self.network, process), node, self.session_timeout_s)

    def _report(self, *what: str) -> None:
        self.reports.append(what)


def run_metadata_world(body: Callable[[MetadataWorld], Awaitable[T]]) -> T:
    """Run `body` in a new world; time is virtual."""
    loop = SimLoop(time_limit_s=3600)

    async def main() -> T:
        return await body(MetadataWorld(loop))

    return loop.run(main())
