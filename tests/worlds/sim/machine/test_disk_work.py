"""A run records what the bookies' disk workers did and when."""

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from labkit.worlds.sim.machine.decisions import Decisions
from labkit.worlds.sim.machine.disk import DiskController, SimDisk
from labkit.worlds.sim.machine.disk_work import DiskCall, DiskFaults, DiskWorker
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash, CrashAtOperation
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Write
from tests.worlds.sim.runs import before_epilogue

WRITE = Write(entries=5, every_ms=2, close=False)
CALM = Scenario(Cluster(3, flush_interval_ms=3), (WRITE,), late_share=0.0, slow_share=0.0)


def time_of(trace: Trace, kind: str) -> int:
    return next(each.time_us for each in trace.events if each.kind == kind)


def test_each_call_has_a_name_and_its_time() -> None:
    trace = run(CALM)
    assert {"open", "flush", "write_and_sync"} <= {each.what for each in trace.disk_calls}
    assert {each.node for each in trace.disk_calls} == {"b0", "b1", "b2"}
    assert all(0 <= each.begin_us <= each.end_us for each in trace.disk_calls)


def middle_of_call(trace: Trace, what: str) -> tuple[DiskCall, float]:
    """Return b0's first call of this kind after the write began, and its midpoint in ms."""
    began_us = time_of(trace, "step.started")
    call = next(
        each
        for each in trace.disk_calls
        if each.node == "b0" and each.what == what and each.begin_us > began_us
    )
    return call, ((call.begin_us + call.end_us) / 2 - began_us) / 1000


@pytest.mark.parametrize("what", ["flush", "write_and_sync"])
def test_a_call_that_a_crash_cut_short_ends_with_the_crash(what: str) -> None:
    call, middle_ms = middle_of_call(run(CALM), what)
    trace = run(CALM.with_fault(Crash("b0", "lost", 5, At(middle_ms))))
    cut_short = DiskCall("b0", what, call.begin_us, time_of(trace, "node.killed"))
    assert cut_short in trace.disk_calls


def test_a_dead_bookie_is_not_restarted_by_an_operation_that_it_would_have_stopped_at() -> None:
    _, middle_ms = middle_of_call(run(CALM), "write_and_sync")
    faults = (
        CrashAtOperation("b0", down_ms=5, when=At(middle_ms - 0.01)),
        Crash("b0", when=At(middle_ms)),
    )
    everything_is_carried_out = {f"reach b0 {number}": 8.0 for number in range(20)}
    longer = replace(WRITE, entries=50)
    trace = run(
        replace(CALM, workload=(longer,), faults=faults, decisions=everything_is_carried_out)
    )
    kinds = [each.kind for each in before_epilogue(trace) if each.node == "b0"]
    assert kinds.count("node.killed") == 1
    assert "node.started" not in kinds[kinds.index("node.killed") :]


def test_after_the_operation_at_which_a_machine_stops_no_waiting_call_begins() -> None:
    """This matters because the next call would start at exactly the same moment."""
    controller, loop = DiskController(), SimLoop()
    disk, carried_out = SimDisk(controller, "ledgers"), list[str]()

    def stop() -> None:
        worker.crash()
        carried_out.extend(map(str, controller.operations))

    faults = DiskFaults()
    controller.watch = faults.watch
    worker = DiskWorker(
        loop, "b0", controller, faults, Decisions(None, {"reach b0 2": 8}, lambda: 0)
    )
    faults.stops[1] = stop

    async def use_the_disk() -> None:
        for name in ("first", "second", "third"):
            worker(partial(disk.create, name))
        await asyncio.sleep(1)

    loop.run(use_the_disk())
    assert carried_out == ["create first"]
