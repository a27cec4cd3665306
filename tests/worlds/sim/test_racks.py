"""If a writer spreads copies across racks, everything remains readable after a rack fails."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.metadata.racks import RACKS
from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.scenario.faults import Crash
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.scenario_values import Value
from labkit.worlds.sim.settings.triggers import START, At, Moment
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Read, Write
from tests.worlds.sim.runs import run_safely

LEFT, RIGHT = ("b0", "b1", "b2"), ("b3", "b4", "b5")
WHERE = {**dict.fromkeys(LEFT, "/left"), **dict.fromkeys(RIGHT, "/right")}
MOVING = AutoRecoveryConfig(
    lost_bookie_recovery_delay_s=60,
    auditor_periodic_placement_policy_check_interval_s=1,
    repaired_placement_policy_not_adhering_bookie_enabled=True,
    min_num_racks_per_write_quorum=2,
    rw_rereplicate_backoff_ms=200,
    lock_release_of_failed_ledger_grace_period_ms=1000,
)
RACK_LOST = tuple(Crash(bookie, "lost", when=At(8000)) for bookie in LEFT)
SOON = At(50)
READ = Read(when=At(9000))


@dataclass(frozen=True, slots=True, repr=False)
class NameRacks(Value):
    """Publish the rack of each bookie."""

    rack_of: Mapping[str, str] = field(default_factory=lambda: WHERE, hash=False)
    client: str = "operator"
    when: Moment = START

    async def run(self, node: ClientNode) -> None:
        bookies = {bookie: {"rack": rack} for bookie, rack in self.rack_of.items()}
        await node.client.store.create(RACKS, json.dumps({"default": bookies}).encode())


def read(trace: Trace) -> int:
    """Return how many entries the reader received while a rack was down."""
    done = {e.entry for e in trace.events if e.kind == "read.done" and e.node == READ.client}
    return len(done - {-1})


@pytest.mark.promise(
    "A ledger on two racks survives the loss of one rack, even if it was spread later, and no "
    "failure makes a move lose data"
)
@pytest.mark.parametrize(("ensemble", "quorum"), [(2, 2), (3, 3), (4, 2)])
def test_entries_of_a_ledger_over_two_racks_outlive_one(ensemble: int, quorum: int) -> None:
    write = Write(0, 40, ensemble, quorum, quorum, when=SOON)
    aware = Scenario(Cluster(6), (NameRacks(), replace(write, racks=2), READ), RACK_LOST)
    trace = run_safely(aware)
    assert read(trace) == 40
    unaware = replace(aware, workload=(NameRacks(), write, READ))
    trace = run_safely(unaware)
    assert read(trace) < 40


def test_ledger_that_was_written_before_the_racks_were_known_is_spread_in_time() -> None:
    cluster = Cluster(6, autorecovery=MOVING, gc_overreplicated_ledger_wait_time_ms=1500)
    workload = Write(0, 40, 4, 2, 2), NameRacks(when=At(1000)), READ
    trace = run_safely(Scenario(cluster, workload, RACK_LOST))
    assert read(trace) == 40
    moved = {e.peer for e in trace.events if e.kind == "entry.copied"}
    assert moved
    assert moved <= set(RIGHT)
    dropped = {e.node for e in trace.events if e.kind == "ledger.dropped"}
    assert dropped
    assert dropped <= set(LEFT)


@pytest.mark.parametrize("seed", range(4))
def test_no_storm_makes_a_move_lose_anything(seed: int) -> None:
    cluster = Cluster(
        6, autorecovery=MOVING, gc_overreplicated_ledger_wait_time_ms=800, session_timeout_ms=500
    )
    workload = Write(0, 30, 4, 2, 2), Write(1, 30, 3, 3, 2, client="v"), NameRacks(when=At(500))
    calm = Scenario(cluster, (*workload, READ))
    run_safely(storm(calm, seed, 6, 8000.0))
