"""Tests deferred sync in the simulated world, with the real client and the real bookie."""

from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Write
from tests.worlds.sim.test_run import of

WRITE = Write(entries=4, window=1, force_every=4, close=False)


def found_on_all(trace: Trace) -> set[int]:
    """Return the entries for which the epilogue found three copies."""
    found = [event.entry for event in of(trace, "read.done", node="epilogue")]
    return {entry for entry in found if found.count(entry) >= 3}


def with_power_cut(write: Write, when: On) -> Trace:
    cuts = tuple(Crash(name, "lost", down_ms=50, when=when) for name in ("b0", "b1", "b2"))
    return run(Scenario(workload=(write,), faults=cuts))


def test_a_power_cut_of_all_bookies_takes_nothing_that_was_forced() -> None:
    write = Write(entries=25, window=1, force_every=10, close=False)
    trace = with_power_cut(write, On("lac.advanced", 10))
    forced = {event.entry for event in of(trace, "lac.advanced", node="w")}
    assert forced == set(range(10))
    assert forced <= found_on_all(trace)


def test_a_power_cut_may_take_what_was_acknowledged_and_not_forced() -> None:
    trace = with_power_cut(WRITE, On("add.acked", 9))
    assert of(trace, "lac.advanced", node="w") == []
    assert len(of(trace, "add.acked", node="w")) >= 9
    assert found_on_all(trace) == set()
