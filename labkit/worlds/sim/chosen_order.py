"""The world in which time orders no messages: each arrives when it is chosen.

Whenever nothing is left to do, one of the messages under way is chosen (`next 0`, `next 1`, ...),
the first of any connection.  By the decision `crash b1 5` bookie b1 loses its power when it has got
five messages, with all that it had not synced, and is back at once.

To keep the choices few:

    a disk's call takes no time: what a node does with a message, it does at once
    clients are connected to all bookies beforehand
    a step that waits for an event begins with a message from its client to itself
    a restarted bookie has finished starting before the next message arrives
    the epilogue waits until nothing is under way

The clock goes on as if each message took as long as usual; what waits for a time (a time-out, a
flush) happens when it has come.
"""

import asyncio
from collections.abc import Callable, Sequence

from labkit.system.model.errors import BKException
from labkit.system.model.wire import Answer, Opcode, encode_read
from labkit.worlds.sim.machine.links import Parcel
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.machine.zookeeper import METADATA_SERVER
from labkit.worlds.sim.nodes.faulty_world import EPILOGUE
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.workload.steps import Step
from labkit.worlds.sim.world import World

_NO_LEDGER = 2**62


class ChosenOrderWorld(World):
    """One run whose messages arrive in a chosen order."""

    def __init__(self, scenario: Scenario, loop: SimLoop) -> None:
        super().__init__(scenario, loop)
        self._quiet: asyncio.Future[None] | None = None
        self.received = dict.fromkeys(scenario.cluster.names, 0)
        """How many chosen messages each bookie got."""
        self.may_crash = list(self.received)
        """Bookies that got something now, or nothing yet."""
        for bookie in self.bookies:
            bookie.take_no_time()
        loop.on_idle = self.deliver_next

    def let_begin(self, step: Step, begin: Callable[[], None]) -> None:
        if isinstance(step.when, On):
            self.network.link(step.client, step.client).act(begin, self.loop.world)
        else:
            begin()

    async def work(self) -> None:
        for name, node in self.clients.items():
            if name != EPILOGUE:
                await node.spawn(self._connect(node))
        self.network.transit.choose = self.choose
        await super().work()
        self._quiet = self.loop.create_future()
        await self._quiet

    async def _connect(self, node: ClientNode) -> None:
        """Ask each bookie for an entry that does not exist."""
        await node.ready()
        body = encode_read(_NO_LEDGER, 0)
        for name in self.scenario.cluster.names:
            answered: asyncio.Future[Answer | BKException] = self.loop.create_future()
            client = node.client.context.bookies.get(name)
            client.ask(Opcode.READ, _NO_LEDGER, 0, body, answered.set_result)
            await answered

    def deliver_next(self) -> bool:
        """Called when nothing is left to do: let a message arrive, or the epilogue begin."""
        if self.crash_some() or self.network.transit.deliver_chosen():
            return True
        if self._quiet is None or self._quiet.done():
            return False
        self._quiet.set_result(None)
        return True

    def crash_some(self) -> bool:
        """Crash the bookies whose turn it is; False when there are none."""
        if self.network.transit.choose is None:
            return False
        may_crash, self.may_crash = self.may_crash, []
        lots = [
            self.decisions.of(f"crash {name}").take(self.received[name], 0) for name in may_crash
        ]
        for name, crashes in zip(may_crash, lots, strict=True):
            if crashes:
                ways = f"{name}>{METADATA_SERVER}", f"{METADATA_SERVER}>{name}"
                self.network.transit.at_once.update(dict.fromkeys(ways))
                self.nodes[name].crash("lost")
                self.nodes[name].start()
        return any(lots)

    def choose(self, possible: Sequence[Parcel]) -> int:
        number, count = len(self.choices), len(possible)
        self.choices.append(count)
        chosen = self.decisions.of("next").take(number, 0.5, lambda lot: float(int(lot * count)))
        place = min(int(chosen), count - 1)
        self.arrives(possible[place])
        return place

    def arrives(self, parcel: Parcel) -> None:
        name = parcel.link.target
        if name in self.received:
            self.received[name] += 1
            self.may_crash.append(name)
