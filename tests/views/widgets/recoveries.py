"""Runs in which a bookie is lost permanently, for pictures of the recovery."""

from functools import cache

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash, Fault
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Read, Write

CLUSTER = Cluster(5, autorecovery=AutoRecoveryConfig(lost_bookie_recovery_delay_s=10))
WORKLOAD = (
    Write(0, entries=12, write_quorum=2, client="w0"),
    Write(1, entries=6, client="w1"),
    Write(2, entries=6, client="w2", close=False),
    Read(0, polls=60, poll_ms=1000, when=At(100)),
)
LOSS = Crash("b1", when=At(1000))
FAULTS: dict[str, tuple[Fault, ...]] = {
    "lost for good": (LOSS,),
    "auditor dies in mid-round": (
        LOSS,
        Crash("b0", down_ms=1000, when=On("ledger.underreplicated")),
    ),
    "restart": (Crash("b1", down_ms=6000, when=At(1000)),),
    "worker dies while it copies": (LOSS, Crash("b0", down_ms=500, when=On("entry.copied"))),
}


@cache
def recovery(name: str) -> Trace:
    """Run the scenario with the faults of that name."""
    return run(Scenario(CLUSTER, WORKLOAD, FAULTS[name]))
