"""A node copes with a metadata server that is behind the others."""

from dataclasses import replace

import pytest

from labkit.system.check import broken, check_all
from labkit.system.metadata.store import NoNodeError
from labkit.worlds.sim.machine.lagging_server import LaggingServer
from labkit.worlds.sim.machine.tree import ZnodeTree
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.metadata_faults import LaggingMetadata
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At
from labkit.worlds.sim.workload.steps import Write

WRITES = (
    Write(0, entries=5, close=False, client="u"),
    Write(1, entries=30, every_ms=2, when=At(215)),
)
CLUSTER = Cluster(3, gc_wait_time_ms=40, flush_interval_ms=3)
BEHIND = Scenario(CLUSTER, WRITES, tuple(LaggingMetadata(name, 100) for name in CLUSTER.names))


@pytest.fixture
def tree() -> ZnodeTree:
    tree = ZnodeTree(lambda watch: None)
    tree.create("/a", b"old", 0, False)
    return tree


def test_a_read_says_what_was_there_so_much_earlier(tree: ZnodeTree) -> None:
    server = LaggingServer(2.0, tree)
    tree.set("/a", b"new", 0)
    server.changed(10.0)
    tree.create("/a/b", b"", 0, False)
    server.changed(11.0)
    assert server.read(11.5, "get", "/a") == (b"old", 0)
    assert server.read(12.0, "get", "/a") == (b"new", 1)
    assert not server.read(12.5, "exists", "/a/b")
    with pytest.raises(NoNodeError):
        server.read(12.5, "get", "/a/b")
    assert server.read(13.0, "children", "/a") == ["b"]


@pytest.mark.parametrize("how", ["caught up", "a watch went off"])
def test_a_node_never_sees_an_older_state_than_it_knows(tree: ZnodeTree, how: str) -> None:
    server = LaggingServer(100.0, tree)
    if how == "a watch went off":
        server.watch_fired()
    tree.set("/a", b"new", 0)
    server.changed(10.0)
    if how == "caught up":
        server.catch_up()
    tree.set("/a", b"newest", 1)
    server.changed(11.0)
    assert server.read(12.0, "get", "/a") == (b"new", 1)


def test_a_bookie_whose_server_is_behind_collects_no_new_ledger() -> None:
    trace = run(BEHIND)
    assert broken(check_all(trace)) == []
    assert any(event.kind == "garbage.collected" for event in trace.events)


def test_a_bookie_that_trusts_its_server_loses_a_ledger_that_is_being_written() -> None:
    trace = run(replace(BEHIND, variant="list of ledgers without a sync"))
    names = {verdict.name for verdict in broken(check_all(trace))}
    assert names >= {"OnlyDeletedLedgersAreCollected", "AcknowledgedIsDurable"}
