"""The port to the metadata store: versioned nodes in a tree, as ZooKeeper has them."""

from typing import Protocol

from labkit.model.errors import LabkitError


class MetadataError(LabkitError):
    """Base of what the metadata store answers instead of doing what was asked."""


class NoNodeError(MetadataError):
    """There is no node at that path.  Definite."""


class NodeExistsError(MetadataError):
    """There is a node at that path already.  Definite."""


class BadVersionError(MetadataError):
    """The node's version is not the one expected: somebody changed it.  Definite."""


class MetadataUnavailableError(MetadataError):
    """The store could not be asked, or did not answer: the request may have been carried out."""


class MetadataStore(Protocol):
    """A connection to the store, with a session that its ephemeral nodes live and die with.

    Every call may raise `MetadataUnavailableError`.
    """

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """Create a node, and its missing parents; returns its path, with the number that
        `sequential` appended.  Raises `NodeExistsError`.
        """

    async def get(self, path: str) -> tuple[bytes, int]:
        """Data and version.  Raises `NoNodeError`."""

    async def set(self, path: str, data: bytes, version: int) -> int:
        """Replace the data if the version fits; returns the new version.

        Raises `NoNodeError` and `BadVersionError`.
        """

    async def delete(self, path: str) -> None:
        """Remove a node.  Raises `NoNodeError`."""

    async def children(self, path: str) -> list[str]:
        """Names of the children, sorted.  Raises `NoNodeError`."""
