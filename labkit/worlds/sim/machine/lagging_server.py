"""A ZooKeeper server that lags behind the others and serves reads from an older tree.

As ZooKeeper guarantees, a session never returns to an older state, and sees its own changes, all
changes up to its last `sync`, and every change reported by one of its watches.

In ZooKeeper: `server/quorum/Follower.java`.
"""

from collections import deque
from typing import Any

from labkit.system.metadata.store import NoNodeError
from labkit.worlds.sim.machine.tree import ZnodeTree

READS = ("get", "exists", "children")

_View = dict[str, tuple[bytes, int, tuple[str, ...]]]
"""The data, version and sorted names of the children of each node."""


class LaggingServer:
    """The server for the sessions of one node, which lags `lag_s` seconds behind the leader."""

    def __init__(self, lag_s: float, tree: ZnodeTree) -> None:
        self._lag_s = lag_s
        self._tree = tree
        self._views = deque([(0.0, _view(tree))])
        """The state that this server serves and all later states, each with the time at which the
        leader reached it.
        """
        self._watch_fired = False

    def changed(self, now: float) -> None:
        self._views.append((now, _view(self._tree)))
        if self._watch_fired:
            self.catch_up()

    def watch_fired(self) -> None:
        """Record that a change on the leader has triggered one of the node's watches."""
        self._watch_fired = True

    def catch_up(self) -> None:
        self._watch_fired = False
        self._views = deque([self._views[-1]])

    def read(self, now: float, kind: str, path: str) -> Any:
        """Serve a read that does not set a watch. Raises `NoNodeError`."""
        while len(self._views) > 1 and self._views[1][0] <= now - self._lag_s:
            self._views.popleft()
        node = self._views[0][1].get(path)
        if kind == "exists":
            return node is not None
        if node is None:
            raise NoNodeError(f"{path}: node does not exist")
        data, version, children = node
        return list(children) if kind == "children" else (data, version)


def _view(tree: ZnodeTree) -> _View:
    return {
        path: (node.data, node.version, tuple(sorted(node.children)))
        for path, node in tree.nodes.items()
    }
