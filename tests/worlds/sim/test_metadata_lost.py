"""If the metadata store returns without its data, the bookies keep theirs."""

from dataclasses import dataclass
from typing import Any

import pytest

from labkit.system.metadata.store import ANY_VERSION
from labkit.worlds.sim.machine.tree import ZnodeTree
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.metadata_faults import SessionLoss
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.scenario_values import Value
from labkit.worlds.sim.settings.triggers import START, At, Moment
from labkit.worlds.sim.workload.steps import Write
from labkit.worlds.sim.world import World

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


@pytest.mark.parametrize("new_instance_id", ["", "another"])
def test_no_bookie_registers_where_its_cluster_is_not(new_instance_id: str) -> None:
    cluster = Cluster()
    faults: tuple[Any, ...] = (
        MetadataLost(new_instance_id, LOST),
        *(SessionLoss(name, LOST) for name in cluster.names),
    )
    trace = run(Scenario(cluster, (Write(entries=20, every_ms=100),), faults))
    registered = [event for event in trace.events if event.kind == "bookie.registered"]
    assert [event.node for event in registered] == list(cluster.names)
