"""A bookie that loses its session at any point during startup still gets registered."""

import asyncio
from dataclasses import dataclass

from labkit.system.model.errors import LabkitError
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash
from labkit.worlds.sim.scenario.metadata_faults import SessionLoss
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.scenario_values import Value
from labkit.worlds.sim.settings.triggers import At, Moment
from labkit.worlds.sim.trace import Trace

KILLED_MS, STARTED_MS = 10.0, 20.0
STEP_MS = 0.2
PATIENCE_S = 8
LATER = At(200)


@dataclass(frozen=True, slots=True, repr=False)
class AwaitBookies(Value):
    """Wait until all bookies are registered; fail after a few seconds."""

    count: int
    client: str = "q"
    when: Moment = LATER
    ledger: int = -1

    def __str__(self) -> str:
        return "await bookies"

    async def run(self, node: ClientNode) -> None:
        for _ in range(PATIENCE_S):
            if len(await node.client.writable_bookies()) == self.count:
                return
            await asyncio.sleep(1)
        raise LabkitError("a bookie is running but not registered")


RESTART = Scenario(
    Cluster(2),
    (AwaitBookies(2),),
    (Crash("b1", down_ms=STARTED_MS - KILLED_MS, when=At(KILLED_MS)),),
)


def outcome(trace: Trace) -> str:
    [ended] = [event.detail for event in trace.events if event.kind == "step.ended"]
    return ended


def start_ms() -> float:
    """Return how many milliseconds the bookie takes to restart and serve requests again."""
    of_b1 = [event for event in run(RESTART).events if event.node == "b1"]
    killed = next(event for event in of_b1 if event.kind == "node.killed")
    started = next(e for e in of_b1 if e.kind == "node.started" and e.seq > killed.seq)
    return (started.time_us - killed.time_us) / 1000 - (STARTED_MS - KILLED_MS)


def test_a_session_lost_at_any_point_of_the_start_leaves_no_bookie_unregistered() -> None:
    points = [STARTED_MS + number * STEP_MS for number in range(int(start_ms() / STEP_MS) + 5)]
    assert len(points) > 15
    lost = 0
    for point in points:
        trace = run(RESTART.with_fault(SessionLoss("b1", At(point))))
        assert outcome(trace) == "done", point
        lost += "expired" in [e.explanation for e in trace.events if e.kind == "session.lost"]
    assert lost > 15
