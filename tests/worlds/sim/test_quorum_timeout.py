"""A writer waits no longer than its configured timeout, in virtual time."""

from labkit.system.check import broken, check_all
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Pause
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At
from labkit.worlds.sim.workload.steps import Recover, Write

TIMEOUT_S = 12.5
SLOWLY = Write(entries=100, every_ms=50, quorum_timeout_ms=12_500)


def test_silent_bookies_hold_a_writer_for_the_timeout_and_no_longer() -> None:
    """Every replacement bookie is silent, too, and the writer would wait for each one in turn."""
    silent = tuple(Pause(f"b{number}", for_ms=40_000, when=At(1000)) for number in range(1, 7))
    workload = SLOWLY, Recover(when=At(30_000))
    trace = run(Scenario(Cluster(7, session_timeout_ms=60_000), workload, silent))
    [end] = [e for e in trace.events if e.kind == "step.ended" and e.node == "w"]
    assert "has 1 of 2 acknowledgements after 12.5 s" in end.explanation
    confirmed = [e for e in trace.events if e.kind == "lac.advanced" and e.node == "w"]
    [late] = [
        e
        for e in trace.events
        if e.kind == "add.pushed" and e.entry == confirmed[-1].entry + 1 and e.node == "w"
    ]
    assert 1 <= (end.time_us - late.time_us) / (TIMEOUT_S * 1_000_000) <= 1.125
    assert "ensemble.changing" in {e.kind for e in trace.events}
    assert broken(check_all(trace)) == []
