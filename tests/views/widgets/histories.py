"""Runs in which the ensemble of a ledger changes."""

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Read, Recover, Write


def two_crashes() -> Scenario:
    """Write twelve entries; b1 crashes after entry 3, and b0 after entry 8."""
    crashes = [
        Crash("b1", when=On("lac.advanced", entry=3)),
        Crash("b0", when=On("lac.advanced", entry=8)),
    ]
    return Scenario(Cluster(5), (Write(entries=12, every_ms=2),), tuple(crashes))


def repaired() -> Trace:
    """Run the same scenario with autorecovery, which restores the missing copies."""
    scenario = two_crashes()
    waits = Read(polls=30, poll_ms=1000, when=At(40))
    cluster = Cluster(5, autorecovery=AutoRecoveryConfig())
    return run(Scenario(cluster, (*scenario.workload, waits), scenario.faults))


def recovered_with_a_deferred_change() -> Trace:
    """Recover a dead writer's ledger; b1 crashes while the last entries are written back."""
    write = Write(entries=6, close=False)
    crashes = (
        Crash("w", when=On("add.acked", entry=5)),
        Crash("b1", when=On("add.pushed", node="r")),
    )
    return run(Scenario(Cluster(4), (write, Recover(when=At(40))), crashes))
