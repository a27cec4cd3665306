"""A cluster whose bookies respond to an add only when a test tells them to."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from labkit.course.checking.generated_cases import Draw
from labkit.course.workshop.client.scripted_cluster import ScriptedCluster
from labkit.course.workshop.learner import Learner
from labkit.system.client.striping import write_set
from labkit.system.model.entry import Entry
from labkit.system.model.errors import BKException, BKTimeoutException
from labkit.system.model.ledger import LedgerMetadata, Segment

Request = tuple[str, int]
"""A request to add an entry: the bookie, and the entry id."""


def new_metadata(draw: Draw) -> LedgerMetadata:
    """Return the metadata of a new ledger on up to five bookies."""
    size = draw.number(1, 5)
    write_quorum = draw.number(1, size)
    ensemble = tuple(f"b{index}" for index in range(size))
    return LedgerMetadata(size, write_quorum, draw.number(1, write_quorum), (Segment(0, ensemble),))


def requests_of(metadata: LedgerMetadata, entries: int) -> list[Request]:
    """Return the requests that a writer of the ledger sends for its first entries."""
    sizes = metadata.ensemble_size, metadata.write_quorum
    ensemble = metadata.segments[-1].ensemble
    return [
        (ensemble[index], entry_id)
        for entry_id in range(entries)
        for index in write_set(entry_id, *sizes)
    ]


def sizes_of(metadata: LedgerMetadata) -> str:
    return f"E={metadata.ensemble_size}, Qw={metadata.write_quorum}, Qa={metadata.ack_quorum}"


def listed(requests: tuple[Request, ...]) -> str:
    return ", ".join(f"{bookie} (entry {entry_id})" for bookie, entry_id in requests) or "none"


class ManualCluster(ScriptedCluster):
    """Bookies that keep each add waiting.

    sent: the requests to add an entry, in order
    """

    def __init__(self, metadata: LedgerMetadata, writable: tuple[str, ...] = ()) -> None:
        super().__init__(metadata)
        self.sent: list[Request] = []
        self._writable = writable
        self._waiting: dict[Request, list[asyncio.Future[None]]] = {}

    def is_waiting(self, request: Request) -> bool:
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
        self.raise_task_error()

    # The methods of `Cluster`

    async def add_entry(self, bookie: str, entry: Entry, *, recovery: bool = False) -> None:
        request = bookie, entry.entry_id
        responded = asyncio.get_running_loop().create_future()
        self.sent.append(request)
        self._waiting.setdefault(request, []).append(responded)
        await responded

    async def writable_bookies(self) -> list[str]:
        return list(self._writable)


def run_writer(
    learner: Learner, cluster: ManualCluster, script: Callable[[Any], Coroutine[Any, Any, Any]]
) -> Any:
    """Run a script with the learner's writer on this cluster, and return its result."""

    async def run() -> Any:
        with learner.recording_errors():
            return await script(learner.part("Writer")(cluster, cluster.metadata, cluster.version))

    return cluster.run(run())


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
