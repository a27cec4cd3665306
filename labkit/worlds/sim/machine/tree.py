"""The metadata store's tree: versioned nodes, as a ZooKeeper server keeps them in memory.

In ZooKeeper: `server/DataTree.java`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from labkit.system.metadata.store import (
    ANY_VERSION,
    BadVersionError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    check_node,
)

Watch = tuple[int, int]
"""A watch: its session, and the number that the session gave it."""


@dataclass(slots=True)
class Znode:
    """One node.  `owner` is the session that it lives with; 0: it stays."""

    data: bytes
    owner: int = 0
    version: int = 0
    children: dict[str, None] = field(default_factory=dict)
    created_count: int = 0
    """How many children it has had: the next sequential one's number."""


class ZnodeTree:
    """All nodes, and who watches them.

    `tell` is called with each watch that fires; a watch fires once.
    """

    def __init__(self, tell: Callable[[Watch], None]) -> None:
        self._tell = tell
        self.nodes: dict[str, Znode] = {"": Znode(b"")}
        """By path; the root's is empty."""
        self._data_watches: dict[str, dict[Watch, None]] = {}
        self._child_watches: dict[str, dict[Watch, None]] = {}

    def create(self, path: str, data: bytes, owner: int, sequential: bool) -> str:
        """Make a node and its missing parents.  Raises `NodeExistsError`, `NodeTooLargeError`."""
        check_node(path, data)
        parent = _parent(path)
        if parent not in self.nodes:
            # Not ephemeral, whatever the node is: ephemeral nodes have no children.
            self.create(parent, b"", 0, False)
        above = self.nodes[parent]
        if sequential:
            path = f"{path}{above.created_count:010d}"
        if path in self.nodes:
            raise NodeExistsError(f"{path}: there is such a node")
        above.created_count += 1
        above.children[path.rpartition("/")[2]] = None
        self.nodes[path] = Znode(data, owner)
        # An `exists` that found nothing waits for this.
        self._fire(self._data_watches, path)
        self._fire(self._child_watches, parent)
        return path

    def get(self, path: str, watch: Watch | None) -> tuple[bytes, int]:
        """Data and version.  Raises `NoNodeError`, and then watches nothing."""
        node = self._find(path)
        self._watch(self._data_watches, path, watch)
        return node.data, node.version

    def exists(self, path: str, watch: Watch | None) -> bool:
        self._watch(self._data_watches, path, watch)
        return path in self.nodes

    def set(self, path: str, data: bytes, version: int) -> int:
        """Replace the data; returns the new version.

        Raises `NoNodeError`, `BadVersionError`, `NodeTooLargeError`.
        """
        check_node(path, data)
        node = self._find(path, version)
        node.data = data
        node.version += 1
        self._fire(self._data_watches, path)
        return node.version

    def delete(self, path: str, version: int) -> None:
        """Remove a node.  Raises `NoNodeError`, `BadVersionError`, `NotEmptyError`."""
        if self._find(path, version).children:
            raise NotEmptyError(f"{path}: it has children")
        parent = _parent(path)
        del self.nodes[path]
        del self.nodes[parent].children[path.rpartition("/")[2]]
        # As ZooKeeper: a node that goes fires both kinds, and its parent's.
        self._fire(self._data_watches, path)
        self._fire(self._child_watches, path)
        self._fire(self._child_watches, parent)

    def children(self, path: str, watch: Watch | None) -> list[str]:
        """Names, sorted.  Raises `NoNodeError`, and then watches nothing."""
        node = self._find(path)
        self._watch(self._child_watches, path, watch)
        return sorted(node.children)

    def is_watching(self, watch: Watch) -> bool:
        """Whether it was set and has not fired."""
        both = (*self._data_watches.values(), *self._child_watches.values())
        return any(watch in watching for watching in both)

    def end_session(self, session: int) -> list[str]:
        """Remove the nodes that lived with a session, and forget its watches; returns the nodes'
        paths.
        """
        gone = [path for path, node in self.nodes.items() if node.owner == session]
        for path in gone:
            self.delete(path, ANY_VERSION)
        for watches in (self._data_watches, self._child_watches):
            for watching in watches.values():
                for watch in [watch for watch in watching if watch[0] == session]:
                    del watching[watch]
        return gone

    def _find(self, path: str, version: int = ANY_VERSION) -> Znode:
        node = self.nodes.get(path)
        if node is None:
            raise NoNodeError(f"{path}: there is no such node")
        if version not in (ANY_VERSION, node.version):
            raise BadVersionError(f"{path}: version {node.version}, {version} was expected")
        return node

    def _watch(self, watches: dict[str, dict[Watch, None]], path: str, watch: Watch | None) -> None:
        if watch is not None:
            watches.setdefault(path, {})[watch] = None

    def _fire(self, watches: dict[str, dict[Watch, None]], path: str) -> None:
        for watch in watches.pop(path, ()):
            self._tell(watch)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
