"""A world in which the order of messages is determined by decisions instead of times.

Whenever the event loop is idle, one of the messages in flight is delivered: the decisions `next 0`,
`next 1`, ... choose among the oldest messages of each connection. If the decision `crash b1 5` is
set, bookie b1 loses power after its fifth message. The bookie loses everything that it has not
synced, and restarts immediately. If the decision `wait 5` is set, the number of milliseconds given
by its value passes before the sixth choice, so that requests time out. Meanwhile, all messages
except those to and from the metadata server remain in flight.

To keep the number of choices small:

    disk calls take no time, so a node handles each message without interruption
    clients are connected to all bookies in advance
    a step that waits for an event starts with a message from its client to itself
    a restarted bookie finishes starting before the next message arrives
    the epilogue waits until no message is in flight

Each delivery advances the clock by the usual latency of a message. Timers (for timeouts and
flushes) fire when the clock reaches them.
"""

import asyncio
from collections.abc import Callable, Sequence

from labkit.system.model.errors import BKException
from labkit.system.model.wire import Opcode, Response, encode_read
from labkit.worlds.sim.machine.links import Parcel, Purpose
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.machine.zookeeper import METADATA_SERVER
from labkit.worlds.sim.nodes.faulty_world import EPILOGUE
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.workload.steps import Step
from labkit.worlds.sim.world import World

_MISSING_LEDGER = 2**62


def is_metadata(parcel: Parcel) -> bool:
    """Return whether the metadata server sends or receives the message."""
    return METADATA_SERVER in (parcel.link.source, parcel.link.target)


class ChosenOrderWorld(World):
    def __init__(self, scenario: Scenario, loop: SimLoop) -> None:
        super().__init__(scenario, loop)
        self._quiet: asyncio.Future[None] | None = None
        self.received = dict.fromkeys(scenario.cluster.names, 0)
        """The number of chosen messages that each bookie has received, plus the number of waits."""
        self.may_crash = list(self.received)
        """The bookies that have received a message since the last check. Initially, the list
        contains all bookies.
        """
        self._waits = self.decisions.of("wait")
        self._waited_before = -1
        """The number of the choice that followed the last wait."""
        self._waits_until = 0.0
        for bookie in self.bookies.values():
            bookie.disk_faults.call_s = 0.0
        loop.on_idle = self.deliver_next

    def let_begin(self, step: Step, begin: Callable[[], None]) -> None:
        if isinstance(step.when, On):
            link = self.network.link(step.client, step.client)
            link.act(Purpose.BEGIN_STEP, begin, self.loop.world)
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
        await node.ready()
        body = encode_read(_MISSING_LEDGER, 0)
        for name in self.scenario.cluster.names:
            response: asyncio.Future[Response | BKException] = self.loop.create_future()
            client = node.client.context.bookie_client.get(name)
            client.ask(Opcode.READ, _MISSING_LEDGER, 0, body, response.set_result)
            await response

    def deliver_next(self) -> bool:
        """Deliver a message, or start the epilogue. The event loop calls this method when it is
        idle.
        """
        if self._begin_or_continue_wait():
            return self.network.transit.deliver_first(is_metadata)
        if self.crash_some() or self.network.transit.deliver_chosen():
            return True
        if self._quiet is None or self._quiet.done():
            return False
        self._quiet.set_result(None)
        return True

    def _begin_or_continue_wait(self) -> bool:
        """Return whether messages are being held back because of a `wait` decision."""
        transit, number = self.network.transit, len(self.choices)
        if transit.choose is None or not transit.under_way:
            return False
        if self.loop.now < self._waits_until:
            return True
        if number == self._waited_before:
            return False
        for_ms = self._waits.value_of(number, 0)
        if for_ms:
            self._waited_before = number
            self._waits_until = self.loop.now + for_ms / 1000
            self.loop.call_at_world_time(self._waits_until, self._waited, context=self.loop.world)
        return bool(for_ms)

    def _waited(self) -> None:
        # A bookie can lose power before or after a wait.
        for name in self.received:
            self.received[name] += 1
            self.may_crash.append(name)

    def crash_some(self) -> bool:
        """Crash and restart each bookie that has a `crash` decision at this point, and return
        whether there was one.
        """
        if self.network.transit.choose is None:
            return False
        may_crash, self.may_crash = self.may_crash, []
        crashes = [
            self.decisions.of(f"crash {name}").value_of(self.received[name], 0)
            for name in may_crash
        ]
        for name, does_crash in zip(may_crash, crashes, strict=True):
            if does_crash:
                links = f"{name}>{METADATA_SERVER}", f"{METADATA_SERVER}>{name}"
                self.network.transit.at_once.update(dict.fromkeys(links))
                self.nodes[name].crash("lost")
                self.nodes[name].start()
        return any(crashes)

    def choose(self, possible: Sequence[Parcel]) -> int:
        number, count = len(self.choices), len(possible)
        self.choices.append(count)
        chosen = self.decisions.of("next").value_of(
            number, 0.5, lambda draw: float(int(draw * count))
        )
        index = min(int(chosen), count - 1)
        self.arrives(possible[index])
        return index

    def arrives(self, parcel: Parcel) -> None:
        name = parcel.link.target
        if name in self.received:
            self.received[name] += 1
            self.may_crash.append(name)
