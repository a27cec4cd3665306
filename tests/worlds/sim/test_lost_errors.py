"""An exception that ends a background task is reported, even if nothing awaits the task."""

import asyncio
from collections.abc import Callable
from typing import NoReturn

import pytest

from labkit.system.check import broken, check_all
from labkit.system.check.promises.health import EveryErrorIsExpected
from labkit.system.client.ensemble_change import EnsembleChange
from labkit.system.client.protocol.per_channel_bookie_client import PerChannelBookieClient
from labkit.system.topic.cursors.cursor import ManagedCursor
from labkit.system.topic.producing import deduplication
from labkit.system.topic.producing.publishing import TopicPublisher
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.machine.process import NodeClock, Process
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.workload.publish import Publish
from labkit.worlds.sim.workload.steps import Write

WRITE = Scenario(Cluster(4), (Write(),), (Crash("b1", when=On("add.acked", 4)),), limit_s=5)
PUBLISH = Scenario(Cluster(brokers=1), (Publish(messages=6),), limit_s=5)


async def fails(_: object) -> NoReturn:
    raise KeyError("a mistake")


@pytest.mark.parametrize(
    ("part", "method", "scenario", "node"),
    [
        (PerChannelBookieClient, "_connect", WRITE, "w"),
        (EnsembleChange, "_run", WRITE, "w"),
        (TopicPublisher, "_append", PUBLISH, "broker0"),
        (ManagedCursor, "_store_now", PUBLISH, "broker0"),
    ],
)
def test_error_of_a_background_task_breaks_a_promise(
    part: type, method: str, scenario: Scenario, node: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deduplication, "_SNAPSHOT_INTERVAL_ENTRIES", 2)
    promise = [EveryErrorIsExpected]
    assert broken(check_all(run(scenario), promise)) == []
    monkeypatch.setattr(part, method, fails)
    (verdict,) = broken(check_all(run(scenario), promise))
    assert f"{node} raised an uncaught exception" in verdict.reason
    assert "ended with KeyError('a mistake')" in verdict.reason


Body = Callable[[Process, SimLoop], None]


async def fails_later() -> NoReturn:
    await asyncio.sleep(1)
    raise KeyError("a mistake")


def reported(body: Body) -> list[str]:
    """Return the errors that the loop reports about tasks started by `body`."""
    loop = SimLoop()
    told: list[str] = []
    loop.set_exception_handler(lambda _, context: told.append(context["message"]))

    async def main() -> None:
        process = Process("n", NodeClock())
        loop.start(process)
        body(process, loop)
        await asyncio.sleep(5)
        loop.report_all_lost_errors()

    loop.run(main())
    return told


def test_error_is_reported_though_the_task_is_still_known() -> None:
    kept: list[object] = []
    assert reported(lambda process, _: kept.append(process.spawn(fails_later()))) == [
        "fails_later ended with KeyError('a mistake')"
    ]


def test_error_that_another_task_takes_later_is_not_reported() -> None:
    async def takes_it() -> None:
        task = asyncio.create_task(fails_later())
        await asyncio.sleep(3)
        with pytest.raises(KeyError):
            await task

    def body(process: Process, _: SimLoop) -> None:
        process.spawn(takes_it())

    assert reported(body) == []


def test_error_of_many_tasks_ago_is_still_reported() -> None:
    async def works() -> None:
        task = asyncio.create_task(fails_later())
        await asyncio.wait([task])
        for _ in range(200):
            await asyncio.create_task(asyncio.sleep(0))

    def body(process: Process, _: SimLoop) -> None:
        process.spawn(works())

    assert len(reported(body)) == 1


def test_error_that_a_task_is_about_to_take_at_its_death_is_not_reported() -> None:
    told: list[str] = []

    async def takes_it(process: Process, loop: SimLoop) -> None:
        task = asyncio.create_task(fails_later())
        # Check right after the task has ended, before any task that waits for it resumes.
        task.add_done_callback(lambda _: told.append("ended"))
        task.add_done_callback(lambda _: loop.report_lost_errors(process))
        await asyncio.wait([task])
        task.exception()
        told.append("taken")

    def body(process: Process, loop: SimLoop) -> None:
        process.spawn(takes_it(process, loop))

    assert reported(body) == []
    assert told == ["ended", "taken"]


def test_error_of_a_dead_process_is_not_reported() -> None:
    def body(process: Process, loop: SimLoop) -> None:
        process.spawn(fails_later())
        loop.call_later(2, process.kill)

    assert reported(body) == []
