"""A metadata server that is behind the others never goes back in time for a node."""

import pytest

from labkit.system.metadata.store import NoNodeError
from labkit.worlds.sim.machine.lagging_server import LaggingServer
from labkit.worlds.sim.machine.tree import ZnodeTree


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
