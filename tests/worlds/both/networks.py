"""The live and the simulated network, which must behave alike through the network port."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from labkit.system.model.net import Connection
from labkit.worlds.live.host.ports import LOOPBACK, free_port
from labkit.worlds.live.net import TcpNetwork, listen
from labkit.worlds.sim.machine.decisions import Decisions
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.machine.network import NodeNetwork, SimNetwork
from labkit.worlds.sim.machine.process import NodeClock, Process

_PORT = 7
_NOBODY_LISTENS = 8


class Side:
    """One end of a connection and the frames that it has received."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.batches: list[list[bytes]] = []
        self.closed_count = 0
        self.heard_at_close = -1

    @property
    def bodies(self) -> list[bytes]:
        """Return all received frames in order."""
        return [body for batch in self.batches for body in batch]

    def on_bodies(self, bodies: Sequence[bytes]) -> None:
        self.batches.append(list(bodies))

    def on_close(self) -> None:
        self.closed_count += 1
        self.heard_at_close = len(self.bodies)

    @property
    def end(self) -> Connection:
        assert self.connection is not None
        return self.connection


class World(Protocol):
    """A listening server and a client on another machine."""

    servers: list[Side]
    """The server's end of each connection, in the order in which clients connected."""

    async def connect(self) -> Side:
        """Connect the client to the server."""

    async def connect_to_nobody(self) -> None:
        """Connect the client to a port on which no server is listening."""


class _Accepting:
    def __init__(self) -> None:
        self.servers: list[Side] = []

    def accept(self, connection: Connection) -> Callable[[Sequence[bytes]], None]:
        side = Side()
        side.connection = connection
        connection.when_closed(side.on_close)
        self.servers.append(side)
        return side.on_bodies


class LiveWorld(_Accepting):
    """TCP connections on this machine."""

    async def listen(self) -> asyncio.Server:
        server = await listen(self.accept)
        self._port = server.sockets[0].getsockname()[1]
        return server

    async def connect(self) -> Side:
        side = Side()
        side.connection = await TcpNetwork().connect(
            LOOPBACK, self._port, side.on_bodies, side.on_close
        )
        return side

    async def connect_to_nobody(self) -> None:
        await TcpNetwork().connect(LOOPBACK, free_port(), lambda _: None, lambda: None)


class SimWorld(_Accepting):
    """A simulated network with two nodes."""

    def __init__(self, loop: SimLoop) -> None:
        super().__init__()
        self._loop = loop
        self._network = SimNetwork(loop, Decisions(None, {}, lambda: 0), lambda *_, **__: None)
        self._client, server = self._start("client"), self._start("server")
        NodeNetwork(self._network, server).listen(self.accept, _PORT)

    async def connect(self) -> Side:
        side = Side()
        network = NodeNetwork(self._network, self._client)
        connecting = network.connect("server", _PORT, side.on_bodies, side.on_close)
        side.connection = await self._client.spawn(connecting)
        return side

    async def connect_to_nobody(self) -> None:
        network = NodeNetwork(self._network, self._client)
        connecting = network.connect("server", _NOBODY_LISTENS, lambda _: None, lambda: None)
        await self._client.spawn(connecting)

    def _start(self, name: str) -> Process:
        process = Process(name, NodeClock())
        self._loop.start(process)
        self._network.started(process)
        return process


Rule = Callable[[World], Awaitable[None]]


async def _hold_live(rule: Rule) -> None:
    world = LiveWorld()
    server = await world.listen()
    try:
        await rule(world)
    finally:
        for side in world.servers:
            side.end.close()
        server.close()


def hold_live(rule: Rule) -> None:
    """Check the rule on TCP."""
    asyncio.run(_hold_live(rule))


def hold_simulated(rule: Rule) -> None:
    """Check the rule on the simulated network, in virtual time."""
    loop = SimLoop(time_limit_s=1000)

    async def main() -> None:
        await rule(SimWorld(loop))

    loop.run(main())
