"""Run the workload and the simple faults of a scenario on real processes.

The bookies b0, b1, ... correspond to the processes b0, b1, ... The steps are the same
as in the simulated world; `At` and `On` refer to the trace, so they take effect slightly late. Only
`Crash`, `Restart` and `Pause` of bookies are supported, and there is no epilogue.
"""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from labkit.system.client.placement.placement import in_name_order
from labkit.system.trace.events import Event, unnumbered_event
from labkit.worlds.live.processes.cluster import LocalCluster
from labkit.worlds.sim.nodes.ledger_numbers import LedgerNumbers
from labkit.worlds.sim.nodes.results import ResultRecorder
from labkit.worlds.sim.scenario.faults import Crash, Fault, Pause, Restart
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import At, Moment


class LiveRun:
    """A run of a scenario on real processes."""

    def __init__(self, scenario: Scenario, cluster: LocalCluster) -> None:
        self._scenario = scenario
        self._cluster = cluster
        self._ledgers = LedgerNumbers()
        self._names = dict(zip(scenario.cluster.names, cluster.bookie_names, strict=True))

    async def run(self, until: Callable[[Sequence[Event]], bool] = lambda events: True) -> None:
        """Wait for all steps and faults to finish, and then until the trace satisfies `until`."""
        # The parts of a node that a step uses
        nodes: dict[str, Any] = {
            name: SimpleNamespace(
                name=name,
                ledgers=self._ledgers,
                client=await self._cluster.connect(name, placement=in_name_order),
                world=SimpleNamespace(results=ResultRecorder([])),
            )
            for name in self._scenario.clients
        }
        async with asyncio.TaskGroup() as group:
            for step in self._scenario.workload:
                group.create_task(self._at(step.when, step.run(nodes[step.client])))
            for fault in self._scenario.faults:
                group.create_task(self._at(fault.when, self._strike(fault)))
        while not until(self._cluster.trace.events):  # noqa: ASYNC110 - processes tell it in time
            await asyncio.sleep(0.05)
        await self._cluster.settled()

    async def _at(self, moment: Moment, action: Coroutine[Any, Any, None]) -> None:
        if isinstance(moment, At):
            await asyncio.sleep(moment.ms / 1000)
        else:
            came = asyncio.Event()
            count = 0

            def look(events: Sequence[Event]) -> None:
                nonlocal count
                for event in events:
                    count += event.kind == moment.kind and moment.fits(_row(event))
                if count >= moment.nth:
                    came.set()

            stop = self._cluster.trace.listen(look)
            await came.wait()
            stop()
        await action

    async def _strike(self, fault: Fault) -> None:
        assert isinstance(fault, Crash | Restart | Pause), f"{fault} is not supported"
        name = self._names[fault.node]
        if isinstance(fault, Pause):
            await self._cluster.pause(name)
            await asyncio.sleep(fault.for_ms / 1000)
            await self._cluster.resume(name)
        elif isinstance(fault, Crash):
            await self._cluster.kill(name)
            if fault.down_ms:
                await asyncio.sleep(fault.down_ms / 1000)
                await self._cluster.restart(name)
        else:
            await self._cluster.restart(name)


def _row(event: Event) -> Event:
    return unnumbered_event(event.time_us, event.node, event.kind, event.ledger, event.entry)


async def run_live(
    scenario: Scenario,
    *,
    autorecovery: Mapping[str, object] | None = None,
    until: Callable[[Sequence[Event]], bool] = lambda events: True,
) -> list[Event]:
    """Run the scenario on real processes and return its events with the simulated names."""
    async with LocalCluster(scenario.cluster.bookies, autorecovery=autorecovery) as cluster:
        names = dict(zip(cluster.bookie_names, scenario.cluster.names, strict=True))
        async with asyncio.timeout(60):
            await LiveRun(scenario, cluster).run(until)
        events = list(cluster.trace.events)
    return [
        event._replace(
            node=names.get(event.node, event.node),
            peer=names.get(event.peer, event.peer),
            ensemble=_named(event.ensemble, names),
            bookies=_named(event.bookies, names),
            segments=tuple((first, _named(each, names)) for first, each in event.segments),
        )
        for event in events
    ]


def _named(bookies: tuple[str, ...], names: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(names[each] for each in bookies)
