"""The world of one run: its nodes, their faults, and the events that all of them report.

boot        the metadata server, then all bookies and clients; time 0 of the scenario is when
            all are there
workload    each step at its moment, each fault at its moment
epilogue    all faults are repaired; then every entry is looked up (`final_reads`)
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import Any

from labkit.system.model.errors import BKIncorrectParameterException, LabkitError
from labkit.system.trace.recorder import Row
from labkit.worlds.sim.epilogue.final_reads import read_everything
from labkit.worlds.sim.epilogue.trimming import TrimmedLedgers
from labkit.worlds.sim.machine.decisions import Decisions
from labkit.worlds.sim.machine.disk import CrashError
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.machine.network import SimNetwork
from labkit.worlds.sim.machine.zookeeper import METADATA_SERVER, PORT, SimZooKeeper
from labkit.worlds.sim.nodes.bookie_node import BookieNode
from labkit.worlds.sim.nodes.broker_node import BrokerNode
from labkit.worlds.sim.nodes.faulty_world import EPILOGUE, EVERY_NODE
from labkit.worlds.sim.nodes.ledger_numbers import LedgerNumbers
from labkit.worlds.sim.nodes.nodes import ClientNode, SimNode
from labkit.worlds.sim.nodes.results import ClientAnswers
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.bookie_script import Machine
from labkit.worlds.sim.settings.triggers import At, Moment, On
from labkit.worlds.sim.variants.variants import VARIANTS
from labkit.worlds.sim.workload.consume import Consume
from labkit.worlds.sim.workload.steps import Delete, Read, Recover, Step, Write

_BOOT_LIMIT_S = 60.0
OUTLAST_S = 30.0
"""How long a step may take when all faults are repaired and every entry was looked up."""
_GRACE_S = 1.0
"""How long a step may wait for its event when nothing else is left to do."""


class World:
    """The nodes, links and events of one run."""

    def __init__(self, scenario: Scenario, loop: SimLoop) -> None:
        self.scenario = scenario
        self.cluster = scenario.cluster
        self.loop = loop
        self.variant = VARIANTS[scenario.variant]
        self.rows: list[Row] = []
        self.answers = ClientAnswers(self.rows)
        self.tokens = count(1)
        self.choices: list[int] = []
        """For each choice: among how many messages it was made."""
        self.decisions = Decisions(scenario.seed, scenario.decisions)
        self.network = SimNetwork(loop, self.decisions, self._report_link)
        timeout_s = self.cluster.session_timeout_ms / 1000
        self.zookeeper = SimZooKeeper(loop, timeout_s, self.decisions, self._report_session)
        self.zookeeper.on_stored = TrimmedLedgers(scenario, self.answers).stored
        self.bookies = [BookieNode(self, name) for name in self.cluster.names]
        self.brokers = [BrokerNode(self, name) for name in self.cluster.broker_names]
        self._ledgers = LedgerNumbers()
        self.clients = {
            name: ClientNode(self, name, self._ledgers) for name in (*scenario.clients, EPILOGUE)
        }
        self.nodes: dict[str, SimNode] = {
            node.name: node for node in (*self.bookies, *self.brokers)
        }
        self.nodes.update(self.clients)
        self._began = 0.0
        self._is_over = False
        self.has_ended = False
        """Whether the run is over: nothing that happens later is an event of it."""
        self._under_way: dict[asyncio.Future[None], tuple[Step, SimNode]] = {}
        """The steps that have begun, and not ended."""
        self._error: Exception | None = None
        self._awaited: dict[str, list[_Awaited]] = {}
        loop.set_exception_handler(self._failed)

    async def live(self) -> None:
        """Run from boot to epilogue."""
        await self._boot()
        self._began = self.loop.now
        self.network.set_late_share(self.scenario.late_share)
        for bookie in self.bookies:
            bookie.set_slow_share(self.scenario.slow_share)
        for fault in self.scenario.faults:
            self.at(fault.when, partial(fault.strike, self))
        await self.work()
        self._repair_all()
        await self._let_consumers_end()
        await read_everything(self)
        self.loop.report_all_lost_errors()
        self.has_ended = True
        if self._error is not None:
            raise self._error

    async def outlast(self) -> None:
        """See whether the steps that are still under way end, now that all faults are repaired.

        To be called after `live`.  In a chosen order no time-out fires, so there nothing is waited
        for.
        """
        if not self._under_way or self.scenario.in_turn:
            return
        for broker in self.brokers:
            broker.start()
        steps = dict(self._under_way)
        if all(isinstance(step, Read | Recover | Delete) for step, _ in steps.values()):
            self._ledgers.no_more()
        before = len(self.answers.noted)
        await asyncio.wait(list(steps), timeout=OUTLAST_S)
        # The trace has no events of what the steps got meanwhile.
        del self.answers.noted[before:]
        for ended, (step, node) in steps.items():
            self.answers.outlasted(node.name, str(step), OUTLAST_S, has_ended=ended.done())

    # What steps and faults use

    @property
    def names(self) -> tuple[str, ...]:
        """All nodes, the metadata server included."""
        return (*self.nodes, METADATA_SERVER)

    @property
    def machines(self) -> Mapping[str, Machine]:
        """The disks of each bookie as they are now, by its name."""
        return {bookie.name: bookie.machine for bookie in self.bookies}

    def bookie(self, name: str) -> BookieNode:
        node = self.nodes[name]
        if not isinstance(node, BookieNode):
            raise BKIncorrectParameterException(f"a fault needs a bookie, and {name} is not one")
        return node

    def broker(self, name: str) -> BrokerNode:
        node = self.nodes[name]
        if not isinstance(node, BrokerNode):
            raise BKIncorrectParameterException(f"a fault needs a broker, and {name} is not one")
        return node

    def misbehave(self, source: str, target: str, for_ms: float, **fields: float) -> None:
        """Set these fields of the links that the two names (`*`: every node) mean, for a time."""
        sources = self.names if source == EVERY_NODE else (source,)
        targets = self.names if target == EVERY_NODE else (target,)
        links = [self.network.link(a, b) for a in sources for b in targets if a != b]

        def put(values: Mapping[str, float]) -> None:
            for link in links:
                for name, value in values.items():
                    setattr(link, name, value)

        put(fields)
        self.end_after(for_ms, lambda: put(dict.fromkeys(fields, 0.0)))

    def after(self, ms: float, action: Callable[[], None]) -> None:
        """Call `action` in `ms` milliseconds of the world's time."""
        self.loop.call_true(self.loop.now + ms / 1000, action, context=self.loop.world)

    def end_after(self, ms: float, action: Callable[[], None]) -> None:
        """Call `action`, which ends a fault, in `ms` milliseconds; 0: only in the epilogue."""
        if ms:
            self.after(ms, action)

    def cut(self, source: str, target: str, for_ms: float) -> None:
        link = self.network.link(source, target)
        link.cut()
        self.end_after(for_ms, link.heal)

    def at(self, moment: Moment, action: Callable[[], None]) -> None:
        """Call `action` at a moment of the scenario, unless the epilogue comes first."""

        def act() -> None:
            if not self._is_over:
                action()

        if isinstance(moment, At):
            due = self._began + moment.ms / 1000
            self.loop.call_true(due, act, context=self.loop.world)
        else:
            self._awaited.setdefault(moment.kind, []).append(_Awaited(moment, action))

    # What all report

    def take(self, rows: list[Row]) -> None:
        if self.has_ended:
            return
        self.rows += rows
        if self._awaited:
            for row in rows:
                if row.kind in self._awaited:
                    self._happened(row)

    def report(
        self,
        kind: str,
        node: str,
        *,
        peer: str = "",
        file: str = "",
        offset: int = -1,
        size: int = -1,
        note: str = "",
    ) -> None:
        """Add an event that the world itself brings about."""
        now = self.loop.now_us()
        self.take([Row(now, node, kind, peer=peer, file=file, offset=offset, size=size, note=note)])

    # Inside

    async def _boot(self) -> None:
        server = self.zookeeper.process
        self.loop.start(server)
        self.network.started(server)
        self.network.listen(server, self.zookeeper.accept, PORT)
        all_up: asyncio.Future[None] = self.loop.create_future()
        self.at(On("node.started", nth=len(self.nodes)), lambda: all_up.set_result(None))
        for node in self.nodes.values():
            node.start()
        async with asyncio.timeout(_BOOT_LIMIT_S):
            await all_up

    async def work(self) -> None:
        deadline = self.loop.now + self.scenario.limit_s
        runs = [(step, *self._prepare(step)) for step in self.scenario.workload]
        await self._wait([ended for step, _, ended in runs if isinstance(step.when, At)], deadline)
        await self._wait([begun for _, begun, _ in runs], min(deadline, self.loop.now + _GRACE_S))
        await self._wait([ended for _, begun, ended in runs if begun.done()], deadline)

    async def _wait(self, futures: list[asyncio.Future[None]], deadline: float) -> None:
        """Wait for all of them, but not beyond the deadline."""
        if futures:
            await asyncio.wait(futures, timeout=deadline - self.loop.now)

    def _prepare(self, step: Step) -> tuple[asyncio.Future[None], asyncio.Future[None]]:
        """Run it at its moment; the futures are done when it has begun, and when it has ended,
        however it did.
        """
        node = self.clients[step.client]
        begun: asyncio.Future[None] = self.loop.create_future()
        ended: asyncio.Future[None] = self.loop.create_future()

        def end(how: str) -> None:
            if not ended.done():
                self.report("step.ended", node.name, note=f"{step}: {how}")
                ended.set_result(None)
                self._under_way.pop(ended, None)
                if isinstance(step, Write):
                    self._ledgers.writer_ended(step.ledger)

        async def run() -> None:
            await node.ready()
            self.report("step.started", node.name, note=str(step))
            try:
                await step.run(node)
            except LabkitError as error:
                end(f"{type(error).__name__}: {error}")
            else:
                end("done")

        def begin() -> None:
            begun.set_result(None)
            if node.process is None or not node.process.is_alive:
                end("its node is down")
            else:
                node.process.at_death.append(lambda: end("its node died"))
                self._under_way[ended] = step, node
                node.spawn(run())

        self.at(step.when, partial(self.let_begin, step, begin))
        return begun, ended

    def let_begin(self, step: Step, begin: Callable[[], None]) -> None:
        begin()

    def _repair_all(self) -> None:
        """End all faults, and let none begin."""
        self._is_over = True
        # A fault that waits for an event would strike in the epilogue.
        self._awaited.clear()
        # The epilogue asks for everything: which message comes first makes no difference there.
        self.network.transit.choose = None
        self.network.behave()
        self.zookeeper.behave()
        for node in self.nodes.values():
            node.repair()
            node.resume()

    async def _let_consumers_end(self) -> None:
        """Wait for the steps that consume: the epilogue ends the brokers, whose successors would
        deliver again what these have forgotten.
        """
        steps = {
            ended: each
            for ended, each in self._under_way.items()
            if isinstance(each[0], Consume) and not self.scenario.in_turn
        }
        if not steps:
            return
        for server in (*self.bookies, *self.brokers):
            server.start()
        await asyncio.wait(list(steps), timeout=OUTLAST_S)
        for ended, (step, node) in steps.items():
            if not ended.done():
                del self._under_way[ended]
                self.answers.outlasted(node.name, str(step), OUTLAST_S, has_ended=False)

    def _happened(self, row: Row) -> None:
        due = [each for each in self._awaited[row.kind] if each.counts(row)]
        for each in due:
            self._awaited[row.kind].remove(each)
            each.action()

    def _failed(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Report an error that nothing catches: it is a mistake, and must be seen."""
        if "process" not in context:
            # No step and no task: a future was collected with its error unread, as of a late add.
            return
        process, error = context["process"], context["exception"]
        if process is None and self._error is None:
            self._error = error
        elif process is not None and process.is_alive and not isinstance(error, CrashError):
            self.report("node.failed", process.name, note=context["message"])

    def _report_link(self, kind: str, source: str, target: str, note: str) -> None:
        self.report(kind, source, peer=target, note=note)

    def _report_session(self, kind: str, owner: str, note: str) -> None:
        self.report(kind, owner, note=note)


class _Awaited:
    """An action that waits for an event."""

    def __init__(self, moment: On, action: Callable[[], None]) -> None:
        self.action = action
        self._moment = moment
        self._count = 0

    def counts(self, row: Row) -> bool:
        if self._moment.fits(row):
            self._count += 1
        return self._count == self._moment.nth and self._moment.fits(row)
