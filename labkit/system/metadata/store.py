"""The port to the metadata store: a tree of versioned nodes, as in ZooKeeper.

After any error except `MetadataUnavailableError`, the request has certainly not been carried out.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from labkit.system.metadata.location import MetadataLocation
from labkit.system.model.errors import LabkitError


class MetadataError(LabkitError): ...


class NoNodeError(MetadataError): ...


class NodeExistsError(MetadataError): ...


class BadVersionError(MetadataError):
    """The node does not have the expected version, because another client has changed it."""


class NotEmptyError(MetadataError):
    """The node has children, so it cannot be deleted."""


class NodeTooLargeError(MetadataError):
    """The request was not sent, because ZooKeeper would close the session."""


class MetadataUnavailableError(MetadataError):
    """The store did not respond, so it is unknown whether the request was carried out."""


ANY_VERSION = -1

MAX_NODE_BYTES = 1_000_000
"""The maximum size of a path and its data; ZooKeeper's is 1,048,575 (`jute.maxbuffer`)."""


def check_node(path: str, data: bytes) -> None:
    """Raise `NodeTooLargeError` if the node is too large. Stores call this before each write."""
    if len(path) + len(data) > MAX_NODE_BYTES:
        raise NodeTooLargeError(
            f"node {path[:200]} with {len(data)} bytes is too large; the limit, including"
            f" the path, is {MAX_NODE_BYTES} bytes"
        )


T = TypeVar("T")


async def send_again_if_lost(send: Callable[[], Awaitable[T]]) -> T:
    """Send a request. If there is no response, send it once more.

    The store may have carried out the first request. So use this only if the second request would
    then fail or be harmless.
    """
    try:
        return await send()
    except MetadataUnavailableError:
        return await send()


OnChange = Callable[[], None]
"""A watch, which is called once, from the event loop. It is called at the next change, before any
request that sees the change returns, or when a new session has replaced a lost one.

After a brief disconnection, it may be called although nothing has changed.
"""


class MetadataStore(Protocol):
    """A connection to the store, with a session that owns the ephemeral nodes it creates.

    Every method may raise `MetadataUnavailableError`.
    """

    @property
    def location(self) -> MetadataLocation:
        """All paths are relative to its `chroot`."""

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """Create a node and its missing ancestors, and return the node's path. If the node is
        `sequential`, the store appends a number to the path. Raises `NodeExistsError`.
        """

    async def create_child(self, path: str, data: bytes, parent_version: int) -> None:
        """Create a node if its parent still has the given version, in a single transaction.

        Raises `NodeExistsError`, and `NoNodeError` or `BadVersionError` for the parent.
        """

    async def get(self, path: str, on_change: OnChange | None = None) -> tuple[bytes, int]:
        """Return the node's data and version. Call `on_change` if it is changed or deleted.

        Raises `NoNodeError`; in this case, no watch is set.
        """

    async def exists(self, path: str, on_change: OnChange | None = None) -> bool:
        """Return whether the node exists. Call `on_change` if it is created, changed or deleted."""

    async def set(self, path: str, data: bytes, version: int) -> int:
        """Replace the data if the version matches, and return the new version.

        Raises `NoNodeError` and `BadVersionError`.
        """

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Delete a node if the version matches.

        Raises `NoNodeError`, `BadVersionError`, or `NotEmptyError` if the node has children.
        """

    async def children(self, path: str, on_change: OnChange | None = None) -> list[str]:
        """Return the sorted names of the children. Call `on_change` if they change, or if the node
        is deleted. Raises `NoNodeError`; in this case, no watch is set.
        """

    async def sync(self) -> None:
        """Wait until this client's reads see every change made before this call.

        The ZooKeeper server that serves this client may lag behind the others. So call this before
        you read a list if you are going to delete everything that it does not contain.
        """

    @property
    def session_timeout_s(self) -> float:
        """The time after which a session expires if its owner sends no request."""

    def on_new_session(self, action: Callable[[], None]) -> None:
        """Call `action` whenever a new session has replaced a lost one. The ephemeral nodes and the
        watches of the lost session no longer exist.
        """

    def on_silence(self, action: Callable[[], None]) -> None:
        """Call `action` whenever the store responds after a silence of at least half of
        `session_timeout_s`.

        During such a silence, any session may have expired. `action` is called before the caller
        receives the response that ends the silence. From now on, the store is polled, so that no
        silence goes unnoticed.
        """


class MetadataSession(MetadataStore, Protocol):
    async def stop(self) -> None:
        """Close the session, which immediately deletes its ephemeral nodes, such as locks."""
