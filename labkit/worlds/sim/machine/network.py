"""The network: connections that behave like TCP's, over links that may not behave.

A connection is reliable and in order until a link misbehaves.  While a link is cut, what is sent
waits on the sender's side, and comes when the link is healed, as retransmissions do.  What arrives
at the same moment on a connection is handed over at once, as the frames of one receive.

The end of a process closes its connections.  A machine without power says nothing: a peer that
writes to it finds out when it is up again.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from labkit.system.model.net import OnBodies, OnClose, OnWritable
from labkit.worlds.sim.machine.decisions import Decisions
from labkit.worlds.sim.machine.links import NetworkLink, Parcel, Report, Transit
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.machine.process import Process

_CONNECT_TIMEOUT_S = 10.0
_HIGH_WATER_BYTES = 4 * 1024 * 1024
"""Bytes that the sockets of both sides and the sender's memory hold."""


class End:
    """One end of a connection."""

    def __init__(self, network: "SimNetwork", process: Process, way_out: NetworkLink) -> None:
        self.process = process
        self.way_out = way_out
        self.peer = self
        self.on_bodies: OnBodies | None = None
        self.is_open = True
        self.number = 0
        """Which of the connections this is that one node has opened to the other."""
        self.due = 0.0
        """When the newest parcel for this end arrives."""
        self.newest: Parcel | None = None
        self.is_missed = False
        """Whether this end is dead and something sent to it was not received."""
        self._network = network
        self.waiting: list[Any] | None = None
        self._is_hung_up = False
        self._untaken_bytes = 0
        """Bytes sent from here that are on the way, or wait at the other end."""
        self._when_closed: list[OnClose] = []
        self._when_writable: list[OnWritable] = []

    def when_closed(self, action: OnClose) -> None:
        """Call `action` once, when the connection is gone."""
        self._when_closed.append(action)

    def send(self, bodies: Sequence[Any]) -> None:
        """Send frames with these bodies, in one write."""
        peer = self.peer
        if not self.is_open or not self.process.is_alive:
            return
        if not (peer.process.is_alive or self._network.is_in_turn):
            self._network.miss(peer)
        elif self.way_out.send(peer, list(bodies), peer.process.context):
            self._untaken_bytes += _size(bodies)

    @property
    def is_writable(self) -> bool:
        """Whether the other end keeps up: little is on the way or waits there."""
        return self._untaken_bytes < _HIGH_WATER_BYTES

    def when_writable(self, on_writable: OnWritable) -> None:
        """Call `on_writable` whenever the other end has taken enough."""
        self._when_writable.append(on_writable)

    def pause(self) -> None:
        """Receive nothing more for now."""
        if self.waiting is None:
            self.waiting = []

    def resume(self) -> None:
        waiting, self.waiting = self.waiting, None
        if waiting:
            # In the next turn, as a socket's data come: the caller is not entered again from below.
            asyncio.get_running_loop().call_soon(self.take, waiting)
        if self._is_hung_up:
            asyncio.get_running_loop().call_soon(self.hang_up)

    def close(self) -> None:
        """End the connection; `on_close` is called on both ends."""
        if self.is_open and self.process.is_alive:
            asyncio.get_running_loop().call_soon(self.closed)
            self.way_out.act(self.peer.hang_up, self.peer.process.context, after=self.peer)

    def take(self, bodies: list[Any]) -> None:
        """Take frames that arrived."""
        if self.waiting is not None:
            self.waiting += bodies
        elif self.is_open and self.on_bodies is not None:
            self.peer.was_taken(bodies)
            self.on_bodies(bodies)

    def was_taken(self, bodies: Sequence[Any]) -> None:
        """Count frames that the other end has taken; a copy made by the network counts, too."""
        if not self._untaken_bytes:
            return
        was_writable = self.is_writable
        self._untaken_bytes = max(0, self._untaken_bytes - _size(bodies))
        if not was_writable and self.is_writable:
            for action in self._when_writable:
                asyncio.get_running_loop().call_soon(action, context=self.process.context)

    def hang_up(self) -> None:
        """Close this end, too, after taking what came before."""
        if self.waiting is None:
            self.closed()
        else:
            self._is_hung_up = True

    def closed(self) -> None:
        """Forget the connection, and tell its listeners."""
        if self.is_open:
            self.is_open = False
            self._network.forget(self)
            for action in self._when_closed:
                action()


def _size(bodies: Sequence[Any]) -> int:
    """Size of frames; others than bytes are the metadata store's, whose messages are small."""
    size = 0
    for body in bodies:
        if isinstance(body, bytes):
            size += len(body)
    return size


Accept = Callable[[End], OnBodies]


