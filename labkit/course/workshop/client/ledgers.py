"""The ledgers of a cluster as a learner's program creates and opens them.

Step 7 only.  Which bookies a new ledger lies on, what its metadata say and what comes after that is
the learner's part.
"""

from collections.abc import Callable
from dataclasses import replace

from labkit.course.workshop.client.cluster import Cluster
from labkit.system.client.context import ClientContext
from labkit.system.model.entry import NO_ENTRY_ID, Entry
from labkit.system.model.ledger import LedgerMetadata, LedgerState


class Ledgers:
    """Ids, metadata, and a `Cluster` for each ledger.  Every call but `cluster` may raise a
    `LabkitError`.
    """

    def __init__(self, context: ClientContext, failed: Callable[[BaseException], None]) -> None:
        self._context = context
        self._failed = failed
        self.created: Cluster | None = None
        """Of the ledger whose metadata this program stored last."""

    async def writable_bookies(self) -> list[str]:
        """All bookies that take writes now, sorted by name."""
        return await self._context.watcher.writable()

    async def new_ledger_id(self) -> int:
        """An id that no ledger of this cluster has or had."""
        return await self._context.manager.new_ledger_id()

    async def create_metadata(self, ledger_id: int, metadata: LedgerMetadata) -> int:
        """Store a new ledger's metadata; returns their version.

        Raises `BKLedgerExistException` when the ledger is there.
        """
        version = await self._context.manager.create(ledger_id, replace(metadata, c_token=0))
        created = self.created = self.cluster(ledger_id, metadata)
        sizes = metadata.ensemble_size, metadata.write_quorum, metadata.ack_quorum
        created.record("ledger.created", note="E={} Qw={} Qa={}".format(*sizes))
        for segment in metadata.segments:
            created.record("ensemble.set", segment.first_entry_id, ",".join(segment.ensemble))
        return version

    async def read_metadata(self, ledger_id: int) -> tuple[LedgerMetadata, int]:
        """A ledger's metadata as stored now, and their version.

        Raises `BKNoSuchLedgerExistsOnMetadataServerException`.
        """
        return await self._context.manager.read(ledger_id)

    def cluster(self, ledger_id: int, metadata: LedgerMetadata) -> Cluster:
        """The bookies and the metadata of that ledger: what steps 1 to 6 work with."""
        opened = _Opened(ledger_id, metadata, self._context)
        opened.watch(self._failed, lambda _: None)
        return opened


class _Opened(Cluster):
    """A cluster that reports a recovery from what the learner's code asks for."""

    _has_started = _has_covered = False

    async def read_entry(self, bookie: str, entry_id: int, *, fence: bool = False) -> Entry:
        if fence and not self._has_started:
            self._has_started = True
            found = (f"{s.first_entry_id}:{','.join(s.ensemble)}" for s in self.segments)
            self.record("recovery.started", note=" ".join(found))
        if fence and entry_id != NO_ENTRY_ID and not self._has_covered:
            self._has_covered = True
            self.record("recovery.covered", entry_id - 1)
        return await super().read_entry(bookie, entry_id, fence=fence)

    async def write_metadata(self, metadata: LedgerMetadata, version: int) -> int:
        written = await super().write_metadata(metadata, version)
        if self._has_started and metadata.state is LedgerState.CLOSED:
            self.record("recovery.ended", metadata.last_entry_id)
        return written
