"""Writers that return to a deleted ledger are rejected.

The cases are the three that BookKeeper's pull request 4462 lists.
"""

import pytest

from labkit.system.check import broken, check_all
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Delete, Recover, Step, Write

DELETED_MS, COLLECTED_MS, BACK_MS = 100, 200, 400
CLUSTER = Cluster(gc_wait_time_ms=COLLECTED_MS)
DELETE = Delete(client="d", when=At(DELETED_MS))
FENCE = Recover(when=At(DELETED_MS / 2))


def comes_back(entries: int, *steps: Step, variant: str = "") -> Trace:
    write = Write(entries=entries, pause_ms=BACK_MS)
    return run(Scenario(CLUSTER, (write, *steps, DELETE), variant=variant))


def end_of_the_writer(trace: Trace) -> str:
    (end,) = (e.error for e in trace.events if e.kind == "step.ended" and e.node == "w")
    return end


@pytest.mark.parametrize(
    ("entries", "steps"),
    [(3, (FENCE,)), (1, (FENCE,)), (3, ())],
    ids=["written and fenced", "fenced while empty", "written and never fenced"],
)
def test_its_add_fails_as_one_to_a_fenced_ledger(entries: int, steps: tuple[Step, ...]) -> None:
    trace = comes_back(entries, *steps)
    assert end_of_the_writer(trace) == "BKLedgerFencedException"
    assert broken(check_all(trace)) == []
    collected = {e.node for e in trace.events if e.kind == "ledger.collected"}
    assert collected == set(CLUSTER.names)
    with_the_mistake = comes_back(entries, *steps, variant="deleted ledger comes back")
    assert end_of_the_writer(with_the_mistake) != "BKLedgerFencedException"
    names = {verdict.name for verdict in broken(check_all(with_the_mistake))}
    assert "DeletedLedgerTakesNoAdd" in names


def test_bookies_that_restarted_have_forgotten_it_as_in_bookkeeper() -> None:
    restarts = tuple(
        Crash(name, down_ms=10, when=At(DELETED_MS + COLLECTED_MS)) for name in CLUSTER.names
    )
    write = Write(entries=3, pause_ms=2 * BACK_MS)
    trace = run(Scenario(CLUSTER, (write, FENCE, DELETE), restarts))
    assert broken(check_all(trace)) == []
    assert end_of_the_writer(trace) != "BKLedgerFencedException"
