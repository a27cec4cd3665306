"""The world in which time orders no messages: each arrives when it is chosen.

Whenever nothing is left to do, one of the messages under way is chosen (`next 0`, `next 1`, ...),
the first of any connection.  So that only what matters is chosen:

    a disk's call takes no time: what a node does with a message, it does at once
    clients are connected to all bookies beforehand
    a step that waits for an event begins by a message of its own, from its client to itself
    the epilogue waits until nothing is under way

The clock goes on as if each message took as long as usual; what waits for a time (a time-out, a
flush) happens when it has come.
"""

import asyncio
from collections.abc import Callable, Sequence

from labkit.model.errors import BKException
from labkit.model.wire import Answer, Opcode, encode_read
from labkit.sim.links import Parcel
from labkit.sim.loop import SimLoop
from labkit.sim.moments import On
from labkit.sim.nodes import ClientNode
from labkit.sim.scenario import EPILOGUE, Scenario
from labkit.sim.workload import Step
from labkit.sim.world import World

_NO_LEDGER = 2**62


class InTurnWorld(World):
    """Everything of one run whose messages arrive in a chosen order."""

    def __init__(self, scenario: Scenario, loop: SimLoop) -> None:
        super().__init__(scenario, loop)
        self._quiet: asyncio.Future[None] | None = None
        for bookie in self.bookies:
            bookie.take_no_time()
        loop.on_idle = self._go_on

    def let_begin(self, step: Step, begin: Callable[[], None]) -> None:
        """The step's moment has come."""
        if isinstance(step.when, On):
            self.network.link(step.client, step.client).act(begin, self.loop.world)
        else:
            begin()

    async def _work(self) -> None:
        """Run the workload."""
        for name, node in self.clients.items():
            if name != EPILOGUE:
                await node.spawn(self._connect(node))
        self.network.transit.choose = self._choose
        await super()._work()
        self._quiet = self.loop.create_future()
        await self._quiet

    async def _connect(self, node: ClientNode) -> None:
        """Ask each bookie for an entry that nobody has."""
        await node.ready()
        body = encode_read(_NO_LEDGER, 0)
        for name in self.scenario.cluster.names:
            answered: asyncio.Future[Answer | BKException] = self.loop.create_future()
            client = node.client.context.bookies.get(name)
            client.ask(Opcode.READ, _NO_LEDGER, 0, body, answered.set_result)
            await answered

    def _go_on(self) -> bool:
        """Nothing is left to do now: let a message arrive, or the epilogue begin."""
        if self.network.transit.deliver_chosen():
            return True
        if self._quiet is None or self._quiet.done():
            return False
        self._quiet.set_result(None)
        return True

    def _choose(self, possible: Sequence[Parcel]) -> int:
        number, count = len(self.choices), len(possible)
        self.choices.append(count)
        chosen = self.decisions.of("next").take(number, 0.5, lambda lot: float(int(lot * count)))
        return min(int(chosen), count - 1)
