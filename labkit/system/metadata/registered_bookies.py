"""The bookies that are currently registered, as writable or as read-only.

In BookKeeper: `discover/ZKRegistrationClient.java` (`watchWritableBookies`,
`watchReadOnlyBookies`).
"""

from dataclasses import dataclass

from labkit.system.metadata.cluster import NoClusterError
from labkit.system.metadata.registration import READ_ONLY_NAME
from labkit.system.metadata.watched_nodes import WatchedNodes


@dataclass(frozen=True, slots=True)
class RegisteredBookies:
    """The sorted ids of the registered bookies. A bookie that is switching between writable and
    read-only may be in both lists.
    """

    writable: tuple[str, ...]
    read_only: tuple[str, ...]

    @property
    def alive(self) -> tuple[str, ...]:
        return tuple(sorted({*self.writable, *self.read_only}))


async def registered_bookies(nodes: WatchedNodes) -> RegisteredBookies:
    """Return the registered bookies, including any that are switching between writable and
    read-only. If this is called again, only lists that have changed are read again.

    Raises `MetadataUnavailableError`, or `NoClusterError` if the list of bookies is missing.
    """
    location = nodes.location
    while True:
        seen = nodes.change_count
        writable = await nodes.children(location.available)
        read_only = await nodes.children(location.read_only)
        # If a list has changed meanwhile, a bookie that is switching may be in neither of them.
        if nodes.change_count == seen:
            break
    if writable is None:
        raise NoClusterError(f"{location.available} is missing from the metadata store")
    return RegisteredBookies(
        tuple(name for name in writable if name != READ_ONLY_NAME), tuple(read_only or ())
    )
