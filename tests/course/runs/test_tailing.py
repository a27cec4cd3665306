"""Tests a reader that follows a writer, and how long each entry takes to reach it."""

from dataclasses import replace

from labkit.course.runs.tailing import Tail, read_delays_ms
from labkit.system.trace.events import Event
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.workload.steps import Write


def test_tail_reads_each_confirmed_entry_and_fails_if_one_is_not_confirmed() -> None:
    write = Write(0, 3, every_ms=5, close=False)
    trace = run(Scenario(Cluster(3), (write, Tail(entries=3))))
    mine = [e for e in trace.events if e.kind == "read.done" and e.node == "r"]
    assert [e.entry for e in mine if e.entry >= 0] == [0, 1]
    assert any("entry 2 was not confirmed" in e.explanation for e in trace.events)


def test_read_delays_ignore_pushes_by_the_epilogue() -> None:
    pushes = [
        (0, "w", "add.pushed"),
        (77_000, "r", "read.done"),
        (94_000, "epilogue", "add.pushed"),
    ]
    events = tuple(
        Event(seq, at_us, node, kind, -1, 0, 5) for seq, (at_us, node, kind) in enumerate(pushes)
    )
    trace = replace(run(Scenario(Cluster(3), (Write(0, 1),))), events=events)
    assert read_delays_ms(trace) == {5: 77.0}
