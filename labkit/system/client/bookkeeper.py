"""A client of the cluster: creates, opens and deletes ledgers.

In BookKeeper: `client/BookKeeper.java`, `client/LedgerCreateOp.java`, `client/LedgerOpenOp.java`.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

from labkit.system.client.context import ClientConfig, ClientContext
from labkit.system.client.deferred_sync import DeferredSyncWriter
from labkit.system.client.explicit_lac import ExplicitLac
from labkit.system.client.placement.bookie_watcher import BookieWatcher, Quarantine
from labkit.system.client.placement.placement import Placement
from labkit.system.client.protocol.bookie_client import BookieClient
from labkit.system.client.quorum_timeout import AddEntryQuorumTimeout
from labkit.system.client.reader import LedgerReader
from labkit.system.client.recovery import LedgerRecovery
from labkit.system.client.writer import LedgerWriter
from labkit.system.metadata.ledger_manager import LedgerManager
from labkit.system.metadata.registration import (
    BOOKIE_RPC,
    Endpoint,
    find_endpoint,
    writable_bookies,
)
from labkit.system.metadata.store import MetadataStore
from labkit.system.model.entry import DigestType
from labkit.system.model.errors import BKLedgerExistException, BKUnauthorizedAccessException
from labkit.system.model.ledger import LedgerMetadata, Segment, check_quorums
from labkit.system.model.net import Network
from labkit.system.trace.recorder import Recorder


class BookKeeper:
    """A client.  It may have any number of ledgers open.

    A subclass may write, recover and read by other rules: that is how planted mistakes get in.
    """

    writer_class: ClassVar[type[LedgerWriter]] = LedgerWriter
    recovery_class: ClassVar[type[LedgerRecovery]] = LedgerRecovery
    reader_class: ClassVar[type[LedgerReader]] = LedgerReader
    watcher_class: ClassVar[type[BookieWatcher]] = BookieWatcher
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
        """`new_token` gives random numbers in [0, 2**63): they distinguish this client's ledgers
        from those that another client creates at the same moment.
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
            BookieClient(network, self._find_bookie, config.request_timeout_s),
            self.watcher_class(
                store,
                placement,
                quarantine,
                config.min_num_racks_per_write_quorum,
                config.enforce_min_num_racks_per_write_quorum,
            ),
            recorder,
        )
        self._new_token = new_token

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
        """A new ledger, with this client as its writer.

        With `deferred_sync` bookies acknowledge before they sync; `LedgerWriter.force` makes the
        entries durable, and confirmed.

        Raises `BKIncorrectParameterException` unless E >= Qw >= Qa >= 1, and
        `BKNotEnoughBookiesException`.
        """
        check_quorums(ensemble_size, write_quorum, ack_quorum)
        # Before the id is drawn: without enough bookies none is used up.
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
            asked_at = asyncio.get_running_loop().time()
            try:
                version = await self.context.manager.create(ledger_id, metadata)
            except BKLedgerExistException:
                continue  # A client chose that id for its ledger.
            self._record_creation(ledger_id, metadata, deferred_sync)
            kind = DeferredSyncWriter if deferred_sync else self.writer_class
            writer = kind(ledger_id, metadata, version, self.context)
            writer.fence_check.found_open(asked_at)
            if self.context.config.explicit_lac_interval_ms:
                ExplicitLac(writer, self.context).start()
            if self.context.config.add_entry_quorum_timeout_s > 0:
                AddEntryQuorumTimeout(writer, self.context.config).start()
            return writer

    async def open_ledger(
        self,
        ledger_id: int,
        *,
        digest_type: DigestType = DigestType.CRC32C,
        password: bytes = b"",
    ) -> LedgerReader:
        """Read a ledger to its end; unless it is closed, recover it, which stops its writer.

        The digest type counts only for metadata of version 1, which have neither it nor a password.
        Raises `BKNoSuchLedgerExistsOnMetadataServerException`, `BKUnauthorizedAccessException` for
        a wrong password, and `BKLedgerRecoveryException` when too few bookies answer to tell where
        the ledger ends.
        """
        metadata, version = await self._read_metadata(ledger_id, digest_type, password)
        metadata = await self.recovery_class(ledger_id, metadata, version, self.context).run()
        return self.reader_class(ledger_id, metadata, self.context)

    async def open_ledger_no_recovery(
        self,
        ledger_id: int,
        *,
        digest_type: DigestType = DigestType.CRC32C,
        password: bytes = b"",
    ) -> LedgerReader:
        """Read a ledger without disturbing its writer; `digest_type` as for `open_ledger`.

        Raises `BKNoSuchLedgerExistsOnMetadataServerException`, `BKUnauthorizedAccessException` for
        a wrong password, and `BKReadException` when too few bookies tell its LastAddConfirmed.
        """
        metadata, _ = await self._read_metadata(ledger_id, digest_type, password)
        reader = self.reader_class(ledger_id, metadata, self.context)
        await reader.read_last_add_confirmed()
        return reader

    async def ledger_metadata(self, ledger_id: int) -> LedgerMetadata:
        """The ledger's metadata in the store.  Raises
        `BKNoSuchLedgerExistsOnMetadataServerException`.
        """
        metadata, _ = await self.context.manager.read(ledger_id)
        return metadata

    async def delete_ledger(self, ledger_id: int) -> None:
        """Forget a ledger.  Raises `BKNoSuchLedgerExistsOnMetadataServerException`."""
        # Before: the answer may be lost, and the ledger is gone all the same.
        self.recorder.record("ledger.deleting", ledger_id)
        await self.context.manager.delete(ledger_id)
        self.recorder.record("ledger.deleted", ledger_id)

    async def list_ledgers(self) -> list[int]:
        """Ids of all ledgers, ascending."""
        return await self.context.manager.ids()

    async def writable_bookies(self) -> list[str]:
        """Ids of the bookies that take writes, sorted."""
        return await writable_bookies(self.store)

    def close(self) -> None:
        """Give up all connections to bookies.  Ledgers stay as they are."""
        self.context.bookies.close()

    async def _read_metadata(
        self, ledger_id: int, digest_type: DigestType, password: bytes
    ) -> tuple[LedgerMetadata, int]:
        metadata, version = await self.context.manager.read(ledger_id)
        if not metadata.has_password:
            # The bookies check the key, and digests show a wrong type.
            return replace(metadata, digest_type=digest_type, password=password), version
        if metadata.password != password:
            raise BKUnauthorizedAccessException(f"ledger {ledger_id} has another password")
        return metadata, version

    async def _find_bookie(self, bookie: str) -> Endpoint:
        return await find_endpoint(self.store, bookie, BOOKIE_RPC)

    def _record_creation(
        self, ledger_id: int, metadata: LedgerMetadata, deferred_sync: bool
    ) -> None:
        note = f"E={metadata.ensemble_size} Qw={metadata.write_quorum} Qa={metadata.ack_quorum}"
        note += ", deferred sync" if deferred_sync else ""
        self.recorder.record("ledger.created", ledger_id, note=note)
        for segment in metadata.segments:
            self.recorder.record(
                "ensemble.set", ledger_id, segment.first_entry_id, note=",".join(segment.ensemble)
            )
