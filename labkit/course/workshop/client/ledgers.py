"""Lets a learner's program create and open the ledgers of a cluster.

Only step 7 needs this. The learner's code decides which bookies store a new ledger, what the
ledger's metadata contains, and what happens afterwards.
"""

from collections.abc import Callable
from dataclasses import replace

from labkit.course.workshop.client.cluster import Cluster, ClusterToRecover
from labkit.system.client.context import ClientContext
from labkit.system.model.entry import Entry
from labkit.system.model.ledger import LedgerMetadata, LedgerState


class Ledgers:
    """Allocates ledger ids, stores ledger metadata, and provides a `Cluster` for each ledger.

    Every method except `cluster` may raise a `LabkitError`.
    """

    def __init__(self, context: ClientContext, failed: Callable[[BaseException], None]) -> None:
        self._context = context
        self._failed = failed
        self.created: Cluster | None = None
        """The cluster of the ledger that this program created most recently."""

    async def writable_bookies(self) -> list[str]:
        """Return the names of all writable bookies, sorted."""
        return await self._context.watcher.writable()

    async def new_ledger_id(self) -> int:
        """Return an id that no ledger of this cluster has ever had."""
        return await self._context.manager.new_ledger_id()

    async def create_metadata(self, ledger_id: int, metadata: LedgerMetadata) -> int:
        """Store a new ledger's metadata and return its version.

        Raises `BKLedgerExistException` if the ledger already exists.
        """
        version = await self._context.manager.create(ledger_id, replace(metadata, c_token=0))
        created = self.created = self.cluster(ledger_id, metadata)
        created.record_creation(metadata)
        return version

    async def read_metadata(self, ledger_id: int) -> tuple[LedgerMetadata, int]:
        """Return a ledger's stored metadata and its version.

        Raises `BKNoSuchLedgerExistsOnMetadataServerException` if the ledger does not exist.
        """
        return await self._context.manager.read(ledger_id)

    def cluster(self, ledger_id: int, metadata: LedgerMetadata) -> Cluster:
        """Return the ledger's `Cluster`, for the parts written in steps 1 to 6."""
        return _Opened(ledger_id, metadata, self._context, self._failed)


class _Opened(ClusterToRecover):
    """A cluster that recognizes a recovery by its first request that fences."""

    async def read_entry(self, bookie: str, entry_id: int, *, fence: bool = False) -> Entry:
        if fence:
            self.asks(entry_id)
        return await super().read_entry(bookie, entry_id, fence=fence)

    async def write_metadata(self, metadata: LedgerMetadata, version: int) -> int:
        written = await super().write_metadata(metadata, version)
        if self.has_started and metadata.state is LedgerState.CLOSED:
            self.record("recovery.ended", metadata.last_entry_id)
        return written
