"""A client of the cluster: creates, opens and deletes ledgers.

In BookKeeper: `client/BookKeeper.java`, `client/LedgerCreateOp.java`, `client/LedgerOpenOp.java`.
"""

from collections.abc import Callable

from labkit.client.bookie_client import BookieClients
from labkit.client.placement import Placement, choose_ensemble
from labkit.client.reader import LedgerReader
from labkit.client.writer import LedgerWriter
from labkit.metadata.ledger_manager import LedgerManager
from labkit.metadata.registration import (
    BOOKIE_RPC,
    Endpoint,
    find_endpoint,
    writable_bookies,
)
from labkit.metadata.store import MetadataStore
from labkit.model.entry import DigestType
from labkit.model.errors import BKUnauthorizedAccessException
from labkit.model.ledger import LedgerMetadata, Segment, check_quorums
from labkit.model.net import Network
from labkit.trace.recorder import Recorder

REQUEST_TIMEOUT_S = 5.0
"""`addEntryTimeoutSec` and `readEntryTimeoutSec`."""


class BookKeeper:
    """A client.  It may have any number of ledgers open."""

    def __init__(
        self,
        store: MetadataStore,
        network: Network,
        recorder: Recorder,
        placement: Placement,
        new_token: Callable[[], int],
        wall_clock_ms: Callable[[], int],
    ) -> None:
        """`new_token` gives random numbers in [0, 2**63): they tell this client's ledgers from
        those that another client creates at the same moment.
        """
        self.store = store
        self.recorder = recorder
        self.wall_clock_ms = wall_clock_ms
        self._placement = placement
        self._new_token = new_token
        self._manager = LedgerManager(store)
        self._bookies = BookieClients(network, self._find_bookie, REQUEST_TIMEOUT_S)

    async def create_ledger(
        self,
        ensemble_size: int = 3,
        write_quorum: int = 2,
        ack_quorum: int = 2,
        *,
        digest_type: DigestType = DigestType.CRC32C,
        password: bytes = b"",
        custom_metadata: tuple[tuple[str, bytes], ...] = (),
    ) -> LedgerWriter:
        """A new ledger, with this client as its writer.

        Raises `BKIncorrectParameterException` unless E >= Qw >= Qa >= 1, and
        `BKNotEnoughBookiesException`.
        """
        check_quorums(ensemble_size, write_quorum, ack_quorum)
        writable = await writable_bookies(self.store)
        ensemble = choose_ensemble(self._placement, writable, ensemble_size)
        metadata = LedgerMetadata(
            ensemble_size,
            write_quorum,
            ack_quorum,
            (Segment(0, ensemble),),
            digest_type,
            password,
            custom_metadata=custom_metadata,
            c_token=self._new_token(),
        )
        ledger_id = await self._manager.new_ledger_id()
        version = await self._manager.create(ledger_id, metadata)
        self._record_creation(ledger_id, metadata)
        return LedgerWriter(
            ledger_id, metadata, version, self._manager, self._bookies, self.recorder
        )

    async def open_ledger_no_recovery(
        self, ledger_id: int, *, password: bytes = b""
    ) -> LedgerReader:
        """Read a ledger without disturbing its writer.

        Raises `BKNoSuchLedgerExistsOnMetadataServerException`, `BKUnauthorizedAccessException` for
        a wrong password, and `BKReadException` when too few bookies tell its LastAddConfirmed.
        """
        metadata, _ = await self._manager.read(ledger_id)
        if metadata.password != password:
            raise BKUnauthorizedAccessException(f"ledger {ledger_id} has another password")
        reader = LedgerReader(ledger_id, metadata, self._bookies, self.recorder)
        await reader.read_last_add_confirmed()
        return reader

    async def ledger_metadata(self, ledger_id: int) -> LedgerMetadata:
        """What the metadata store has.  Raises `BKNoSuchLedgerExistsOnMetadataServerException`."""
        metadata, _ = await self._manager.read(ledger_id)
        return metadata

    async def delete_ledger(self, ledger_id: int) -> None:
        """Forget a ledger.  Raises `BKNoSuchLedgerExistsOnMetadataServerException`."""
        await self._manager.delete(ledger_id)

    async def list_ledgers(self) -> list[int]:
        """Ids of all ledgers, ascending."""
        return await self._manager.ids()

    async def writable_bookies(self) -> list[str]:
        """Ids of the bookies that take writes, sorted."""
        return await writable_bookies(self.store)

    def close(self) -> None:
        """Give up all connections to bookies.  Ledgers stay as they are."""
        self._bookies.close()

    async def _find_bookie(self, bookie: str) -> Endpoint:
        return await find_endpoint(self.store, bookie, BOOKIE_RPC)

    def _record_creation(self, ledger_id: int, metadata: LedgerMetadata) -> None:
        sizes = f"E={metadata.ensemble_size} Qw={metadata.write_quorum} Qa={metadata.ack_quorum}"
        self.recorder.record("ledger.created", ledger_id, note=sizes)
        for segment in metadata.segments:
            self.recorder.record(
                "ensemble.set", ledger_id, segment.first_entry_id, note=",".join(segment.ensemble)
            )
