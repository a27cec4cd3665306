"""The learner's program, step 7, over a client's connections: in the simulated world and in a
process of the live one.

What is reported to the trace is what the program's user sees: an entry is confirmed when the
program reports it.
"""

from collections.abc import AsyncIterable, AsyncIterator, Callable

from labkit.course.checking.exercise import Refused
from labkit.course.workshop.client.cluster import Cluster
from labkit.course.workshop.client.ledgers import Ledgers
from labkit.course.workshop.learner import Learner
from labkit.system.client.context import ClientContext
from labkit.system.model.entry import Entry
from labkit.system.model.ledger import LedgerMetadata, LedgerState

Sizes = tuple[int, int, int]
"""E, Qw and Qa."""


class Program:
    """The learner's `create_ledger`, `append_all` and `take_over`, and what their callers get.

    failed: gets the error of a task that the learner's code spawned and that caught none.
    Every call raises `Refused` for what the contract of the learner's part excludes.
    """

    def __init__(
        self, learner: Learner, context: ClientContext, failed: Callable[[BaseException], None]
    ) -> None:
        self._learner = learner
        self._ledgers = Ledgers(context, failed)
        self.noting = learner.noting

    async def write(
        self,
        sizes: Sizes,
        payloads: AsyncIterable[bytes],
        window: int,
        created: Callable[[int], None],
        confirmed: Callable[[int], None],
    ) -> int:
        """Create a ledger, add the payloads, close it; returns how many entries were unconfirmed at
        most.  Reports the ledger's id, and each entry's once it is confirmed.
        """
        with self._learner.noting():
            writer = await self._learner.part("create_ledger")(self._ledgers, *sizes)
            cluster = self._ledgers.created
            if cluster is None or not isinstance(writer, self._learner.part("Writer")):
                raise Refused(
                    "`create_ledger` must store the ledger's metadata with `create_metadata` and"
                    f" return a `Writer`; yours returned {type(writer).__name__}, and"
                    f" {'nothing' if cluster is None else 'the metadata'} is stored."
                )
            await self._check_ensemble(cluster)
            created(cluster.ledger_id)
            flow = _Flow(cluster, payloads, window, confirmed)
            append_all = self._learner.part("append_all")
            await append_all(writer, flow.payloads(), flow.confirm, window)
            await self._check_end(cluster, flow)
        return flow.most

    async def take_over(self, ledger_id: int) -> list[Entry]:
        """Recover a ledger with the learner's parts; returns all its entries."""
        with self._learner.noting():
            entries = await self._learner.part("take_over")(self._ledgers, ledger_id)
            metadata, _version = await self._ledgers.read_metadata(ledger_id)
            _must_be_whole(entries, metadata)
        return list(entries)

    async def _check_ensemble(self, cluster: Cluster) -> None:
        metadata, _version = await self._ledgers.read_metadata(cluster.ledger_id)
        ensemble = metadata.segments[0].ensemble
        if len(set(ensemble)) < metadata.ensemble_size:
            raise Refused(
                f"An ensemble of {metadata.ensemble_size} has as many different bookies; the stored"
                f" metadata name {', '.join(ensemble)}."
            )

    async def _check_end(self, cluster: Cluster, flow: "_Flow") -> None:
        metadata, _version = await self._ledgers.read_metadata(cluster.ledger_id)
        if metadata.state is not LedgerState.CLOSED:
            raise Refused(
                f"`append_all` returned, and the stored metadata are {metadata.state.name}: where"
                " the ledger ends is not fixed."
            )
        if flow.confirmed != flow.taken or metadata.last_entry_id != flow.taken - 1:
            raise Refused(
                f"`append_all` took {flow.taken} payloads, reported {flow.confirmed} as confirmed"
                f" and closed the ledger behind entry {metadata.last_entry_id}."
            )


class _Flow:
    """What goes into `append_all`, and what it reports."""

    def __init__(
        self,
        cluster: Cluster,
        payloads: AsyncIterable[bytes],
        window: int,
        report: Callable[[int], None],
    ) -> None:
        self.taken = self.confirmed = self.most = 0
        self._cluster = cluster
        self._payloads = payloads
        self._window = window
        self._report = report

    async def payloads(self) -> AsyncIterator[bytes]:
        """The payloads, one after the other.  Raises `Refused` outside of the window."""
        async for payload in self._payloads:
            # One may be taken, and wait for its place in the window.
            if self.taken - self.confirmed > self._window:
                raise Refused(
                    f"At most {self._window} entries may be unconfirmed. `append_all` took payload"
                    f" {self.taken} when {self.confirmed} entries were confirmed."
                )
            self._cluster.pushed(self.taken, payload)
            self.taken += 1
            self.most = max(self.most, self.taken - self.confirmed)
            yield payload

    def confirm(self, entry_id: int) -> None:
        """The learner's program says that this entry is confirmed."""
        if entry_id != self.confirmed or entry_id >= self.taken:
            raise Refused(
                f"`confirmed` was called with {entry_id!r}; entry {self.confirmed} is the next one:"
                " each entry is reported once, in their order."
            )
        self.confirmed += 1
        self._cluster.record("lac.advanced", entry_id)
        self._report(entry_id)


def _must_be_whole(entries: object, metadata: LedgerMetadata) -> None:
    if not isinstance(entries, list) or not all(isinstance(each, Entry) for each in entries):
        raise Refused(
            f"`take_over` must return a list of Entry; yours returned {type(entries).__name__}."
        )
    if metadata.state is not LedgerState.CLOSED:
        raise Refused(
            f"`take_over` returned, and the stored metadata are {metadata.state.name}: the writer"
            " may go on."
        )
    found = [entry.entry_id for entry in entries]
    if found != list(range(metadata.last_entry_id + 1)):
        raise Refused(
            f"The ledger has entries 0 to {metadata.last_entry_id}, in this order; `take_over`"
            f" returned {len(found)}: {found[:5]} ... {found[-2:]}."
        )
