"""The world of one run: its nodes, the faults that affect them, and the events that they report.

boot        start the metadata server, then all bookies, brokers and clients; time 0 of the
            scenario is the moment when all of them are up
workload    run each step and inject each fault at the specified time
epilogue    repair all faults, and then read every entry (`final_reads`)
"""

import asyncio
from collections.abc import Callable, Mapping
from functools import partial
from itertools import count
from typing import Any, Unpack

from labkit.system.model.errors import LabkitError
from labkit.system.trace.answers import StepOutlastedRun
from labkit.system.trace.events import Event, Fields, unnumbered_event
from labkit.worlds.sim.epilogue.final_reads import read_everything
from labkit.worlds.sim.epilogue.trimming import TrimmedLedgers
from labkit.worlds.sim.machine.decisions import Decisions
from labkit.worlds.sim.machine.disk import CrashError
from labkit.worlds.sim.machine.loop import BudgetError, SimLoop
from labkit.worlds.sim.machine.network import SimNetwork
from labkit.worlds.sim.machine.zookeeper import METADATA_SERVER, PORT, SimZooKeeper
from labkit.worlds.sim.nodes.bookie_node import BookieNode
from labkit.worlds.sim.nodes.broker_node import BrokerNode
from labkit.worlds.sim.nodes.faulty_world import EPILOGUE, EVERY_NODE
from labkit.worlds.sim.nodes.ledger_numbers import LedgerNumbers
from labkit.worlds.sim.nodes.nodes import ClientNode, SimNode
from labkit.worlds.sim.nodes.results import ResultRecorder
from labkit.worlds.sim.scenario.faults import Fault
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.bookie_script import Machine
from labkit.worlds.sim.settings.triggers import At, Moment, On
from labkit.worlds.sim.variants.variants import VARIANTS
from labkit.worlds.sim.workload.consume import Consume
from labkit.worlds.sim.workload.steps import Delete, Read, Recover, Step, Write

_BOOT_LIMIT_S = 60.0
OUTLAST_S = 30.0
"""How long a step may still take after all faults have been repaired and every entry has been read.
"""
_GRACE_S = 1.0
"""How long a step may wait for its trigger when everything else is done."""


