"""A scripted BookKeeper client, whose ledgers are lists; the test can make any call fail."""

from dataclasses import dataclass, field
from typing import cast

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.writer import MAX_PAYLOAD_SIZE
from labkit.system.metadata.store import ANY_VERSION
from labkit.system.model.errors import (
    BKIncorrectParameterException,
    BKLedgerFencedException,
    BKNoSuchLedgerExistsOnMetadataServerException,
    LabkitError,
)
from labkit.system.model.ledger import LedgerMetadata, LedgerState, Segment
from labkit.system.trace.recorder import Recorder
from tests.system.client.memory_store import MemoryStore

NOW_MS = 1_700_000_000_000


@dataclass
class Failing:
    """Records calls, and raises the errors that the test has set for the next calls of each
    method.
    """

    errors: dict[str, list[LabkitError]] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)

    def fail(self, call: str, error: LabkitError, times: int = 1) -> None:
        self.errors.setdefault(call, []).extend([error] * times)

    def note(self, call: str, about: object = "") -> None:
        self.calls.append(f"{call} {about}".strip())
        if errors := self.errors.get(call):
            raise errors.pop(0)


class PlayedStore(MemoryStore):
    """A metadata store that records all changes."""

    def __init__(self, failing: Failing) -> None:
        super().__init__()
        self._failing = failing

    async def create(
        self, path: str, data: bytes, *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        self._failing.note("node create")
        return await super().create(path, data, ephemeral=ephemeral, sequential=sequential)

    async def create_child(self, path: str, data: bytes, parent_version: int) -> None:
        self._failing.note("node create")
        await super().create_child(path, data, parent_version)

    async def set(self, path: str, data: bytes, version: int) -> int:
        self._failing.note("node set")
        return await super().set(path, data, version)

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        self._failing.note("node delete")
        await super().delete(path, version)


class PlayedWriter:
    """The writer and reader of one ledger, which confirms each add immediately."""

    def __init__(self, client: "PlayedClient", ledger_id: int, metadata: LedgerMetadata) -> None:
        self.ledger_id = ledger_id
        self.metadata = metadata
        self.entries: list[bytes] = []
        self.is_fenced = False
        self._client = client

    @property
    def last_add_pushed(self) -> int:
        return len(self.entries) - 1

    @property
    def last_add_confirmed(self) -> int:
        return len(self.entries) - 1

    async def add(self, data: bytes) -> int:
        self._client.failing.note("add", self.ledger_id)
        if len(data) > MAX_PAYLOAD_SIZE:
            raise BKIncorrectParameterException("too large for a frame")
        if self.is_fenced:
            raise BKLedgerFencedException("another client has recovered the ledger")
        self.entries.append(data)
        return len(self.entries) - 1

    async def close(self) -> None:
        self._client.failing.note("close", self.ledger_id)
        self.end()

    def end(self) -> None:
        self.metadata = self.metadata.closed(len(self.entries) - 1, sum(map(len, self.entries)))

    async def read_entry(self, entry_id: int) -> "PlayedEntry":
        return PlayedEntry(self.entries[entry_id])


@dataclass
class PlayedEntry:
    """The result of a read."""

    payload: bytes


class PlayedClient:
    """A client whose ledgers get the ids 1, 2, 3 ...; `real` is the client itself, typed as
    `BookKeeper`.
    """

    def __init__(self) -> None:
        self.failing = Failing()
        self.store = PlayedStore(self.failing)
        self.recorder = Recorder("client", lambda: 0)
        self.ledgers: dict[int, PlayedWriter] = {}
        self.now_ms = NOW_MS
        self._count = 0

    @property
    def real(self) -> BookKeeper:
        return cast(BookKeeper, self)

    @property
    def calls(self) -> list[str]:
        """Return the calls that were made since this property was last read."""
        calls = list(self.failing.calls)
        self.failing.calls.clear()
        return calls

    def wall_clock_ms(self) -> int:
        return self.now_ms

    async def create_ledger(
        self,
        ensemble_size: int,
        write_quorum: int,
        ack_quorum: int,
        *,
        custom_metadata: tuple[tuple[str, bytes], ...] = (),
    ) -> PlayedWriter:
        self._count += 1
        self.failing.note("create", self._count)
        segment = Segment(0, tuple(f"b{number}" for number in range(ensemble_size)))
        metadata = LedgerMetadata(
            ensemble_size, write_quorum, ack_quorum, (segment,), custom_metadata=custom_metadata
        )
        self.ledgers[self._count] = PlayedWriter(self, self._count, metadata)
        return self.ledgers[self._count]

    async def open_ledger(self, ledger_id: int) -> PlayedWriter:
        """Open a ledger with recovery, which fences its writer and closes it."""
        self.failing.note("open", ledger_id)
        if ledger_id not in self.ledgers:
            raise BKNoSuchLedgerExistsOnMetadataServerException("the ledger does not exist")
        ledger = self.ledgers[ledger_id]
        ledger.is_fenced = True
        if ledger.metadata.state is not LedgerState.CLOSED:
            ledger.end()
        return ledger

    async def delete_ledger(self, ledger_id: int) -> None:
        self.failing.note("delete", ledger_id)
        if ledger_id not in self.ledgers:
            raise BKNoSuchLedgerExistsOnMetadataServerException("the ledger does not exist")
        del self.ledgers[ledger_id]
