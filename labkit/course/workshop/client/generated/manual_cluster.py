"""A cluster on which a test decides when each add is acknowledged or fails, and when each access to
the metadata takes place.
"""

import asyncio
from collections.abc import Callable

from labkit.course.workshop.client.generated.scripted_cluster import ScriptedCluster
from labkit.system.model.entry import Entry
from labkit.system.model.errors import (
    BKException,
    BKLedgerFencedException,
    BKMetadataVersionException,
    BKTimeoutException,
)
from labkit.system.model.ledger import LedgerMetadata

Request = tuple[str, int]
"""A request to add an entry: the bookie, and the entry id."""


class ManualCluster(ScriptedCluster):
    """A cluster that holds back every add and every metadata access until the test releases it.

    acknowledged: the requests that were acknowledged
    storing: the metadata that is being written now
    conflicts: how many writes failed because another client had changed the metadata
    known_versions: the versions that the learner's code has read or written
    before_write: called with the metadata and the version that the learner's code wants to write
    """

    def __init__(self, metadata: LedgerMetadata, writable: tuple[str, ...]) -> None:
        super().__init__(metadata)
        self.writable = writable
        self.acknowledged: set[Request] = set()
        self.storing: LedgerMetadata | None = None
        self.conflicts = 0
        self.known_versions = {self.version}
        self.before_write: Callable[[LedgerMetadata, int], None] = lambda _metadata, _version: None
        self._sent: list[tuple[str, Entry]] = []
        self._waiting: dict[Request, list[asyncio.Future[None]]] = {}
        self._errors: dict[str, type[BKException]] = {}
        self._accesses: list[tuple[str, asyncio.Future[None]]] = []
        """The calls that wait for the test to let them access the metadata."""
        self._stored_count = 0

    # For the test

    @property
    def waiting(self) -> list[Request]:
        """The requests that have not been answered yet, in the order of their entries."""
        return sorted(self._waiting, key=lambda request: (request[1], request[0]))

    def is_waiting(self, request: Request) -> bool:
        return request in self._waiting

    @property
    def is_accessed(self) -> bool:
        """Whether a metadata access is waiting."""
        return bool(self._accesses)

    def take_sent(self) -> list[tuple[str, Entry]]:
        """Return the adds that were sent since the last call, each with its bookie."""
        sent, self._sent = self._sent, []
        return sent

    def take_stored(self) -> list[LedgerMetadata]:
        """Return all metadata that the learner's code has stored since the last call."""
        stored = self.changes[self._stored_count :]
        self._stored_count = len(self.changes)
        return stored

    def acknowledge(self, request: Request) -> None:
        self.acknowledged.add(request)
        for responded in self._take(request):
            responded.set_result(None)

    def fail(self, request: Request, error: type[BKException] = BKTimeoutException) -> None:
        for responded in self._take(request):
            responded.set_exception(error(request[0]))

    def fail_all(self, bookie: str, error: type[BKException] = BKTimeoutException) -> None:
        """Make this bookie respond to all adds with an error, including adds sent later."""
        self._errors[bookie] = error
        for request in self.waiting:
            if request[0] == bookie:
                self.fail(request, error)

    def fence(self, bookie: str) -> None:
        self.fail_all(bookie, BKLedgerFencedException)

    def continue_access(self) -> str:
        """Let the access that has waited longest proceed; return the call as text."""
        call, allowed = self._accesses.pop(0)
        allowed.set_result(None)
        return call

    async def continue_all_accesses(self) -> None:
        """Let the learner's code run until it waits for something other than the metadata."""
        await self.settle()
        while self.is_accessed:
            self.continue_access()
            await self.settle()

    def _take(self, request: Request) -> "list[asyncio.Future[None]]":
        # The learner's code may have cancelled the request.
        return [each for each in self._waiting.pop(request) if not each.done()]

    # The methods of `Cluster`

    async def add_entry(self, bookie: str, entry: Entry, *, recovery: bool = False) -> None:
        self._sent.append((bookie, entry))
        await asyncio.sleep(0)
        if bookie in self._errors:
            raise self._errors[bookie](bookie)
        responded = asyncio.get_running_loop().create_future()
        self._waiting.setdefault((bookie, entry.entry_id), []).append(responded)
        await responded

    async def writable_bookies(self) -> list[str]:
        await self._access("writable_bookies()")
        return list(self.writable)

    async def read_metadata(self) -> tuple[LedgerMetadata, int]:
        await self._access("read_metadata()")
        self.known_versions.add(self.version)
        return await super().read_metadata()

    async def write_metadata(self, metadata: LedgerMetadata, version: int) -> int:
        await asyncio.sleep(0.001)  # First let those adds return that are already confirmed.
        self.before_write(metadata, version)
        self.storing = metadata
        try:
            await self._access("write_metadata()")
            new_version = await super().write_metadata(metadata, version)
        except BKMetadataVersionException:
            self.conflicts += 1
            raise
        finally:
            self.storing = None
        self.known_versions.add(new_version)
        return new_version

    async def _access(self, call: str) -> None:
        allowed = asyncio.get_running_loop().create_future()
        self._accesses.append((call, allowed))
        await allowed
