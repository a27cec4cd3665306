"""An adapter that runs the learner's client in place of labkit's.

The simulated nodes in `nodes` use the learner's code to write, read and recover. All other nodes,
including the epilogue, use labkit's own client, so the data that the learner's client has stored is
read back and checked by a different client.

The trace records what the caller observes: an entry counts as confirmed once `add` returns its id,
and LastAddConfirmed counts as known once `read_last_add_confirmed` returns it.
"""

import asyncio
from typing import Any

from labkit.course.checking.refused import Refused
from labkit.course.workshop.client.cluster import Cluster, ClusterToRecover
from labkit.course.workshop.client.contract import RETURNS_ID
from labkit.course.workshop.client.program import Program
from labkit.course.workshop.learner import Learner
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientContext
from labkit.system.client.reader import LedgerReader
from labkit.system.model.entry import NO_ENTRY_ID, Entry
from labkit.system.model.errors import BKReadException, LabkitError
from labkit.system.model.ledger import LedgerMetadata, Segment, check_quorums


def client_of(learner: Learner, nodes: tuple[str, ...], reads: bool = True) -> Any:
    """Return a factory that creates the learner's client on these `nodes`, and labkit's client on
    all others.

    If `reads` is false, the learner's reader only reads LastAddConfirmed, and labkit's reader reads
    the entries.
    """

    def make(store: Any, network: Any, recorder: Any, *others: Any, **options: Any) -> BookKeeper:
        parts = (store, network, recorder, *others)
        if recorder.node not in nodes:
            return BookKeeper(*parts, **options)
        return LearnersClient(learner, reads, *parts, **options)

    return make


