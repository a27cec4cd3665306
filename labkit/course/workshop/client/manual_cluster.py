"""A cluster whose bookies respond to an add only when a test tells them to."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from labkit.course.workshop.client.spawned import Spawning
from labkit.course.workshop.learner import Learner
from labkit.system.model.entry import Entry
from labkit.system.model.errors import BKException, BKMetadataVersionException, BKTimeoutException
from labkit.system.model.ledger import LedgerMetadata
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.run import outside_event_loops

Request = tuple[str, int]
"""A request to add an entry: the bookie, and the entry id."""


class ManualCluster(Spawning):
    """Bookies that keep each add waiting, and metadata that respond at once.

    sent: the requests to add an entry, in order
    changes: the metadata that the learner has written, in order
    """

    ledger_id = 0

    def __init__(self, metadata: LedgerMetadata, writable: tuple[str, ...] = ()) -> None:
        super().__init__()
        self.metadata, self.version = metadata, 0
        self.sent: list[Request] = []
        self.changes: list[LedgerMetadata] = []
        self._writable = writable
        self._waiting: dict[Request, list[asyncio.Future[None]]] = {}

    def waits(self, request: Request) -> bool:
        return request in self._waiting

    def waiting(self) -> list[Request]:
        return list(self._waiting)

    async def acknowledge(self, *requests: Request) -> None:
        """Acknowledge these adds, and let the learner's code run until it waits."""
        for request in requests:
            for waiting in self._waiting.pop(request):
                waiting.set_result(None)
        await self.settle()

    async def fail(self, *requests: Request) -> None:
        """Let these adds fail, and let the learner's code run until it waits."""
        for request in requests:
            for waiting in self._waiting.pop(request):
                waiting.set_exception(BKTimeoutException(request[0]))
        await self.settle()

    async def settle(self) -> None:
        """Let the learner's code run until it waits. Raises an error that it did not catch."""
        await asyncio.sleep(0.001)
        self.raise_error()

    # The methods of `Cluster`

    async def add_entry(self, bookie: str, entry: Entry, *, recovery: bool = False) -> None:
        request = bookie, entry.entry_id
        responded = asyncio.get_running_loop().create_future()
        self.sent.append(request)
        self._waiting.setdefault(request, []).append(responded)
        await responded

    async def writable_bookies(self) -> list[str]:
        return list(self._writable)

    async def read_metadata(self) -> tuple[LedgerMetadata, int]:
        return self.metadata, self.version

    async def write_metadata(self, metadata: LedgerMetadata, version: int) -> int:
        if version != self.version:
            raise BKMetadataVersionException("another client was faster")
        self.metadata, self.version = metadata, version + 1
        self.changes.append(metadata)
        return self.version


def run_writer(
    learner: Learner, cluster: ManualCluster, script: Callable[[Any], Coroutine[Any, Any, Any]]
) -> Any:
    """Run a script with the learner's writer on this cluster, and return its result."""

    async def run() -> Any:
        with learner.recording_errors():
            return await script(learner.part("Writer")(cluster, cluster.metadata, cluster.version))

    # Use the simulated loop, because asyncio's own loop does not run in a browser.
    return outside_event_loops(lambda: SimLoop().run(run()))


def confirmed(adds: "list[asyncio.Task[int]]") -> list[int]:
    """Return which of the adds, counted from 0, have returned their id.

    Raises an error of the learner's code, but not a `BKException`, which is a result of an add.
    """
    done = [number for number, add in enumerate(adds) if add.done()]
    errors = {number: adds[number].exception() for number in done}
    for error in errors.values():
        if error is not None and not isinstance(error, BKException):
            raise error
    return [number for number in done if errors[number] is None]
