"""The client's entry point: create, open, list and delete ledgers.

In BookKeeper: `client/BookKeeper.java`, `client/LedgerCreateOp.java`, `client/LedgerOpenOp.java`.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar
from weakref import WeakValueDictionary

from labkit.system.client.context import ClientConfig, ClientContext
from labkit.system.client.deferred_sync import DeferredSyncWriter
from labkit.system.client.explicit_lac import ExplicitLacSender
from labkit.system.client.placement.bookie_watcher import BookieWatcher, Quarantine
from labkit.system.client.placement.placement import Placement
from labkit.system.client.protocol.bookie_client import BookieClient
from labkit.system.client.quorum_timeout import QuorumTimeoutMonitor
from labkit.system.client.reader import LedgerReader
from labkit.system.client.recovery import LedgerRecovery
from labkit.system.client.writer import LedgerWriter
from labkit.system.metadata.ledger_manager import LedgerManager
from labkit.system.metadata.registration import BOOKIE_RPC, find_endpoint, writable_bookies
from labkit.system.metadata.store import MetadataStore
from labkit.system.model.entry import DigestType
from labkit.system.model.errors import (
    BKClientClosedException,
    BKLedgerExistException,
    BKUnauthorizedAccessException,
)
from labkit.system.model.ledger import LedgerMetadata, Segment, check_quorums
from labkit.system.model.net import Network
from labkit.system.trace.recorder import Recorder


class BookKeeper:
    """A client of one cluster.

    Subclasses in `worlds/sim/variants` and in the course's exercises override the class attributes.
    """

    writer_class: ClassVar[type[LedgerWriter]] = LedgerWriter
    recovery_class: ClassVar[type[LedgerRecovery]] = LedgerRecovery
    reader_class: ClassVar[type[LedgerReader]] = LedgerReader
    manager_class: ClassVar[type[LedgerManager]] = LedgerManager

    def __init__(
        self,
        store: MetadataStore,
        network: Network,
        recorder: Recorder,
        placement: Placement,
        new_token: Callable[[], int],
        wall_clock_ms: Callable[[], int],
        config: ClientConfig | None = None,
    ) -> None:
        """`new_token` returns random numbers in [0, 2**63). Each ledger's metadata contains one, so
        if the response to a create request is lost, the client can still recognize the ledger that
        it created.
        """
        self.store = store
        self.recorder = recorder
        self.wall_clock_ms = wall_clock_ms
        config = config or ClientConfig()
        quarantine = Quarantine(
            config.bookie_error_threshold,
            config.bookie_error_interval_s,
            config.bookie_quarantine_time_s,
        )
        self.context = ClientContext(
            config,
            self.manager_class(store),
            BookieClient(
                network,
                lambda bookie: find_endpoint(store, bookie, BOOKIE_RPC),
                config.request_timeout_s,
            ),
            BookieWatcher(
                store,
                placement,
                quarantine,
                config.min_num_racks_per_write_quorum,
                config.enforce_min_num_racks_per_write_quorum,
            ),
            recorder,
        )
        self._new_token = new_token
        # A set would have no deterministic order.
        self._writers: WeakValueDictionary[int, LedgerWriter] = WeakValueDictionary()

    async def create_ledger(
        self,
        ensemble_size: int = 3,
        write_quorum: int = 2,
        ack_quorum: int = 2,
        *,
        digest_type: DigestType = DigestType.CRC32C,
        password: bytes = b"",
        custom_metadata: tuple[tuple[str, bytes], ...] = (),
        deferred_sync: bool = False,
    ) -> LedgerWriter:
        """Create a ledger and return its writer.

        With `deferred_sync`, bookies acknowledge entries before they sync them. Call
        `LedgerWriter.force` to make these entries durable and to confirm them.

        Raises `BKIncorrectParameterException` unless E >= Qw >= Qa >= 1, and
        `BKNotEnoughBookiesException` if fewer than E bookies are writable.
        """
        check_quorums(ensemble_size, write_quorum, ack_quorum)
        # Choose the ensemble first, so that no ledger id is wasted if there are too few bookies.
        ensemble = await self.context.watcher.new_ensemble(ensemble_size, write_quorum)
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
        while True:
            ledger_id = await self.context.manager.new_ledger_id()
            requested_at = asyncio.get_running_loop().time()
            try:
                version = await self.context.manager.create(ledger_id, metadata)
            except BKLedgerExistException:
                continue  # Another client has created a ledger with this id.
            self.recorder.record(
                "ledger.created",
                ledger_id,
                ensemble_size=ensemble_size,
                write_quorum=write_quorum,
                ack_quorum=ack_quorum,
                deferred_sync=deferred_sync,
            )
            self.recorder.record("ensemble.set", ledger_id, 0, ensemble=ensemble)
            # For deferred sync, a subclass cannot replace the writer.
            writer_class = DeferredSyncWriter if deferred_sync else self.writer_class
            writer = writer_class(ledger_id, metadata, version, self.context)
            self._writers[ledger_id] = writer
            # The ledger was OPEN at some moment after the request was sent.
            writer.fence_check.saw_open(requested_at)
            if self.context.config.explicit_lac_interval_ms:
                ExplicitLacSender(writer, self.context).start()
            if self.context.config.add_entry_quorum_timeout_s > 0:
                QuorumTimeoutMonitor(writer, self.context.config).start()
            return writer

    async def open_ledger(
        self, ledger_id: int, *, digest_type: DigestType = DigestType.CRC32C, password: bytes = b""
    ) -> LedgerReader:
        """Return a reader. If the ledger is not closed, recover it first, which fences its writer.

        Metadata of version 1 stores neither the digest type nor the password, so the reader uses
        `digest_type` only for such metadata. Raises
        `BKNoSuchLedgerExistsOnMetadataServerException`, `BKUnauthorizedAccessException` for a wrong
        password, and `BKLedgerRecoveryException` if too few bookies respond.
        """
        metadata, version = await self._read_metadata(ledger_id, digest_type, password)
        metadata = await self.recovery_class(ledger_id, metadata, version, self.context).run()
        return self.reader_class(ledger_id, metadata, self.context)

    async def open_ledger_no_recovery(
        self, ledger_id: int, *, digest_type: DigestType = DigestType.CRC32C, password: bytes = b""
    ) -> LedgerReader:
        """Return a reader. The writer can continue to write.

        Raises `BKReadException` if too few bookies respond, and the other errors of `open_ledger`.
        """
        metadata, _ = await self._read_metadata(ledger_id, digest_type, password)
        reader = self.reader_class(ledger_id, metadata, self.context)
        await reader.read_last_add_confirmed()
        return reader

    async def ledger_metadata(self, ledger_id: int) -> LedgerMetadata:
        """Raise `BKNoSuchLedgerExistsOnMetadataServerException` if the ledger does not exist."""
        return (await self.context.manager.read(ledger_id))[0]

    async def delete_ledger(self, ledger_id: int) -> None:
        """Delete the ledger's metadata. Bookies delete its entries later, in garbage collection."""
        # Record the event first: even if the response is lost, the ledger may have been deleted.
        self.recorder.record("ledger.deleting", ledger_id)
        await self.context.manager.delete(ledger_id)
        self.recorder.record("ledger.deleted", ledger_id)

    async def list_ledgers(self) -> list[int]:
        return await self.context.manager.ids()

    async def writable_bookies(self) -> list[str]:
        return await writable_bookies(self.store)

    def close(self) -> None:
        """Close all connections to bookies, and end all writers. Their ledgers remain open."""
        self.context.bookie_client.close()
        for ledger_id, writer in list(self._writers.items()):
            writer.end(BKClientClosedException(f"ledger {ledger_id}: this client was closed"))

    async def _read_metadata(
        self, ledger_id: int, digest_type: DigestType, password: bytes
    ) -> tuple[LedgerMetadata, int]:
        metadata, version = await self.context.manager.read(ledger_id)
        if not metadata.has_password:
            # The password and the digest type cannot be checked here. Bookies reject a wrong
            # password, and with the wrong digest type, no digest matches.
            return replace(metadata, digest_type=digest_type, password=password), version
        if metadata.password != password:
            raise BKUnauthorizedAccessException(f"wrong password for ledger {ledger_id}")
        return metadata, version
