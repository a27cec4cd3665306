"""Outages, lost data and lost sessions of the metadata store do no harm to entries and bookies."""

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.metadata.store import ANY_VERSION
from labkit.system.model.errors import LabkitError
from labkit.worlds.sim.machine.tree import ZnodeTree
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import (
    Crash,
    HangingMetadata,
    LaggingMetadata,
    Partition,
    SessionLoss,
)
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.scenario_values import Value
from labkit.worlds.sim.settings.triggers import START, At, Moment, On
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Read, Recover, Write
from labkit.worlds.sim.world import World
from tests.repeat import repeated
from tests.worlds.sim.runs import of, run_safely

AWAY_MS, FOR_MS = 1000.0, 5000.0
HEALING = Cluster(5, session_timeout_ms=1000, autorecovery=AutoRecoveryConfig())
AWAY = Scenario(
    HEALING,
    (Write(entries=200, every_ms=100), Write(ledger=1, entries=100, every_ms=100, client="v")),
    (Partition(("zk",), for_ms=FOR_MS, when=At(AWAY_MS)),),
)


def test_writers_go_on_bookies_register_again_and_no_bookie_is_taken_for_lost() -> None:
    trace = run_safely(AWAY)
    confirmed = of(trace, "lac.advanced", node="w")
    during = [e for e in confirmed if AWAY_MS < e.time_us / 1000 < AWAY_MS + FOR_MS]
    assert len(during) > 45
    assert len(confirmed) == 200
    for bookie in HEALING.names:
        assert len(of(trace, "bookie.registered", node=bookie)) >= 2
    assert of(trace, "bookie.lost") == of(trace, "ledger.underreplicated") == []
    assert [event.node for event in of(trace, "ensemble.set")] == ["w", "v"]


def test_bookie_that_did_not_come_back_is_lost_after_all() -> None:
    trace = run_safely(AWAY.with_fault(Crash("b1", when=At(AWAY_MS + 500))))
    assert {event.peer for event in of(trace, "bookie.lost")} == {"b1"}
    assert of(trace, "replication.done")


def test_a_session_that_ends_with_the_last_fault_does_not_end_the_epilogue() -> None:
    repairs = AutoRecoveryConfig(
        auditor_periodic_check_interval_s=0,
        open_ledger_rereplication_grace_period_ms=200,
        rw_rereplicate_backoff_ms=200,
        lock_release_of_failed_ledger_grace_period_ms=2000,
    )
    trace = run_safely(
        Scenario(
            Cluster(2, session_timeout_ms=500, autorecovery=repairs),
            (
                Write(entries=1, ensemble=1, write_quorum=1, ack_quorum=1),
                Read(when=At(1000)),
                Recover(when=On("add.acked")),
                Recover(),
            ),
            (Crash("b0"), HangingMetadata(when=At(800))),
            decisions={"thaw epilogue 2": 100.0},
        )
    )
    [looked_up] = of(trace, "epilogue.started")
    assert max(event.time_us for event in of(trace, "session.lost")) > looked_up.time_us


@pytest.mark.sampled
@pytest.mark.parametrize("seed", repeated(range(6), once=3))
def test_no_outage_breaks_a_promise(seed: int) -> None:
    """The seed determines which other messages are late."""
    outages = (
        Partition(("zk",), for_ms=900.0 * (seed + 1), when=At(700)),
        Partition(("zk",), ("b0", "b2"), for_ms=2500, when=At(9000)),
    )
    run_safely(Scenario(HEALING, AWAY.workload, outages, seed=seed))


@pytest.mark.sampled
@pytest.mark.promise(
    "After the metadata store hung, bookies have a grace period to register again; each "
    "registration restarts the period and the lost-bookie delay"
)
@pytest.mark.parametrize("delay_s", [0, 3])
@pytest.mark.parametrize("seed", range(8))
def test_a_store_that_hangs_and_serves_its_clients_in_any_order_loses_no_bookie(
    seed: int, delay_s: int
) -> None:
    healing = AutoRecoveryConfig(lost_bookie_recovery_delay_s=delay_s)
    scenario = Scenario(
        Cluster(4, session_timeout_ms=1000, autorecovery=healing),
        (Write(entries=40, every_ms=100),),
        (HangingMetadata(900.0 + 400 * seed, when=At(700)),),
        seed=seed,
    )
    trace = run_safely(scenario)
    assert [event.node for event in of(trace, "metadata.resumed")] == ["zk"]
    assert of(trace, "bookie.lost") == of(trace, "ledger.underreplicated") == []


WRITES = (
    Write(0, entries=5, close=False, client="u"),
    Write(1, entries=30, every_ms=2, when=At(215)),
)
COLLECTING = Cluster(3, gc_wait_time_ms=40, flush_interval_ms=3)


def test_a_bookie_whose_server_is_behind_collects_no_new_ledger() -> None:
    behind = tuple(LaggingMetadata(name, 100) for name in COLLECTING.names)
    trace = run_safely(Scenario(COLLECTING, WRITES, behind))
    assert of(trace, "garbage.collected")


# A store that returns without its data


LOST = At(500)
GC_MS = 100


@dataclass(frozen=True, slots=True, repr=False)
class MetadataLost(Value):
    """A fault that deletes all of the cluster's nodes.

    If an instance id is given, a new cluster with that id is created.
    """

    new_instance_id: str = ""
    when: Moment = START

    def strike(self, world: World) -> None:
        tree = world.zookeeper.tree
        _forget(tree, "/ledgers")
        if self.new_instance_id:
            tree.create("/ledgers/INSTANCEID", self.new_instance_id.encode(), 0, False)


def _forget(tree: ZnodeTree, path: str) -> None:
    for name in tree.children(path, None):
        _forget(tree, f"{path}/{name}")
    tree.delete(path, ANY_VERSION)


@pytest.mark.promise(
    "If the metadata store has lost the cluster or holds a different one, no ledger is collected"
)
@pytest.mark.parametrize("new_instance_id", ["", "another"])
@pytest.mark.parametrize("registers_again", [False, True])
def test_bookies_keep_the_entries_of_ledgers_that_the_store_has_forgotten(
    new_instance_id: str, registers_again: bool
) -> None:
    cluster = Cluster(gc_wait_time_ms=GC_MS)
    faults: tuple[Any, ...] = (
        MetadataLost(new_instance_id, LOST),
        *(SessionLoss(name, LOST) for name in cluster.names if registers_again),
    )
    trace = run(Scenario(cluster, (Write(entries=20, every_ms=100),), faults))
    kinds = [event.kind for event in trace.events]
    assert "garbage.kept" in kinds
    assert "ledger.collected" not in kinds


# A session that is lost while its bookie starts


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