class LearnersClient(BookKeeper):
    def __init__(self, learner: Learner, reads: bool, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self._learner = learner
        self._reads = reads

    def program(self) -> Program:
        return Program(self._learner, self.context, self._on_task_failure)

    async def create_ledger(  # type: ignore[override]
        self, ensemble_size: int = 3, write_quorum: int = 2, ack_quorum: int = 2
    ) -> "LearnersWriter":
        """Create a ledger; return an adapter for the learner's `Writer`."""
        check_quorums(ensemble_size, write_quorum, ack_quorum)
        ensemble = await self.context.watcher.new_ensemble(ensemble_size, write_quorum)
        metadata = LedgerMetadata(ensemble_size, write_quorum, ack_quorum, (Segment(0, ensemble),))
        ledger_id = await self.context.manager.new_ledger_id()
        version = await self.context.manager.create(ledger_id, metadata)
        cluster = Cluster(ledger_id, metadata, self.context, self._on_task_failure)
        cluster.record_creation(metadata)
        return LearnersWriter(self._learner, cluster, metadata, version)

    async def open_ledger_no_recovery(self, ledger_id: int, **_: Any) -> LedgerReader:
        metadata, _version = await self.context.manager.read(ledger_id)
        cluster = Cluster(ledger_id, metadata, self.context, self._on_task_failure)
        reader = LearnersReader(self._learner, self._reads, cluster, metadata, self.context)
        await reader.read_last_add_confirmed()
        return reader

    async def open_ledger(self, ledger_id: int, **_: Any) -> LedgerReader:
        metadata, _version = await self.context.manager.read(ledger_id)
        cluster = _RecoveringCluster(ledger_id, metadata, self.context, self._on_task_failure)
        metadata = await self._recover(cluster)
        return LedgerReader(ledger_id, metadata, self.context)

    async def _recover(self, cluster: "_RecoveringCluster") -> LedgerMetadata:
        try:
            with self._learner.recording_errors():
                metadata: LedgerMetadata = await self._learner.part("recover")(cluster)
                _must_be(metadata, LedgerMetadata, "recover")
        except LabkitError as error:
            cluster.record("recovery.failed", error=type(error).__name__)
            raise
        if cluster.has_started:
            cluster.record("recovery.ended", metadata.last_entry_id)
        return metadata

    def _on_task_failure(self, error: BaseException) -> None:
        """Record the uncaught exception of a task; this is a bug even if the exception is a
        `LabkitError`.
        """
        if self._learner.error is None:
            self._learner.error = error


class _RecoveringCluster(ClusterToRecover):
    async def add_entry(self, bookie: str, entry: Entry, *, recovery: bool = False) -> None:
        self.asks(NO_ENTRY_ID)
        await super().add_entry(bookie, entry, recovery=recovery)

    async def read_entry(self, bookie: str, entry_id: int, *, fence: bool = False) -> Entry:
        self.asks(entry_id)
        return await super().read_entry(bookie, entry_id, fence=fence)


def _retrieve_exception(added: "asyncio.Task[int]") -> None:
    """Retrieve the exception, so that asyncio does not warn if the caller never awaits this add."""
    if not added.cancelled():
        added.exception()


class LearnersWriter:
    """The learner's `Writer`, with the interface that the workload expects."""

    def __init__(
        self, learner: Learner, cluster: Cluster, metadata: LedgerMetadata, version: int
    ) -> None:
        self.ledger_id = cluster.ledger_id
        self._learner = learner
        self._cluster = cluster
        self._pushed = NO_ENTRY_ID
        with learner.recording_errors():
            self._writer = learner.part("Writer")(cluster, metadata, version)

    def add(self, payload: bytes) -> "asyncio.Future[int]":
        """Call the learner's `add`, and return a future whose result is the entry id."""
        self._pushed += 1
        self._cluster.pushed(self._pushed, payload)
        added = asyncio.get_running_loop().create_task(self._add(payload, self._pushed))
        added.add_done_callback(_retrieve_exception)
        return added

    async def _add(self, payload: bytes, expected: int) -> int:
        with self._learner.recording_errors():
            entry_id: int = await self._writer.add(payload)
            if entry_id != expected:
                raise Refused(
                    f"{RETURNS_ID} Call {expected} must return {expected}; yours returned"
                    f" {entry_id!r}. Assign the id before the first `await`."
                )
        self._cluster.record("lac.advanced", entry_id)
        return entry_id

    async def close(self) -> None:
        with self._learner.recording_errors():
            await self._writer.close()
            if not self._cluster.is_closed:
                raise Refused("`close` returned, but the metadata are not CLOSED.")


class LearnersReader(LedgerReader):
    """The learner's `Reader`, with the interface that the workload expects."""

    def __init__(
        self,
        learner: Learner,
        reads: bool,
        cluster: Cluster,
        metadata: LedgerMetadata,
        context: ClientContext,
    ) -> None:
        super().__init__(cluster.ledger_id, metadata, context)
        self._learner = learner
        self._learners_reads = reads
        self._cluster = cluster
        with learner.recording_errors():
            self._reader = learner.part("Reader")(cluster, metadata)

    async def read_last_add_confirmed(self) -> int:
        with self._learner.recording_errors():
            last = await self._reader.read_last_add_confirmed()
            _must_be(last, int, "read_last_add_confirmed")
        self.last_add_confirmed = last
        self._cluster.record("lac.read", last)
        return self.last_add_confirmed

    async def read_entries(self, first: int, last: int) -> list[Entry]:
        """Read all entries concurrently with the learner's reader."""
        if not self._learners_reads:
            return await super().read_entries(first, last)
        return list(await asyncio.gather(*map(self._read, range(first, last + 1))))

    async def _read(self, entry_id: int) -> Entry:
        with self._learner.recording_errors():
            entry: Entry = await self._reader.read_entry(entry_id)
            _must_be(entry, Entry, "read_entry")
        if entry.entry_id != entry_id:
            raise BKReadException(f"asked for entry {entry_id}, got {entry.entry_id}")
        return entry


def _must_be(value: object, kind: type, what: str) -> None:
    if not isinstance(value, kind) or isinstance(value, bool):
        raise Refused(
            f"`{what}` must return {kind.__name__}; yours returned {type(value).__name__}"
            + ("; is there a `return`?" if value is None else ".")
        )
