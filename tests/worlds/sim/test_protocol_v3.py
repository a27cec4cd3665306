"""Protocol version 3 in the simulated world, with the real client and the real bookie."""

import asyncio
from dataclasses import dataclass

from labkit.system.model.errors import BKBookieHandleNotAvailableException, LabkitError
from labkit.system.trace.events import Event
from labkit.system.trace.sentence import how_it_ended
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.scenario_values import Value
from labkit.worlds.sim.settings.triggers import START, Moment, On
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Write, payload


@dataclass(frozen=True, slots=True, repr=False)
class WriteDeferred(Value):
    """Add entries with deferred sync, force after each `batch`, and leave the ledger open.

    The writer pauses between the adds and the force, and retries if a bookie is unavailable.
    """

    entries: int
    batch: int
    rest_ms: float = 0.0
    ledger: int = 0
    client: str = "w"
    when: Moment = START

    async def run(self, node: ClientNode) -> None:
        writer = await node.client.create_ledger(3, 3, 2, deferred_sync=True)
        node.ledgers.created(self.ledger, writer.ledger_id)
        for number in range(self.entries):
            await writer.add(payload(self.ledger, number, 32))
            if (number + 1) % self.batch == 0:
                await asyncio.sleep(self.rest_ms / 1000)
                try:
                    await writer.force()
                except BKBookieHandleNotAvailableException:
                    await asyncio.sleep(1.0)
                    await writer.force()


@dataclass(frozen=True, slots=True, repr=False)
class Tail(Value):
    """Follow a ledger with long polls until it has returned this many entries."""

    entries: int
    ledger: int = 0
    client: str = "r"
    when: Moment = START

    async def run(self, node: ClientNode) -> None:
        ledger_id = await node.ledgers.id_of(self.ledger)
        reader = await node.client.open_ledger_no_recovery(ledger_id)
        for entry_id in range(self.entries):
            _, entry = await reader.read_last_add_confirmed_and_entry(entry_id, 60.0)
            if entry is None:
                raise LabkitError(f"entry {entry_id} did not arrive")


def of(trace: Trace, kind: str, node: str) -> list[Event]:
    return [event for event in trace.events if event.kind == kind and event.node == node]


def ends(trace: Trace) -> list[str]:
    return [how_it_ended(event) for event in trace.events if event.kind == "step.ended"]


def found_on_all(trace: Trace) -> set[int]:
    """Return the entries of which the epilogue found three copies."""
    found = [event.entry for event in of(trace, "read.done", "epilogue")]
    return {entry for entry in found if found.count(entry) >= 3}


def test_a_reader_follows_a_writer_by_long_polls() -> None:
    steps = Write(entries=30, window=1, every_ms=2), Tail(30)
    trace = run(Scenario(workload=steps))
    assert ends(trace) == ["done", "done"]
    read = [event.entry for event in of(trace, "read.done", "r") if event.entry >= 0]
    assert read == list(range(30))


def test_a_power_cut_of_all_bookies_takes_nothing_that_was_forced() -> None:
    first = On("lac.advanced", 10)
    cuts = tuple(Crash(name, "lost", down_ms=50, when=first) for name in ("b0", "b1", "b2"))
    trace = run(Scenario(workload=(WriteDeferred(entries=25, batch=10),), faults=cuts))
    forced = {event.entry for event in of(trace, "lac.advanced", "w")}
    assert forced == set(range(10))
    assert forced <= found_on_all(trace)


def test_a_power_cut_may_take_what_was_acknowledged_and_not_forced() -> None:
    first = On("add.acked", 9)
    cuts = tuple(Crash(name, "lost", down_ms=50, when=first) for name in ("b0", "b1", "b2"))
    trace = run(Scenario(workload=(WriteDeferred(entries=5, batch=5),), faults=cuts))
    assert of(trace, "lac.advanced", "w") == []
    assert len(of(trace, "add.acked", "w")) >= 9
    assert found_on_all(trace) == set()


def test_a_bookie_that_lost_what_it_acknowledged_forces_nothing() -> None:
    """The bookie is back before the force request, and would report that everything is synced."""
    cut = Crash("b1", "lost", down_ms=1, when=On("add.acked", 12))
    step = WriteDeferred(entries=4, batch=4, rest_ms=10_000)
    trace = run(Scenario(workload=(step,), faults=(cut,)))
    assert of(trace, "lac.advanced", "w") == []
    [end] = ends(trace)
    assert "the connection to b1 was lost between add and force" in end


def test_the_same_scenario_gives_the_same_run() -> None:
    scenario = Scenario(
        workload=(WriteDeferred(entries=20, batch=5), Tail(19)),
        faults=(Crash("b2", "kept", down_ms=20, when=On("lac.advanced", 5)),),
        seed=3,
    )
    assert run(scenario).digest == run(scenario).digest
