"""The metadata store's tree of versioned nodes, as a ZooKeeper server keeps it in memory.

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
"""A watch: its session, and the number that the session assigned to it."""


@dataclass(slots=True)
class Znode:
    """A node. `owner` is the session that owns an ephemeral node, or 0 for a persistent node."""

    data: bytes
    owner: int = 0
    version: int = 0
    children: dict[str, None] = field(default_factory=dict)
    created_count: int = 0
    """The number of children that have been created so far. The next sequential child gets this
    number.
    """


class ZnodeTree:
    """All nodes and watches.

    `notify` is called with each watch that fires. A watch fires only once.
    """

    def __init__(self, notify: Callable[[Watch], None]) -> None:
        self._notify = notify
        self.nodes: dict[str, Znode] = {"": Znode(b"")}
        """Nodes by path. The path of the root is empty."""
        self._data_watches: dict[str, dict[Watch, None]] = {}
        self._child_watches: dict[str, dict[Watch, None]] = {}

    def create(self, path: str, data: bytes, owner: int, sequential: bool) -> str:
        """Create a node and its missing parents.

        Raises `NodeExistsError` or `NodeTooLargeError`.
        """
        check_node(path, data)
        parent = _parent(path)
        if parent not in self.nodes:
            # Create persistent parents, because ephemeral nodes cannot have children.
            self.create(parent, b"", 0, False)
        above = self.nodes[parent]
        if sequential:
            path = f"{path}{above.created_count:010d}"
        if path in self.nodes:
            raise NodeExistsError(f"{path}: node already exists")
        above.created_count += 1
        above.children[path.rpartition("/")[2]] = None
        self.nodes[path] = Znode(data, owner)
        # This also fires watches set by `exists` calls that did not find the node.
        self._fire(self._data_watches, path)
        self._fire(self._child_watches, parent)
        return path

    def create_child(self, path: str, data: bytes, parent_version: int) -> None:
        """Create a child. Raises `NodeExistsError` if the child exists, `NoNodeError` if the parent
        does not exist, and `BadVersionError` if the parent has another version.
        """
        self._find(_parent(path), parent_version)
        self.create(path, data, 0, False)

    def get(self, path: str, watch: Watch | None) -> tuple[bytes, int]:
        """Return the node's data and version. Raises `NoNodeError` without setting a watch."""
        node = self._find(path)
        self._watch(self._data_watches, path, watch)
        return node.data, node.version

    def exists(self, path: str, watch: Watch | None) -> bool:
        self._watch(self._data_watches, path, watch)
        return path in self.nodes

    def set(self, path: str, data: bytes, version: int) -> int:
        """Set the node's data and return its new version. Raises `NoNodeError`, `BadVersionError`
        or `NodeTooLargeError`.
        """
        check_node(path, data)
        node = self._find(path, version)
        node.data = data
        node.version += 1
        self._fire(self._data_watches, path)
        return node.version

    def delete(self, path: str, version: int) -> None:
        """Delete a node. Raises `NoNodeError`, `BadVersionError` or `NotEmptyError`."""
        if self._find(path, version).children:
            raise NotEmptyError(f"{path}: node has children")
        parent = _parent(path)
        del self.nodes[path]
        del self.nodes[parent].children[path.rpartition("/")[2]]
        # As in ZooKeeper, deleting a node fires its data and child watches and its parent's child
        # watches.
        self._fire(self._data_watches, path)
        self._fire(self._child_watches, path)
        self._fire(self._child_watches, parent)

    def children(self, path: str, watch: Watch | None) -> list[str]:
        """Return the sorted names of the node's children. Raises `NoNodeError` without setting a
        watch.
        """
        node = self._find(path)
        self._watch(self._child_watches, path, watch)
        return sorted(node.children)

    def is_watching(self, watch: Watch) -> bool:
        both = (*self._data_watches.values(), *self._child_watches.values())
        return any(watch in watching for watching in both)

    def end_session(self, session: int) -> list[str]:
        """Delete a session's watches and ephemeral nodes, and return the paths of these nodes."""
        deleted = [path for path, node in self.nodes.items() if node.owner == session]
        for path in deleted:
            self.delete(path, ANY_VERSION)
        for watches in (self._data_watches, self._child_watches):
            for watching in watches.values():
                for watch in [watch for watch in watching if watch[0] == session]:
                    del watching[watch]
        return deleted

    def _find(self, path: str, version: int = ANY_VERSION) -> Znode:
        node = self.nodes.get(path)
        if node is None:
            raise NoNodeError(f"{path}: node does not exist")
        if version not in (ANY_VERSION, node.version):
            raise BadVersionError(f"{path}: expected version {version}, got {node.version}")
        return node

    def _watch(self, watches: dict[str, dict[Watch, None]], path: str, watch: Watch | None) -> None:
        if watch is not None:
            watches.setdefault(path, {})[watch] = None

    def _fire(self, watches: dict[str, dict[Watch, None]], path: str) -> None:
        for watch in watches.pop(path, ()):
            self._notify(watch)


def _parent(path: str) -> str:
    return path.rpartition("/")[0]
