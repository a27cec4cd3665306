"""A simulated ZooKeeper and its clients, for tests of the metadata port and its users.

@in_metadata_world()
async def test_rule(world: MetadataWorld) -> None:
    store = await world.session("a")
    ...
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Concatenate, ParamSpec, TypeVar, Unpack

from labkit.system.trace.events import Fields
from labkit.worlds.sim.machine.decisions import Decisions
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.machine.metadata import SimMetadataStore
from labkit.worlds.sim.machine.network import NodeNetwork, SimNetwork
from labkit.worlds.sim.machine.process import NodeClock, Process
from labkit.worlds.sim.machine.zookeeper import METADATA_SERVER, PORT, SimZooKeeper
from tests.virtual_time import in_world

P = ParamSpec("P")
T = TypeVar("T")


class MetadataWorld:
    """A server and any number of nodes, each with at most one session."""

    def __init__(
        self,
        loop: SimLoop,
        session_timeout_s: float = 4.0,
        decisions: Mapping[str, float] | None = None,
    ) -> None:
        self.loop = loop
        self.session_timeout_s = session_timeout_s
        self.reports: list[tuple[str, ...]] = []
        chance = Decisions(None, decisions or {}, lambda: 0)
        self.network = SimNetwork(loop, chance, self._report)
        self.zookeeper = SimZooKeeper(loop, session_timeout_s, chance, self._report)
        self.processes: dict[str, Process] = {}
        self._start(self.zookeeper.process)
        self.network.listen(self.zookeeper.process, self.zookeeper.accept, PORT)

    async def session(self, node: str) -> SimMetadataStore:
        """Start the node and its session, running the session's tasks as part of the node."""
        process = self.start_node(node)
        store = process.context.copy().run(self._store, node, process)
        await process.spawn(store.start())
        return store

    def start_node(self, node: str) -> Process:
        return self._start(Process(node, NodeClock()))

    def _start(self, process: Process) -> Process:
        self.processes[process.name] = process
        self.loop.start(process)
        self.network.started(process)
        return process

    def crash(self, node: str, *, silently: bool = True) -> None:
        process = self.processes[node]
        process.kill()
        self.network.died(process, silently=silently)

    def cut(self, node: str) -> None:
        """Cut the connection between the node and the server in both directions."""
        self.network.link(node, METADATA_SERVER).cut()
        self.network.link(METADATA_SERVER, node).cut()

    def hang(self) -> None:
        self.zookeeper.hang()

    def thaw(self) -> None:
        """Resume the server; the world's decisions determine which request it processes first."""
        self.zookeeper.resume()

    def heal(self) -> None:
        self.network.repair()

    def asked(self) -> list[str]:
        """Return a list to which the kind of each later request to the server is appended."""
        kinds: list[str] = []
        handle = self.zookeeper.handle

        def noted(session: Any, body: Any) -> None:
            kinds.append(body[0])
            handle(session, body)

        self.zookeeper.handle = noted  # type: ignore[method-assign]
        return kinds

    def _store(self, node: str, process: Process) -> SimMetadataStore:
        return SimMetadataStore(NodeNetwork(self.network, process), node, self.session_timeout_s)

    def _report(self, *what: str, **fields: Unpack[Fields]) -> None:
        self.reports.append((*what, *map(str, fields.values())))


def run_metadata_world(
    body: Callable[[MetadataWorld], Awaitable[T]], decisions: Mapping[str, float] | None = None
) -> T:
    """Run `body` in a new world with virtual time."""
    loop = SimLoop(time_limit_s=3600)

    async def main() -> T:
        return await body(MetadataWorld(loop, decisions=decisions))

    return loop.run(main())


def in_metadata_world(
    decisions: Mapping[str, float] | None = None,
) -> Callable[[Callable[Concatenate[MetadataWorld, P], Awaitable[None]]], Callable[P, None]]:
    """Return a decorator that turns a coroutine function whose first parameter is a world into a
    test that runs in virtual time.
    """
    return in_world(partial(run_metadata_world, decisions=decisions))
