"""The port to the metadata store: versioned nodes in a tree, as ZooKeeper has them."""

from collections.abc import Callable
from typing import Protocol

from labkit.system.metadata.place import MetadataPlace
from labkit.system.model.errors import LabkitError


class MetadataError(LabkitError):
    """Base of what the metadata store answers instead of doing what was asked."""


class NoNodeError(MetadataError):
    """There is no node at that path.  Definite."""


class NodeExistsError(MetadataError):
    """There is a node at that path already.  Definite."""


class BadVersionError(MetadataError):
    """The node's version is not the one expected: another client changed it.  Definite."""


class NotEmptyError(MetadataError):
    """The node has children, so it cannot go.  Definite."""


class NodeTooLargeError(MetadataError):
    """The node is too large.  It was not sent: ZooKeeper would refuse it and end the session.
    Definite.
    """


class MetadataUnavailableError(MetadataError):
    """The store was unreachable or did not answer: the request may have been carried out."""


ANY_VERSION = -1

LARGEST_NODE = 1_000_000
"""Bytes of a path and its data: a request of 1,048,575 is too large (`jute.maxbuffer`)."""


def check_node(path: str, data: bytes) -> None:
    """Every store calls this before it writes.  Raises `NodeTooLargeError`."""
    if len(path) + len(data) > LARGEST_NODE:
        raise NodeTooLargeError(
            f"{path[:200]}: {len(data)} bytes are too many for a node; at most {LARGEST_NODE} fit"
        )


OnChange = Callable[[], None]
"""A watch: called once, from the event loop, at the next change, or when the session was lost and
a new one has begun.  It comes before the answer to any request that sees the change.

It does not say what changed: ask again (and watch again), since changes in between are not
reported. After a short loss of the connection it may be called although nothing changed.
"""


class MetadataStore(Protocol):
    """A connection to the store, with a session; its ephemeral nodes last as long as the session.

    Every call may raise `MetadataUnavailableError`.
    """

    @property
    def place(self) -> MetadataPlace:
        """The cluster whose metadata these are; paths are below its `chroot`."""

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """Create a node, and its missing parents; returns its path, with the number that
        `sequential` appended.  Raises `NodeExistsError`.
        """

    async def get(self, path: str, on_change: OnChange | None = None) -> tuple[bytes, int]:
        """Data and version; `on_change` when either changes or the node goes.

        Raises `NoNodeError`, and then watches nothing.
        """

    async def exists(self, path: str, on_change: OnChange | None = None) -> bool:
        """Whether there is such a node; `on_change` when it comes, changes or goes."""

    async def set(self, path: str, data: bytes, version: int) -> int:
        """Replace the data if the version fits; returns the new version.

        Raises `NoNodeError` and `BadVersionError`.
        """

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Remove a node if the version fits.

        Raises `NoNodeError`, `BadVersionError` and, when it has children, `NotEmptyError`.
        """

    async def children(self, path: str, on_change: OnChange | None = None) -> list[str]:
        """Names of the children, sorted; `on_change` when one comes or goes, or the node itself.

        Raises `NoNodeError`, and then watches nothing.
        """

    async def sync(self) -> None:
        """Return when reads by this client see every change that was made before the call.

        Reads are answered by one of ZooKeeper's servers, which may be behind the others.  So who
        deletes what a list does not have calls this first.
        """

    @property
    def session_timeout_s(self) -> float:
        """How long a session outlives the last word of its owner, in seconds."""

    def on_new_session(self, action: Callable[[], None]) -> None:
        """Call `action` whenever a lost session was replaced by a new one: the ephemeral nodes and
        the watches of the lost one are gone.
        """

    def on_silence(self, action: Callable[[], None]) -> None:
        """Call `action` whenever the store has answered nothing for more than half of
        `session_timeout_s`, and answers again: by then it may have ended any session.

        From the first call on the store is asked often enough to notice.  `action` comes before
        the answer that ended the silence.
        """


class MetadataSession(MetadataStore, Protocol):
    """A session that can be ended: its ephemeral nodes, and so its locks, go at once."""

    async def stop(self) -> None:
        """End it."""
