"""A partition's chain of ledgers: one open at the end, the others closed for good.

In Pulsar: `managed-ledger/.../ManagedLedgerImpl.java`.
"""

import asyncio
from dataclasses import dataclass, replace

from labkit.client.bookkeeper import BookKeeper
from labkit.client.writer import LedgerWriter
from labkit.metadata.store import BadVersionError, NodeExistsError, NoNodeError
from labkit.model.errors import (
    BKIncorrectParameterException,
    BKLedgerClosedException,
    LabkitError,
)
from labkit.model.ledger import LedgerState, check_quorums
from labkit.model.proto.pulsar_pb2 import ManagedLedgerInfo


class LedgerLeftOpenError(LabkitError):
    """The last ledger of the chain was never closed: its owner died, or still writes."""


class ManagedLedgerFencedError(LabkitError):
    """Another owner has changed the chain since: this one must stop."""


@dataclass(frozen=True, slots=True)
class ManagedLedgerConfig:
    """How a partition's ledgers are made and when the next one begins.

    A ledger is full once it has `max_entries_per_ledger` entries or is `max_ledger_age_ms` old,
    provided that it is at least `min_ledger_age_ms` old (Pulsar's defaults: 50,000 entries, 240
    minutes, 10 minutes; here no minimum, so that a lesson sees rollovers).
    """

    ensemble_size: int = 3
    write_quorum: int = 3
    ack_quorum: int = 2
    max_entries_per_ledger: int = 50_000
    max_ledger_age_ms: int = 240 * 60 * 1000
    min_ledger_age_ms: int = 0

    def __post_init__(self) -> None:
        check_quorums(self.ensemble_size, self.write_quorum, self.ack_quorum)
        for name, lowest in (
            ("max_entries_per_ledger", 1),
            ("max_ledger_age_ms", 1),
            ("min_ledger_age_ms", 0),
        ):
            if getattr(self, name) < lowest:
                raise BKIncorrectParameterException(
                    f"{name} is {getattr(self, name)}; it must be at least {lowest}"
                )


@dataclass(frozen=True, slots=True)
class LedgerInfo:
    """A link of the chain; counts, bytes and time are 0 while its ledger is open."""

    ledger_id: int
    entry_count: int = 0
    size_bytes: int = 0
    closed_at_ms: int = 0


def rollover_reason(entry_count: int, age_ms: int, config: ManagedLedgerConfig) -> str:
    """Why the ledger is full; empty if it is not."""
    if age_ms < config.min_ledger_age_ms:
        return ""
    if entry_count >= config.max_entries_per_ledger:
        return f"{entry_count} entries"
    return f"{age_ms} ms old" if age_ms >= config.max_ledger_age_ms and entry_count else ""


def encode_chain(chain: list[LedgerInfo]) -> bytes:
    """The chain as the metadata store keeps it."""
    info = ManagedLedgerInfo()
    for link in chain:
        closed = link.closed_at_ms > 0
        info.ledgerInfo.add(
            ledgerId=link.ledger_id,
            entries=link.entry_count if closed else None,
            size=link.size_bytes if closed else None,
            timestamp=link.closed_at_ms,
        )
    return info.SerializeToString(deterministic=True)


def decode_chain(data: bytes) -> list[LedgerInfo]:
    """The inverse of `encode_chain`."""
    info = ManagedLedgerInfo.FromString(data)
    return [LedgerInfo(i.ledgerId, i.entries, i.size, i.timestamp) for i in info.ledgerInfo]


async def read_chain(client: BookKeeper, path: str) -> tuple[list[LedgerInfo], int]:
    """The chain and the version of its node; empty and -1 if there is none yet."""
    try:
        data, version = await client.store.get(path)
    except NoNodeError:
        return [], -1
    return decode_chain(data), version


