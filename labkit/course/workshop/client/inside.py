"""The learner's client in labkit's place: the adapter between the workload and the learner's parts.

The simulated nodes named in `nodes` write, read and recover with the learner's parts; all others,
the epilogue too, use labkit's own client.  So whatever the learner's client stores is read back,
and judged, by another.

What is reported to the trace is what the caller sees: an entry is confirmed when `add` returns its
id, LastAddConfirmed is learnt when `read_last_add_confirmed` returns it.
"""

import asyncio
from typing import Any

from labkit.course.checking.exercise import Refused
from labkit.course.workshop.client.cluster import Cluster
from labkit.course.workshop.client.program import Program
from labkit.course.workshop.learner import Learner
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientContext
from labkit.system.client.reader import LedgerReader
from labkit.system.model.entry import NO_ENTRY_ID, Entry
from labkit.system.model.errors import BKReadException, LabkitError
from labkit.system.model.ledger import LedgerMetadata, Segment, check_quorums


def client_of(learner: Learner, nodes: tuple[str, ...], reads: bool = True) -> Any:
    """What makes a client for a node: the learner's on these `nodes`, labkit's own elsewhere.

    Without `reads` the learner's reader only says how far it may be read; labkit's reads.
    """

    def make(store: Any, network: Any, recorder: Any, *others: Any, **options: Any) -> BookKeeper:
        parts = (store, network, recorder, *others)
        if recorder.node not in nodes:
            return BookKeeper(*parts, **options)
        return LearnersClient(learner, reads, *parts, **options)

    return make


class LearnersClient(BookKeeper):
    """A client that writes, reads and recovers with the learner's parts."""

    def __init__(self, learner: Learner, reads: bool, *parts: Any, **options: Any) -> None:
        super().__init__(*parts, **options)
        self._learner = learner
        self._reads = reads

    def program(self) -> Program:
        """The learner's program over this client's connections."""
        return Program(self._learner, self.context, self._failed)

    async def create_ledger(  # type: ignore[override]
        self, ensemble_size: int = 3, write_quorum: int = 2, ack_quorum: int = 2
    ) -> "WriterInside":
        """A new ledger with the learner's `Writer`; its metadata is labkit's part."""
        check_quorums(ensemble_size, write_quorum, ack_quorum)
        ensemble = await self.context.watcher.new_ensemble(ensemble_size, write_quorum)
        metadata = LedgerMetadata(ensemble_size, write_quorum, ack_quorum, (Segment(0, ensemble),))
        ledger_id = await self.context.manager.new_ledger_id()
        version = await self.context.manager.create(ledger_id, metadata)
        cluster = self._cluster(ledger_id, metadata)
        note = f"E={ensemble_size} Qw={write_quorum} Qa={ack_quorum}"
        cluster.record("ledger.created", note=note)
        cluster.record("ensemble.set", 0, ",".join(ensemble))
        return WriterInside(self._learner, cluster, metadata, version)

    async def open_ledger_no_recovery(self, ledger_id: int, **_: Any) -> LedgerReader:
        """A reader of an open ledger."""
        metadata, _version = await self.context.manager.read(ledger_id)
        cluster = self._cluster(ledger_id, metadata)
        reader = ReaderInside(self._learner, self._reads, cluster, metadata, self.context)
        await reader.read_last_add_confirmed()
        return reader

    async def open_ledger(self, ledger_id: int, **_: Any) -> LedgerReader:
        """A reader of a ledger that the learner's `recover` has closed."""
        metadata, _version = await self.context.manager.read(ledger_id)
        metadata = await self._recovered(self._cluster(ledger_id, metadata))
        return LedgerReader(ledger_id, metadata, self.context)

    async def _recovered(self, cluster: Cluster) -> LedgerMetadata:
        has_started = has_covered = False

        def start(entry_id: int) -> None:
            nonlocal has_started, has_covered
            if not has_started:
                has_started = True
                found = (f"{s.first_entry_id}:{','.join(s.ensemble)}" for s in cluster.segments)
                cluster.record("recovery.started", note=" ".join(found))
            if entry_id != NO_ENTRY_ID and not has_covered:
                has_covered = True
                cluster.record("recovery.covered", entry_id - 1)

        cluster.watch(self._failed, start)
        try:
            with self._learner.noting():
                metadata: LedgerMetadata = await self._learner.part("recover")(cluster)
                _must_be(metadata, LedgerMetadata, "recover")
        except LabkitError as error:
            cluster.record("recovery.failed", note=type(error).__name__)
            raise
        if has_started:
            cluster.record("recovery.ended", metadata.last_entry_id)
        return metadata

    def _cluster(self, ledger_id: int, metadata: LedgerMetadata) -> Cluster:
        cluster = Cluster(ledger_id, metadata, self.context)
        cluster.watch(self._failed, lambda _: None)
        return cluster

    def _failed(self, error: BaseException) -> None:
        """Keep the error of a task that caught none: a `LabkitError`, too, is a mistake there."""
        if self._learner.error is None:
            self._learner.error = error


def _taken(added: "asyncio.Task[int]") -> None:
    """A caller that ended with an earlier add's error does not ask for this one's."""
    if not added.cancelled():
        added.exception()


class WriterInside:
    """The learner's `Writer` as the workload uses a writer."""

    def __init__(
        self, learner: Learner, cluster: Cluster, metadata: LedgerMetadata, version: int
    ) -> None:
        self.ledger_id = cluster.ledger_id
        self._learner = learner
        self._cluster = cluster
        self._pushed = NO_ENTRY_ID
        with learner.noting():
            self._writer = learner.part("Writer")(cluster, metadata, version)

    def add(self, payload: bytes) -> "asyncio.Future[int]":
        """Call the learner's `add`; the future gives the entry id that it returns."""
        self._pushed += 1
        self._cluster.pushed(self._pushed, payload)
        added = asyncio.get_running_loop().create_task(self._add(payload, self._pushed))
        added.add_done_callback(_taken)
        return added

    async def _add(self, payload: bytes, expected: int) -> int:
        with self._learner.noting():
            entry_id: int = await self._writer.add(payload)
            if entry_id != expected:
                raise Refused(
                    f"`add` was called with entry {expected} and returned {entry_id!r}: it returns"
                    " the entry's id, and entries get their ids in the order of the calls, before"
                    " the first `await`."
                )
        self._cluster.record("lac.advanced", entry_id)
        return entry_id

    async def close(self) -> None:
        """Call the learner's `close`."""
        with self._learner.noting():
            await self._writer.close()
            if not self._cluster.is_closed:
                raise Refused("`close` returned, and the metadata are not CLOSED.")


class ReaderInside(LedgerReader):
    """The learner's `Reader` as the workload uses a reader."""

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
        with learner.noting():
            self._reader = learner.part("Reader")(cluster, metadata)

    async def read_last_add_confirmed(self) -> int:
        """What the learner's reader says."""
        with self._learner.noting():
            last = await self._reader.read_last_add_confirmed()
            _must_be(last, int, "read_last_add_confirmed")
        self.last_add_confirmed = last
        self._cluster.record("lac.read", last)
        return self.last_add_confirmed

    async def read_entries(self, first: int, last: int) -> list[Entry]:
        """The entries, all asked for at once, from the learner's reader."""
        if not self._learners_reads:
            return await super().read_entries(first, last)
        return list(await asyncio.gather(*map(self._read, range(first, last + 1))))

    async def _read(self, entry_id: int) -> Entry:
        with self._learner.noting():
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