class World:
    def __init__(self, scenario: Scenario, loop: SimLoop) -> None:
        self.scenario = scenario
        self.cluster = scenario.cluster
        self.loop = loop
        self.variant = VARIANTS[scenario.variant]
        self.rows: list[Event] = []
        self.results = ResultRecorder(self.rows)
        self.tokens = count(1)
        self.choices: list[int] = []
        """For each choice, the number of candidates."""
        self.struck: list[tuple[int, Fault]] = []
        """The faults that have occurred so far, each with its time in microseconds."""
        self.decisions = Decisions(scenario.seed, scenario.decisions, loop.now_us)
        self.network = SimNetwork(loop, self.decisions, self.report)
        timeout_s = self.cluster.session_timeout_ms / 1000
        self.zookeeper = SimZooKeeper(loop, timeout_s, self.decisions, self.report)
        self.zookeeper.on_stored = TrimmedLedgers(scenario, self.results).stored
        self.bookies = {name: BookieNode(self, name) for name in self.cluster.names}
        self.brokers = {name: BrokerNode(self, name) for name in self.cluster.broker_names}
        self._ledgers = LedgerNumbers()
        self.clients = {
            name: ClientNode(self, name, self._ledgers) for name in (*scenario.clients, EPILOGUE)
        }
        self.nodes: dict[str, SimNode] = {**self.bookies, **self.brokers, **self.clients}
        self._started_at = 0.0
        self.in_epilogue = False
        self.recording_stopped = False
        """Whether everything has been read. Later events are not recorded."""
        self._running_steps: dict[asyncio.Future[None], tuple[Step, SimNode]] = {}
        """Steps that have started but not ended."""
        self._error: Exception | None = None
        self._waiting_actions: dict[str, list[_WaitingAction]] = {}
        loop.set_exception_handler(self._on_uncaught_exception)

    async def run(self) -> None:
        await self._boot()
        self._started_at = self.loop.now
        self.network.set_late_share(self.scenario.late_share)
        for bookie in self.bookies.values():
            bookie.disk_faults.slow_share = self.scenario.slow_share
        for fault in self.scenario.faults:
            self.at(fault.when, partial(self.strike, fault))
        await self.work()
        self._repair_all()
        await self._wait_for_consumers()
        await read_everything(self.scenario, self.bookies, self.brokers, self.clients)
        self.loop.report_all_lost_errors()
        self.recording_stopped = True
        if self._error is not None:
            raise self._error

    async def outlast(self) -> None:
        """Check whether the steps that are still running will end now that all faults have been
        repaired.

        Call this method after `run`. It does nothing if the order of messages is chosen, because
        such a run usually reaches the epilogue before the first request times out.
        """
        if not self._running_steps or self.scenario.in_turn:
            return
        for broker in self.brokers.values():
            broker.start()
        steps = dict(self._running_steps)
        if all(isinstance(step, Read | Recover | Delete) for step, _ in steps.values()):
            self._ledgers.no_more()
        before = len(self.results.recorded)
        await asyncio.wait(list(steps), timeout=OUTLAST_S)
        # The trace contains no events of this phase, so drop its results as well.
        del self.results.recorded[before:]
        for ended, (step, node) in steps.items():
            self.results.record(StepOutlastedRun, node.name, str(step), OUTLAST_S, ended.done())

    def strike(self, fault: Fault) -> None:
        self.struck.append((self.loop.now_us(), fault))
        fault.strike(self)

    # Used by steps and faults

    @property
    def names(self) -> tuple[str, ...]:
        return (*self.nodes, METADATA_SERVER)

    @property
    def machines(self) -> Mapping[str, Machine]:
        return {name: bookie.machine for name, bookie in self.bookies.items()}

    def set_link_faults(self, source: str, target: str, for_ms: float, **fields: float) -> None:

        sources = self.names if source == EVERY_NODE else (source,)
        targets = self.names if target == EVERY_NODE else (target,)
        links = [self.network.link(a, b) for a in sources for b in targets if a != b]

        def set_all(values: Mapping[str, float]) -> None:
            for link in links:
                for name, value in values.items():
                    setattr(link, name, value)

        set_all(fields)
        self.end_after(for_ms, lambda: set_all(dict.fromkeys(fields, 0.0)))

    def after(self, ms: float, action: Callable[[], None]) -> None:
        self.loop.call_at_world_time(self.loop.now + ms / 1000, action, context=self.loop.world)

    def end_after(self, ms: float, action: Callable[[], None]) -> None:
        if ms:
            self.after(ms, action)

    def cut(self, source: str, target: str, for_ms: float) -> None:
        link = self.network.link(source, target)
        link.cut()
        self.end_after(for_ms, link.heal)

    def at(self, moment: Moment, action: Callable[[], None]) -> None:
        """Call `action` at this moment of the scenario, unless the epilogue starts earlier."""

        def act() -> None:
            if not self.in_epilogue:
                action()

        if isinstance(moment, At):
            due = self._started_at + moment.ms / 1000
            self.loop.call_at_world_time(due, act, context=self.loop.world)
        else:
            self._waiting_actions.setdefault(moment.kind, []).append(_WaitingAction(moment, action))

    # Used by everything that reports events

    def receive_events(self, rows: list[Event]) -> None:
        if self.recording_stopped:
            return
        self.rows += rows
        for row in rows if self._waiting_actions else ():
            waiting = self._waiting_actions.get(row.kind, [])
            for each in [each for each in waiting if each.counts(row)]:
                waiting.remove(each)
                each.action()

    def report(self, kind: str, node: str, **fields: Unpack[Fields]) -> None:

        self.receive_events([unnumbered_event(self.loop.now_us(), node, kind, **fields)])

    # Internals

    async def _boot(self) -> None:
        server = self.zookeeper.process
        self.loop.start(server)
        self.network.started(server)
        self.network.listen(server, self.zookeeper.accept, PORT)
        all_up: asyncio.Future[None] = self.loop.create_future()
        self.at(On("node.started", nth=len(self.nodes)), lambda: all_up.set_result(None))
        for node in self.nodes.values():
            node.start()
        try:
            async with asyncio.timeout(_BOOT_LIMIT_S):
                await all_up
        except TimeoutError:
            down = [name for name, node in self.nodes.items() if not node.is_serving]
            raise BudgetError(
                f"{', '.join(down)} did not start within {_BOOT_LIMIT_S:g} s of virtual time; look"
                " for decisions that delay disk calls or messages for too long"
            ) from None

    async def work(self) -> None:
        deadline = self.loop.now + self.scenario.limit_s
        runs = [(step, *self._schedule(step)) for step in self.scenario.workload]

        async def wait(futures: list[asyncio.Future[None]], until: float) -> None:
            if futures:
                await asyncio.wait(futures, timeout=until - self.loop.now)

        await wait([ended for step, _, ended in runs if isinstance(step.when, At)], deadline)
        await wait([started for _, started, _ in runs], min(deadline, self.loop.now + _GRACE_S))
        await wait([ended for _, started, ended in runs if started.done()], deadline)

    def _schedule(self, step: Step) -> tuple[asyncio.Future[None], asyncio.Future[None]]:
        """Schedule a step. Return two futures: the first is done when the step starts, and the
        second is done when the step ends for any reason.
        """
        node = self.clients[step.client]
        started: asyncio.Future[None] = self.loop.create_future()
        ended: asyncio.Future[None] = self.loop.create_future()

        def end(detail: str = "", error: str = "", reason: str = "") -> None:
            if not ended.done():
                self.report(
                    "step.ended",
                    node.name,
                    step=str(step),
                    detail=detail,
                    error=error,
                    explanation=reason,
                )
                ended.set_result(None)
                self._running_steps.pop(ended, None)
                if isinstance(step, Write):
                    self._ledgers.writer_ended(step.ledger)

        async def run() -> None:
            await node.ready()
            self.report("step.started", node.name, step=str(step))
            try:
                await step.run(node)
            except LabkitError as error:
                end(error=type(error).__name__, reason=str(error))
            else:
                end("done")

        def begin() -> None:
            started.set_result(None)
            if node.process is None or not node.process.is_alive:
                end("its node is down")
            else:
                node.process.on_death.append(lambda: end("its node died"))
                self._running_steps[ended] = step, node
                node.spawn(run())

        self.at(step.when, partial(self.let_begin, step, begin))
        return started, ended

    def let_begin(self, step: Step, begin: Callable[[], None]) -> None:
        begin()

    def _repair_all(self) -> None:
        self.in_epilogue = True
        # Drop these actions, so that no fault that is still waiting for its event can occur during
        # the epilogue.
        self._waiting_actions.clear()
        # Stop choosing the order of messages, which does not matter in the epilogue, because the
        # epilogue reads everything.
        self.network.transit.choose = None
        self.network.repair()
        self.zookeeper.repair()
        for node in self.nodes.values():
            node.repair()
            node.resume()

    async def _wait_for_consumers(self) -> None:
        """Wait for the steps that consume messages before the epilogue stops the brokers.

        Otherwise, the restarted brokers would redeliver all messages whose acknowledgements had not
        been stored.
        """
        steps = {
            ended: each
            for ended, each in self._running_steps.items()
            if isinstance(each[0], Consume) and not self.scenario.in_turn
        }
        if not steps:
            return
        for server in (*self.bookies.values(), *self.brokers.values()):
            server.start()
        await asyncio.wait(list(steps), timeout=OUTLAST_S)
        for ended, (step, node) in steps.items():
            if not ended.done():
                del self._running_steps[ended]
                self.results.record(StepOutlastedRun, node.name, str(step), OUTLAST_S, False)

    def _on_uncaught_exception(self, _: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        if "process" not in context:
            # This exception does not belong to a step or a task. A future, such as that of a late
            # add, was garbage-collected before its exception was retrieved.
            return
        process, error = context["process"], context["exception"]
        if process is None and self._error is None:
            self._error = error
        elif process is not None and process.is_alive and not isinstance(error, CrashError):
            name = type(error).__name__
            self.report("node.failed", process.name, error=name, explanation=context["message"])


class _WaitingAction:
    def __init__(self, moment: On, action: Callable[[], None]) -> None:
        self.action = action
        self._moment = moment
        self._count = 0

    def counts(self, row: Event) -> bool:
        """Count the event if it matches. Return whether to call the action now."""
        if not self._moment.fits(row):
            return False
        self._count += 1
        return self._count == self._moment.nth
