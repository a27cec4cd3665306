"""The simulated network: TCP-like connections over links that may be faulty.

A connection is reliable and ordered unless a link misbehaves. Data sent over a cut link waits on
the sender's side until the link heals, as if TCP retransmitted it. Frames that arrive at the same
moment are delivered together, as if a single call had received all of them.

When a process ends, its connections are closed. When a machine loses power, it sends nothing. Its
peers notice the failure only when they write to the machine after the machine is up again.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from labkit.system.model.net import OnBodies, OnClose, OnWritable
from labkit.worlds.sim.machine.decisions import Decisions
from labkit.worlds.sim.machine.links import NetworkLink, Parcel, Purpose, Report, Transit
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.machine.process import Process

_CONNECT_TIMEOUT_S = 10.0
_HIGH_WATER_BYTES = 4 * 1024 * 1024
"""Capacity of both sides' socket buffers and the sender's memory together, in bytes."""


class End:
    def __init__(self, network: "SimNetwork", process: Process, outgoing: NetworkLink) -> None:
        self.process = process
        self.outgoing = outgoing
        self.peer = self
        self.on_bodies: OnBodies | None = None
        self.is_open = True
        self.number = 0
        """The number of this connection among the connections that one node has opened to the
        other.
        """
        self.due = 0.0
        """The time at which the newest parcel to this end is due. Later parcels cannot arrive
        before it.
        """
        self.newest: Parcel | None = None
        """The newest parcel to this end that is still in transit. Frames that are due at the same
        time are appended to this parcel, so that they arrive together.
        """
        self.is_reset_due = False
        """Whether to send a reset once the machine is up, because the process died with data in
        transit.
        """
        self._network = network
        self.waiting: list[Any] | None = None
        self._is_hung_up = False
        self._unreceived_bytes = 0
        """Bytes sent from this end that are in transit or waiting at the other end."""
        self._when_closed: list[OnClose] = []
        self._when_writable: list[OnWritable] = []

    def when_closed(self, action: OnClose) -> None:
        self._when_closed.append(action)

    def send(self, bodies: Sequence[Any]) -> None:
        peer = self.peer
        if not self.is_open or not self.process.is_alive:
            return
        if not (peer.process.is_alive or self._network.is_order_chosen):
            self._network.reset_when_up(peer)
        elif self.outgoing.send(peer, list(bodies), peer.process.context):
            self._unreceived_bytes += _size(bodies)

    @property
    def is_writable(self) -> bool:
        return self._unreceived_bytes < _HIGH_WATER_BYTES

    def when_writable(self, on_writable: OnWritable) -> None:
        self._when_writable.append(on_writable)

    def pause(self) -> None:
        if self.waiting is None:
            self.waiting = []

    def resume(self) -> None:
        waiting, self.waiting = self.waiting, None
        if waiting:
            # Deliver the frames in the loop's next round, as a socket would, so that this call does
            # not re-enter the caller.
            asyncio.get_running_loop().call_soon(self.receive, waiting)
        if self._is_hung_up:
            asyncio.get_running_loop().call_soon(self.hang_up)

    def close(self) -> None:
        """Close the connection. `on_close` is called on both ends."""
        if self.is_open and self.process.is_alive:
            asyncio.get_running_loop().call_soon(self.closed)
            self.hang_up_peer()

    def receive(self, bodies: list[Any]) -> None:
        if self.waiting is not None:
            self.waiting += bodies
        elif self.is_open and self.on_bodies is not None:
            self.peer.on_received(bodies)
            self.on_bodies(bodies)

    def on_received(self, bodies: Sequence[Any]) -> None:
        """Count frames that the other end has received, including copies made by the network."""
        if not self._unreceived_bytes:
            return
        was_writable = self.is_writable
        self._unreceived_bytes = max(0, self._unreceived_bytes - _size(bodies))
        if not was_writable and self.is_writable:
            for action in self._when_writable:
                asyncio.get_running_loop().call_soon(action, context=self.process.context)

    def hang_up_peer(self) -> None:
        peer = self.peer
        self.outgoing.act(Purpose.CLOSE, peer.hang_up, peer.process.context, after=peer)

    def hang_up(self) -> None:
        """Close this end of the connection as well, after handling everything that was received
        before.
        """
        if self.waiting is None:
            self.closed()
        else:
            self._is_hung_up = True

    def closed(self) -> None:
        if self.is_open:
            self.is_open = False
            self._network.forget(self)
            for action in self._when_closed:
                action()


def _size(bodies: Sequence[Any]) -> int:
    """Return the size of the frames in bytes. Metadata messages are small, so their size is
    ignored.
    """
    size = 0
    for body in bodies:
        if isinstance(body, bytes):
            size += len(body)
    return size


Accept = Callable[[End], OnBodies]


class SimNetwork:
    """All connections and links.

    If a machine has lost power, its ends of the connections remain. Such an endpoint is reset once
    its machine is up again, either because data was sent to it before the power failure
    (`started`), or because data is sent to it later (`reset_when_up`).
    """

    def __init__(self, loop: SimLoop, decisions: Decisions, report: Report) -> None:
        self.transit = Transit(loop)
        self._loop = loop
        self._decisions = decisions
        self._report = report
        self._late_share = 0.0
        self._links: dict[tuple[str, str], NetworkLink] = {}
        self._up: dict[str, Process] = {}
        self._without_process: dict[str, None] = {}
        """Machines that are up but refuse connections, because their process was killed."""
        self._ports: dict[tuple[str, int], Accept] = {}
        self._ends: dict[str, dict[int, End]] = {}
        self._opened: dict[tuple[str, str], int] = {}
        """The number of the newest connection that one node has opened to another."""

    @property
    def is_order_chosen(self) -> bool:
        """Whether messages arrive in a chosen order.

        In that case, a node can learn that its peer has failed only by receiving a message, so a
        machine that loses power sends a message.
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
        self._late_share = share
        for link in self._links.values():
            link.late_share = share

    def started(self, process: Process) -> None:
        """Make a node reachable, because its process has started."""
        self._up[process.name] = process
        self._without_process.pop(process.name, None)
        for end in [end for end in self._ends.get(process.name, {}).values() if end.is_reset_due]:
            self._send_reset(end)

    def died(self, process: Process, *, silently: bool) -> None:
        """Disconnect a process that has ended. The process's peers are notified, unless `silently`
        is set because the machine has lost power. The machine of a killed process can lose power
        later.
        """
        self._up.pop(process.name, None)
        if silently:
            self._without_process.pop(process.name, None)
        else:
            self._without_process[process.name] = None
        for key in [key for key in self._ports if key[0] == process.name]:
            del self._ports[key]
        # The ends of earlier processes are still in the dictionary, but no longer open.
        for end in [each for each in self._ends.get(process.name, {}).values() if each.is_open]:
            end.is_open = False
            if silently and not self.is_order_chosen:
                end.is_reset_due = end.newest is not None
            else:
                self.forget(end)
                end.hang_up_peer()

    def listen(self, process: Process, accept: Accept, port: int) -> None:
        self._ports[process.name, port] = accept

    async def connect(
        self, process: Process, host: str, port: int, on_bodies: OnBodies, on_close: OnClose
    ) -> End:
        """Open a connection.

        Raises `ConnectionRefusedError`, `ConnectionResetError` or `TimeoutError`.
        """
        own_end = End(self, process, self.link(process.name, host))
        own_end.number = self._opened[process.name, host] = (
            self._opened.get((process.name, host), -1) + 1
        )
        own_end.on_bodies = on_bodies
        response: asyncio.Future[bool] = self._loop.create_future()

        def respond(accepted: bool) -> None:
            if not response.done():
                own_end.when_closed(on_close)
                response.set_result(accepted)
            elif accepted:
                # The caller has stopped waiting, so the connection would not be used.
                own_end.close()

        def request() -> None:
            """Respond to the connection request as the other machine's operating system."""
            if host in self._up or host in self._without_process:
                accepted = host in self._up and self._accept(own_end, self._up[host], port)
                back = self.link(host, process.name)
                purpose = Purpose.ACCEPT if accepted else Purpose.REFUSE
                back.act(purpose, lambda: respond(accepted), process.context, after=own_end)

        own_end.outgoing.act(Purpose.CONNECT, request, self._loop.world)
        async with asyncio.timeout(_CONNECT_TIMEOUT_S):
            accepted = await response
        if not accepted:
            raise ConnectionRefusedError(f"{host} refused the connection to port {port}")
        if not own_end.is_open:  # The other side closed it before this task was resumed.
            raise ConnectionResetError(104, f"{host} closed the connection")
        return own_end

    def reset(self, one: str, other: str) -> None:
        """Break all connections between two nodes. Both ends notice this."""
        for end in list(self._ends.get(one, {}).values()):
            if end.peer.process.name == other and end.is_open:
                for each in (end, end.peer):
                    self._loop.call_soon(each.closed, context=each.process.context)

    def repair(self) -> None:
        self.set_late_share(0.0)
        for link in self._links.values():
            link.repair()

    def reset_when_up(self, dead: End) -> None:
        """Reset the connection of a dead process as soon as the process's machine is up again."""
        dead.is_reset_due = True
        if dead.process.name in self._up:
            self._send_reset(dead)

    def forget(self, end: End) -> None:
        self._ends.get(end.process.name, {}).pop(id(end), None)

    def _accept(self, requester: End, listener: Process, port: int) -> bool:
        accept = self._ports.get((listener.name, port))
        if accept is None or not requester.process.is_alive:
            return False
        end = End(self, listener, self.link(listener.name, requester.process.name))
        end.peer, requester.peer = requester, end
        end.number = requester.number
        for each in (requester, end):
            self._ends.setdefault(each.process.name, {})[id(each)] = each

        def hand_over() -> None:
            end.on_bodies = accept(end)

        # Use the listener's context, so that the step runs in the listener's process, or waits
        # while that process is paused.
        self._loop.call_soon(hand_over, context=listener.context)
        return True

    def _send_reset(self, dead: End) -> None:
        self.forget(dead)
        dead.outgoing.act(Purpose.CLOSE, dead.peer.closed, dead.peer.process.context)


class NodeNetwork:
    """The network from the point of view of one process. Implements the network port."""

    def __init__(self, network: SimNetwork, process: Process) -> None:
        self._network = network
        self._process = process

    async def connect(self, host: str, port: int, on_bodies: OnBodies, on_close: OnClose) -> End:
        return await self._network.connect(self._process, host, port, on_bodies, on_close)

    def listen(self, accept: Accept, port: int) -> None:
        self._network.listen(self._process, accept, port)