class ManagedLedger:
    """Appends entries to a partition's chain, as its only owner.

    Invariants: only the last ledger is open; a ledger joins the chain in the metadata store before
    it gets its first entry; ids never go back.
    """

    def __init__(
        self,
        name: str,
        path: str,
        client: BookKeeper,
        config: ManagedLedgerConfig,
    ) -> None:
        self.name = name
        self._path = path
        self._client = client
        self._config = config
        self._wall_clock_ms = client.wall_clock_ms
        self._chain: list[LedgerInfo] = []
        self._version = -1
        self._writer: LedgerWriter | None = None
        self._opened_at_ms = 0
        self._closed = False
        self._turn = asyncio.Lock()

    @property
    def writer(self) -> LedgerWriter | None:
        """The open ledger, if any entry was appended yet."""
        return self._writer

    async def open(self) -> None:
        """Take over the chain.  Raises `LedgerLeftOpenError`."""
        self._chain, self._version = await read_chain(self._client, self._path)
        if not self._chain:
            return
        last = self._chain[-1]
        metadata = await self._client.ledger_metadata(last.ledger_id)
        if metadata.state is not LedgerState.CLOSED:
            raise LedgerLeftOpenError(
                f"{self.name}: its last ledger {last.ledger_id} is {metadata.state.name}; close the"
                " topic that writes it, or use another topic if its process died"
            )
        if not last.closed_at_ms:
            self._chain[-1] = replace(
                last,
                entry_count=metadata.last_entry_id + 1,
                size_bytes=metadata.length,
                closed_at_ms=self._wall_clock_ms(),
            )

    async def append(self, data: bytes) -> tuple[int, asyncio.Future[int]]:
        """Push an entry: the ledger that takes it, and the future of its entry id.

        Entries are pushed in the order of the calls.  Raises `BKLedgerClosedException` after
        `close`, `ManagedLedgerFencedError`, and what `BookKeeper.create_ledger` and
        `LedgerWriter.add` raise.
        """
        async with self._turn:
            if self._closed:
                raise BKLedgerClosedException(f"{self.name} was closed: open the topic again")
            writer = await self._current_writer()
            return writer.ledger_id, writer.add(data)

    async def close(self) -> None:
        """Close the open ledger; what is pushed must be confirmed by now."""
        async with self._turn:
            self._closed = True
            if self._writer is not None:
                await self._close_writer(self._writer)
                await self._store_chain(self._chain)

    async def _current_writer(self) -> LedgerWriter:
        if self._writer is not None:
            age_ms = self._wall_clock_ms() - self._opened_at_ms
            reason = rollover_reason(self._writer.last_add_pushed + 1, age_ms, self._config)
            if not reason:
                return self._writer
            await self._writer.confirmed()
            await self._close_writer(self._writer)
        else:
            reason = "opened"
        self._writer = await self._next_writer(reason)
        return self._writer

    async def _next_writer(self, reason: str) -> LedgerWriter:
        config = self._config
        writer = await self._client.create_ledger(
            config.ensemble_size,
            config.write_quorum,
            config.ack_quorum,
            custom_metadata=(
                ("application", b"pulsar"),
                ("component", b"managed-ledger"),
                ("pulsar/managed-ledger", self.name.encode()),
            ),
        )
        self._opened_at_ms = self._wall_clock_ms()
        await self._store_chain([*self._chain, LedgerInfo(writer.ledger_id)])
        self._client.recorder.record(
            "ledger.rolled", writer.ledger_id, note=f"{self.name}: {reason}"
        )
        return writer

    async def _close_writer(self, writer: LedgerWriter) -> None:
        await writer.close()
        self._chain[-1] = LedgerInfo(
            writer.ledger_id,
            writer.last_add_confirmed + 1,
            writer.length_confirmed,
            self._wall_clock_ms(),
        )
        self._writer = None

    async def _store_chain(self, chain: list[LedgerInfo]) -> None:
        store, data = self._client.store, encode_chain(chain)
        try:
            if self._version < 0:
                await store.create(self._path, data)
                self._version = 0
            else:
                self._version = await store.set(self._path, data, self._version)
        except (NodeExistsError, BadVersionError):
            raise ManagedLedgerFencedError(
                f"{self.name}: another owner has changed its ledgers; open the topic again"
            ) from None
        self._chain = chain
