"""A ZooKeeper server that is behind the others, and answers from the tree as it was.

As ZooKeeper promises, a session never goes back in time: it sees its own changes, all up to its
last `sync`, and what a watch told it.

In ZooKeeper: `server/quorum/Follower.java`.
"""

from collections import deque
from typing import Any

from labkit.system.metadata.store import NoNodeError
from labkit.worlds.sim.machine.tree import ZnodeTree

READS = ("get", "exists", "children")

_View = dict[str, tuple[bytes, int, tuple[str, ...]]]
"""Of each node: data, version, and its children's names, sorted."""


class LaggingServer:
    """The server that answers one node's sessions, `lag_s` seconds behind."""

    def __init__(self, lag_s: float, tree: ZnodeTree) -> None:
        self._lag_s = lag_s
        self._tree = tree
        self._views = deque([(0.0, _view(tree))])
        """The states that it goes through, each with the time when the leader had it."""
        self._was_told = False

    def changed(self, now: float) -> None:
        """The leader has made a change."""
        self._views.append((now, _view(self._tree)))
        if self._was_told:
            self.catch_up()

    def tell(self) -> None:
        """A change that the leader is making sets off a watch of the node's."""
        self._was_told = True

    def catch_up(self) -> None:
        """Be where the leader is."""
        self._was_told = False
        self._views = deque([self._views[-1]])

    def answer(self, now: float, kind: str, path: str) -> Any:
        """What the server says to a read that sets no watch.  Raises `NoNodeError`."""
        while len(self._views) > 1 and self._views[1][0] <= now - self._lag_s:
            self._views.popleft()
        node = self._views[0][1].get(path)
        if kind == "exists":
            return node is not None
        if node is None:
            raise NoNodeError(f"{path}: there is no such node")
        data, version, children = node
        return list(children) if kind == "children" else (data, version)


def _view(tree: ZnodeTree) -> _View:
    return {
        path: (node.data, node.version, tuple(sorted(node.children)))
        for path, node in tree.nodes.items()
    }
