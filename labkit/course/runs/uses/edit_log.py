"""A write-ahead log of file system edits, like the edit log of HDFS's name node.

The directory names are kept in memory. An edit is acknowledged once it is in the log, so a name
node that replays the log has every acknowledged edit. Two name nodes share the log, but only the
active one writes to it. The standby becomes active by taking over the log, which fences the
previously active node.
"""

from collections.abc import Sequence

from labkit.course.runs.uses.ledger_list import LedgerList
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.writer import LedgerWriter
from labkit.system.model.errors import BKException, LabkitError

READ = "read the list of ledgers"
RECOVER = "open the last ledger with recovery"
REPLAY = "replay all ledgers of the list"
CREATE = "create a ledger"
PUBLISH = "put the new ledger into the list"
TAKE_OVER = (READ, RECOVER, REPLAY, CREATE, PUBLISH)


class StandbyError(LabkitError):
    """Raised if this name node is not active; use the other one."""


class StepError(LabkitError):
    """Raised if a step of the takeover needs the result of an earlier step that was not
    performed.
    """


class NameNode:
    """A name node, which is on standby until it takes over the log."""

    def __init__(self, client: BookKeeper) -> None:
        self.directories: set[str] = set()
        self.is_active = False
        self.ledger_id = -1
        self._client = client
        self._list = LedgerList(client.store, "/namenode/edits")
        self._ids: tuple[int, ...] | None = None
        self._writer: LedgerWriter | None = None

    async def take_over(self, steps: Sequence[str] = TAKE_OVER) -> None:
        """Become active. Raises `StepError`, `ListChangedError` and `BKException`."""
        actions = {
            READ: self._read,
            RECOVER: self._recover,
            REPLAY: self._replay,
            CREATE: self._create,
            PUBLISH: self._publish,
        }
        for step in steps:
            await actions[step]()
        self.is_active = True

    async def mkdir(self, directory: str) -> int:
        """Create a directory, first in the log and then in memory, and return the entry id.

        Raises `StandbyError` and stays on standby if the add fails, because the other name node may
        be active.
        """
        if not self.is_active or self._writer is None:
            raise StandbyError("this name node is on standby: use the other one")
        try:
            entry_id = await self._writer.add(directory.encode())
        except BKException as error:
            self.is_active = False
            raise StandbyError(f"on standby since {type(error).__name__}") from error
        self.directories.add(directory)
        return entry_id

    # The steps of a takeover

    async def _read(self) -> None:
        self._ids = await self._list.read()

    async def _recover(self) -> None:
        if ids := self._known():
            await self._client.open_ledger(ids[-1])

    async def _replay(self) -> None:
        for ledger_id in self._known():
            # All ledgers but the last are closed; the last one is closed if it has been recovered.
            reader = await self._client.open_ledger_no_recovery(ledger_id)
            async for entry in reader.read():
                self.directories.add(entry.payload.decode())

    async def _create(self) -> None:
        self._writer = await self._client.create_ledger(3, 3, 2)
        self.ledger_id = self._writer.ledger_id

    async def _publish(self) -> None:
        if self._writer is None:
            raise StepError("no new ledger has been created yet")
        await self._list.replace((*self._known(), self.ledger_id))

    def _known(self) -> tuple[int, ...]:
        if self._ids is None:
            raise StepError("the list of ledgers has not been read yet")
        return self._ids
