"""An entry has the same story in the simulated world and on real processes."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.check import broken, check_all
from labkit.system.trace.events import Event
from labkit.worlds.sim.scenario.faults import Crash, Pause
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.workload.steps import Read, Recover, Write
from tests.worlds.both.live_run import run_live
from tests.worlds.both.stories import stories
from tests.worlds.sim.runs import before_epilogue, run_safely

pytestmark = [pytest.mark.java, pytest.mark.slow]

READER = Read(when=On("ledger.closed"))
LATER = Write(1, entries=0, client="later", when=At(15_000))
"""Keeps the simulated run going until autorecovery has noticed that a bookie is lost for good."""
SLOW_MS = 2000.0
"""A pause between adds long enough, even on a busy machine, for all consequences of an event to end
before the next add.
"""


def simulated(scenario: Scenario) -> list[Event]:
    """Run the scenario, check every promise, and return the events before the epilogue."""
    return before_epilogue(run_safely(scenario))


def seen(kind: str, count: int = 1) -> Callable[[Sequence[Event]], bool]:
    return lambda events: sum(1 for event in events if event.kind == kind) >= count


def of_the_repair(events: Sequence[Event]) -> list[Event]:
    """Return the events of the ledger without reads, because their number depends on timing."""
    return [event for event in events if event.ledger == 0 and not event.kind.startswith("read.")]


async def same_story(
    scenario: Scenario, until: Callable[[Sequence[Event]], bool]
) -> Sequence[Event]:
    """Run the scenario in both worlds, compare the stories, and return the live run's events."""
    live = await run_live(scenario, until=until)
    assert broken(check_all(live)) == []
    assert stories(live) == stories(simulated(scenario))
    return live


async def test_entries_are_written_and_read() -> None:
    scenario = Scenario(workload=(Write(entries=6, window=1, ensemble=3, write_quorum=2), READER))
    live = await same_story(scenario, seen("read.done", 6))
    assert len(stories(live)) == 6


@pytest.mark.core
async def test_a_bookie_is_killed_and_its_place_in_the_ensemble_taken() -> None:
    # With Qa = Qw, the entry waits for the new bookie no matter how soon the loss is noticed.
    write = Write(entries=4, window=1, ack_quorum=3, every_ms=SLOW_MS)
    kill = Crash("b1", when=On("lac.advanced", entry=1))
    scenario = Scenario(Cluster(4), (write, READER), (kill,))
    live = await same_story(scenario, seen("read.done", 4))
    assert seen("ensemble.changing")(live)


async def test_a_bookie_is_paused_and_goes_on() -> None:
    write = Write(entries=4, window=1, every_ms=SLOW_MS)
    pause = Pause("b2", SLOW_MS * 1.5, when=On("lac.advanced", entry=1))
    scenario = Scenario(workload=(write, READER), faults=(pause,))
    await same_story(scenario, seen("add.acked", 12))


@pytest.mark.core
async def test_a_ledger_that_its_writer_left_is_recovered_by_another() -> None:
    write = Write(entries=3, window=1, close=False)
    scenario = Scenario(workload=(write, Recover(when=On("add.acked", nth=9))))
    live = await same_story(scenario, seen("recovery.ended"))
    assert seen("fence.answered", 2)(live)


async def test_autorecovery_copies_what_a_dead_bookie_had() -> None:
    cluster = Cluster(4, autorecovery=AutoRecoveryConfig())
    kill = Crash("b1", when=On("ledger.closed"))
    scenario = Scenario(cluster, (Write(entries=3, window=1),), (kill,))
    live = await run_live(scenario, autorecovery={}, until=seen("replication.done"))
    assert broken(check_all(live)) == []
    virtual = simulated(replace(scenario, workload=(*scenario.workload, LATER)))
    assert stories(of_the_repair(live)) == stories(of_the_repair(virtual))
    assert seen("entry.copied", 3)(live)
