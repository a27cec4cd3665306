"""Small runs of the simulated world that TLC checks within seconds.

E equals Qw in all of them, because the specification has no striping.
"""

from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.workload.steps import Recover, Write
from tests.tla.ledger_states import Run, run_of

_RECOVER = Recover(client="x", when=On("journal.synced"))

SCENARIOS = {
    "a plain write": Scenario(Cluster(3), (Write(entries=2),)),
    "an ensemble change": Scenario(
        Cluster(4),
        (Write(entries=2, every_ms=5),),
        (Crash("b1", when=On("lac.advanced", entry=0)),),
    ),
    "a recovery": Scenario(Cluster(3), (Write(entries=1, close=False), _RECOVER)),
    "a recovery from a known LAC on": Scenario(
        Cluster(3),
        (
            Write(entries=2, every_ms=5, close=False),
            Recover(client="x", when=On("journal.synced", entry=1)),
        ),
    ),
    "two recoverers": Scenario(
        Cluster(3),
        (
            Write(entries=1, close=False),
            _RECOVER,
            Recover(client="y", when=On("recovery.started")),
        ),
    ),
}
"""The scenarios of correct runs, named after the events in them."""

MISTAKES = {
    "ack after one bookie": "a plain write",
    "ensemble change from the wrong entry": "an ensemble change",
    "recovery without fencing": "a recovery",
}
"""By variant: the scenario in which the specification rejects its bug."""


def run_in(name: str, variant: str = "") -> Run:
    """Return the part of the scenario's run that concerns the ledger, with or without a variant."""
    scenario = SCENARIOS[name]
    if variant:
        scenario = Scenario(scenario.cluster, scenario.workload, scenario.faults, variant=variant)
    return run_of(run(scenario).events, scenario.cluster.names)