class SimNetwork:
    """All links between all nodes, and all connections over them."""

    def __init__(self, loop: SimLoop, decisions: Decisions, report: Report) -> None:
        self.transit = Transit(loop)
        self._loop = loop
        self._decisions = decisions
        self._report = report
        self._late_share = 0.0
        self._links: dict[tuple[str, str], NetworkLink] = {}
        self._up: dict[str, Process] = {}
        self._without_process: dict[str, None] = {}
        """Machines that are up and refuse connections, as their process was killed."""
        self._ports: dict[tuple[str, int], Accept] = {}
        self._ends: dict[str, dict[int, End]] = {}
        self._opened: dict[tuple[str, str], int] = {}
        """The newest connection that a node has opened to another, by its number."""

    @property
    def is_in_turn(self) -> bool:
        """Whether messages arrive in a chosen order.  Then a node learns only from a message
        that its peer is gone, so a power cut sends one too.
        """
        return self.transit.choose is not None

    def link(self, source: str, target: str) -> NetworkLink:
        link = self._links.get((source, target))
        if link is None:
            link = NetworkLink(source, target, self._decisions, self.transit, self._report)
            link.late_share = self._late_share
            self._links[source, target] = link
        return link

    def set_late_share(self, share: float) -> None:
        """Let that part (0 to 1) of all messages be late from now on."""
        self._late_share = share
        for link in self._links.values():
            link.late_share = share

    def started(self, process: Process) -> None:
        """Let a node's machine answer: its process begins."""
        self._up[process.name] = process
        self._without_process.pop(process.name, None)
        for end in [end for end in self._ends.get(process.name, {}).values() if end.is_missed]:
            self._refuse(end)

    def died(self, process: Process, *, silently: bool) -> None:
        """End a process's network; unless `silently`, its connections are closed."""
        self._up.pop(process.name, None)
        if not silently:
            self._without_process[process.name] = None
        for key in [key for key in self._ports if key[0] == process.name]:
            del self._ports[key]
        ends = self._ends.get(process.name, {})
        # A copy: an end that is forgotten leaves the dictionary.
        for end in list(ends.values()):
            end.is_open = False
            if silently and not self.is_in_turn:
                end.is_missed = end.newest is not None
            else:
                self.forget(end)
                end.way_out.act(end.peer.hang_up, end.peer.process.context, after=end.peer)

    def listen(self, process: Process, accept: Accept, port: int) -> None:
        """Take connections at that port for as long as the process lives."""
        self._ports[process.name, port] = accept

    async def connect(
        self, process: Process, host: str, port: int, on_bodies: OnBodies, on_close: OnClose
    ) -> End:
        """Open a connection.

        Raises `ConnectionRefusedError`, `ConnectionResetError` and `TimeoutError`.
        """
        mine = End(self, process, self.link(process.name, host))
        mine.number = self._opened[process.name, host] = (
            self._opened.get((process.name, host), -1) + 1
        )
        mine.on_bodies = on_bodies
        answered: asyncio.Future[bool] = self._loop.create_future()

        def answer(accepted: bool) -> None:
            if not answered.done():
                mine.when_closed(on_close)
                answered.set_result(accepted)
            elif accepted:
                # The caller has given up waiting, so nothing would use the connection.
                mine.close()

        def ask() -> None:
            """Answer on the other machine, before a process there runs."""
            if host in self._up or host in self._without_process:
                accepted = host in self._up and self._accept(mine, self._up[host], port)
                back = self.link(host, process.name)
                back.act(lambda: answer(accepted), process.context, after=mine)

        mine.way_out.act(ask, self._loop.world)
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            accepted = await answered
        if not accepted:
            raise ConnectionRefusedError(f"{host} refuses connections to port {port}")
        if not mine.is_open:  # Accepted and closed in one turn, before this task went on.
            raise ConnectionResetError(104, f"{host} closed the connection")
        return mine

    def reset(self, one: str, other: str) -> None:
        """Break the connections between two nodes; both ends notice."""
        for end in list(self._ends.get(one, {}).values()):
            if end.peer.process.name == other and end.is_open:
                for each in (end, end.peer):
                    self._loop.call_soon(each.closed, context=each.process.context)

    def behave(self) -> None:
        """End all faults: no link is cut, slow or worse."""
        self.set_late_share(0.0)
        for link in self._links.values():
            link.behave()

    def miss(self, dead: End) -> None:
        """Refuse a message to an end that died, as soon as its machine is up."""
        dead.is_missed = True
        if dead.process.name in self._up:
            self._refuse(dead)

    def forget(self, end: End) -> None:
        """Forget a connection that has ended here."""
        self._ends.get(end.process.name, {}).pop(id(end), None)

    def _accept(self, asking: End, listener: Process, port: int) -> bool:
        accept = self._ports.get((listener.name, port))
        if accept is None or not asking.process.is_alive:
            return False
        end = End(self, listener, self.link(listener.name, asking.process.name))
        end.peer, asking.peer = asking, end
        end.number = asking.number
        for each in (asking, end):
            self._ends.setdefault(each.process.name, {})[id(each)] = each

        def hand_over() -> None:
            end.on_bodies = accept(end)

        # In the listener's context: its process runs it, or holds it while it is paused.
        self._loop.call_soon(hand_over, context=listener.context)
        return True

    def _refuse(self, dead: End) -> None:
        self.forget(dead)
        dead.way_out.act(dead.peer.closed, dead.peer.process.context)


class NodeNetwork:
    """The port to the network, as one process has it."""

    def __init__(self, network: SimNetwork, process: Process) -> None:
        self._network = network
        self._process = process

    async def connect(self, host: str, port: int, on_bodies: OnBodies, on_close: OnClose) -> End:
        """Connect; the host is a node's name.  Raises `OSError`, `TimeoutError` included."""
        return await self._network.connect(self._process, host, port, on_bodies, on_close)

    def listen(self, accept: Accept, port: int) -> None:
        self._network.listen(self._process, accept, port)
