"""Runs the learner's program (step 7) in both the simulated and the live world.

The trace records what the program's user observes: an entry counts as confirmed once the program
reports its confirmation.
"""

from collections.abc import AsyncIterable, AsyncIterator, Callable

from labkit.course.checking.refused import Refused
from labkit.course.workshop.client import contract
from labkit.course.workshop.client.cluster import Cluster
from labkit.course.workshop.client.ledgers import Ledgers
from labkit.course.workshop.learner import Learner
from labkit.system.client.context import ClientContext
from labkit.system.model.entry import Entry
from labkit.system.model.ledger import LedgerMetadata, LedgerState

Sizes = tuple[int, int, int]
"""Ensemble size, write quorum and ack quorum."""


class Program:
    """The learner's `create_ledger`, `append_all` and `take_over`, whose contracts are checked.

    failed: a function that is called with the uncaught exception of a task that the learner's code
    spawned. Every method raises `Refused` if the learner's part violates its contract.
    """

    def __init__(
        self, learner: Learner, context: ClientContext, failed: Callable[[BaseException], None]
    ) -> None:
        self._learner = learner
        self._ledgers = Ledgers(context, failed)

    async def write(
        self,
        sizes: Sizes,
        payloads: AsyncIterable[bytes],
        window: int,
        created: Callable[[int], None],
        confirmed: Callable[[int], None],
    ) -> None:
        """Create a ledger, add the payloads, and close the ledger.

        Calls `created` with the ledger's id, and `confirmed` with the id of each entry once it is
        confirmed.
        """
        with self._learner.recording_errors():
            writer = await self._learner.part("create_ledger")(self._ledgers, *sizes)
            cluster = self._ledgers.created
            if cluster is None or not isinstance(writer, self._learner.part("Writer")):
                raise Refused(
                    f"{contract.STORES} Yours returned {type(writer).__name__} and"
                    f" {'stored no' if cluster is None else 'stored the'} metadata."
                )
            await self._check_ensemble(cluster)
            created(cluster.ledger_id)
            flow = _Flow(cluster, payloads, window, confirmed)
            append_all = self._learner.part("append_all")
            await append_all(writer, flow.payloads(), flow.confirm, window)
            await self._check_end(cluster, flow)

    async def take_over(self, ledger_id: int) -> list[Entry]:
        with self._learner.recording_errors():
            entries = await self._learner.part("take_over")(self._ledgers, ledger_id)
            metadata, _version = await self._ledgers.read_metadata(ledger_id)
            _must_be_whole(entries, metadata)
        return list(entries)

    async def _check_ensemble(self, cluster: Cluster) -> None:
        metadata, _version = await self._ledgers.read_metadata(cluster.ledger_id)
        ensemble = metadata.segments[0].ensemble
        if len(set(ensemble)) < metadata.ensemble_size:
            raise Refused(
                f"{contract.STORES} The ensemble size is {metadata.ensemble_size}; the stored"
                f" metadata list {', '.join(ensemble)}."
            )

    async def _check_end(self, cluster: Cluster, flow: "_Flow") -> None:
        metadata, _version = await self._ledgers.read_metadata(cluster.ledger_id)
        if metadata.state is not LedgerState.CLOSED:
            raise Refused(
                f"{contract.CLOSES} `append_all` returned, but the stored metadata are"
                f" {metadata.state.name}, so the ledger's last entry is not fixed."
            )
        if flow.confirmed != flow.consumed or metadata.last_entry_id != flow.consumed - 1:
            raise Refused(
                f"{contract.CLOSES} `append_all` consumed {flow.consumed} payloads, reported"
                f" {flow.confirmed} as confirmed, and closed the ledger at entry"
                f" {metadata.last_entry_id}."
            )


class _Flow:
    def __init__(
        self,
        cluster: Cluster,
        payloads: AsyncIterable[bytes],
        window: int,
        report: Callable[[int], None],
    ) -> None:
        self.consumed = self.confirmed = 0
        self._cluster = cluster
        self._payloads = payloads
        self._window = window
        self._report = report

    async def payloads(self) -> AsyncIterator[bytes]:
        """Yield the payloads one by one. Raises `Refused` if the program exceeds the window."""
        async for payload in self._payloads:
            # The program may have consumed one more payload and may be waiting for room in the
            # window.
            if self.consumed - self.confirmed > self._window:
                raise Refused(
                    f"{contract.WINDOW} Here, at most {self._window} entries may be unconfirmed,"
                    f" but `append_all` consumed payload {self.consumed} when {self.confirmed}"
                    " entries were confirmed."
                )
            self._cluster.pushed(self.consumed, payload)
            self.consumed += 1
            yield payload

    def confirm(self, entry_id: int) -> None:
        if entry_id != self.confirmed or entry_id >= self.consumed:
            raise Refused(
                f"{contract.REPORTS} `confirmed` was called with {entry_id!r}, but the next entry"
                f" is {self.confirmed}."
            )
        self.confirmed += 1
        self._cluster.record("lac.advanced", entry_id)
        self._report(entry_id)


def _must_be_whole(entries: object, metadata: LedgerMetadata) -> None:
    if not isinstance(entries, list) or not all(isinstance(each, Entry) for each in entries):
        raise Refused(
            f"{contract.TAKES_OVER} It must return a list of Entry; yours returned"
            f" {type(entries).__name__}."
        )
    if metadata.state is not LedgerState.CLOSED:
        raise Refused(
            f"{contract.TAKES_OVER} It returned, but the stored metadata are {metadata.state.name},"
            " so the writer can still add entries."
        )
    found = [entry.entry_id for entry in entries]
    if found != list(range(metadata.last_entry_id + 1)):
        raise Refused(
            f"{contract.TAKES_OVER} The ledger has entries 0 to {metadata.last_entry_id}, in this"
            f" order, but `take_over` returned {len(found)}: {found[:5]} ... {found[-2:]}."
        )
