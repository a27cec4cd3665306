"""A partition's chain of ledgers: one open at the end, the others closed for good.

In Pulsar: `managed-ledger/.../ManagedLedgerImpl.java`.
"""

import asyncio
from collections import deque
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from labkit.client.bookkeeper import BookKeeper
from labkit.client.writer import LedgerWriter
from labkit.metadata.store import BadVersionError, NodeExistsError, NoNodeError
from labkit.model.errors import (
    BKIncorrectParameterException,
    BKLedgerClosedException,
    BKMetadataVersionException,
    LabkitError,
)
from labkit.model.ledger import LedgerMetadata, check_quorums
from labkit.model.proto.pulsar_pb2 import ManagedLedgerInfo

Position = tuple[int, int]
"""Where an entry is stored: ledger id and entry id."""


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


@dataclass(slots=True)
class _PendingEntry:
    """An entry that is pushed and not confirmed; `entry_id` is that in the newest ledger."""

    data: bytes
    stored: asyncio.Future[Position]
    entry_id: int = -1


class ManagedLedger:
    """Appends entries to a partition's chain, as its only owner.

    Invariants: only the last ledger is open; a ledger joins the chain in the metadata store before
    it gets its first entry; ids never go back; entries are stored in the order of `append`, each
    once, even when a ledger fails under them.
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
        self._pending: deque[_PendingEntry] = deque()
        self._going_on: asyncio.Task[None] | None = None

    @property
    def writer(self) -> LedgerWriter | None:
        """The open ledger, if any entry was appended yet."""
        return self._writer

    async def open(self) -> None:
        """Take over the chain from whoever owned it: its last ledger is recovered, which stops the
        owner's writer, and the chain is stored again, so that he cannot go on in a new one.

        Raises `ManagedLedgerFencedError` when another takes it over at this moment, and what
        `BookKeeper.open_ledger` raises.
        """
        self._chain, self._version = await read_chain(self._client, self._path)
        if not self._chain:
            return
        last = self._chain[-1]
        metadata = (await self._client.open_ledger(last.ledger_id)).metadata
        if not last.closed_at_ms:
            self._chain[-1] = self._closed_link(last.ledger_id, metadata)
        await self._store_chain(self._chain)

    async def append(self, data: bytes) -> asyncio.Future[Position]:
        """Push an entry; the future gives the ledger and entry id under which it is stored.

        Entries are pushed in the order of the calls; the call waits while too many are unconfirmed.
        Where a ledger can take no more, its entries that are not confirmed go into the next one, in
        their order.  The future fails when there can be no next one.  Raises
        `BKLedgerClosedException` after `close`, `ManagedLedgerFencedError`, and what
        `BookKeeper.create_ledger` and `LedgerWriter.add` raise.
        """
        async with self._turn:
            if self._closed:
                raise BKLedgerClosedException(f"{self.name} was closed: open the topic again")
            writer = await self._current_writer()
            with suppress(LabkitError):  # Whether the writer has ended `_push` finds out.
                await writer.drain()
            pending = _PendingEntry(data, asyncio.get_running_loop().create_future())
            self._push(writer, pending)
            return pending.stored

    async def close(self) -> None:
        """Close the open ledger; what is pushed must be confirmed by now."""
        async with self._turn:
            self._closed = True
            if self._writer is not None:
                await self._seal(self._writer)
                self._fail(BKLedgerClosedException(f"{self.name} was closed"))
                with suppress(ManagedLedgerFencedError):  # The new owner has stored it.
                    await self._store_chain(self._chain)

    # Entries

    def _push(self, writer: LedgerWriter, pending: _PendingEntry) -> None:
        pending.entry_id = -1
        try:
            added = writer.add(pending.data)
        except BKIncorrectParameterException:
            raise
        except LabkitError:
            # The writer has ended: the entry waits for the next ledger, behind those before it.
            self._pending.append(pending)
            self._go_on_elsewhere(writer)
        else:
            pending.entry_id = writer.last_add_pushed
            self._pending.append(pending)
            added.add_done_callback(partial(self._added, writer))

    def _added(self, writer: LedgerWriter, added: asyncio.Future[int]) -> None:
        """The oldest entry is stored; or the writer has ended, and all those left are not."""
        if added.cancelled() or writer is not self._writer:
            return
        if added.exception() is not None:
            self._go_on_elsewhere(writer)
        else:
            self._tell(self._pending.popleft(), (writer.ledger_id, added.result()))

    def _tell(self, pending: _PendingEntry, position: Position) -> None:
        if not pending.stored.done():
            pending.stored.set_result(position)

    def _fail(self, error: LabkitError) -> None:
        abandoned, self._pending = self._pending, deque()
        for pending in abandoned:
            if not pending.stored.done():
                pending.stored.set_exception(error)

    # Ledgers

    async def _current_writer(self) -> LedgerWriter:
        if self._writer is None:
            return await self._next_writer("opened")
        age_ms = self._wall_clock_ms() - self._opened_at_ms
        reason = rollover_reason(self._writer.last_add_pushed + 1, age_ms, self._config)
        if reason:
            await self._roll_over(reason)
        return self._writer

    def _go_on_elsewhere(self, writer: LedgerWriter) -> None:
        if self._going_on is None and writer is self._writer and not self._closed:
            self._going_on = asyncio.get_running_loop().create_task(self._replace(writer))

    async def _replace(self, failed: LedgerWriter) -> None:
        async with self._turn:
            self._going_on = None
            if failed is self._writer and not self._closed:
                try:
                    await self._roll_over(f"ledger {failed.ledger_id} failed")
                except LabkitError as error:
                    self._fail(error)

    async def _roll_over(self, reason: str) -> None:
        """Close the open ledger, and push into the next one what is not stored in it."""
        writer = self._writer
        assert writer is not None
        with suppress(LabkitError):  # What it does not store the next one does.
            await writer.confirmed()
        await self._seal(writer)
        try:
            next_writer = await self._next_writer(reason)
        except LabkitError as error:
            self._fail(error)
            raise
        again, self._pending = self._pending, deque()
        for pending in again:
            self._push(next_writer, pending)

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
        try:
            await self._store_chain([*self._chain, LedgerInfo(writer.ledger_id)])
        except ManagedLedgerFencedError:
            await self._client.delete_ledger(writer.ledger_id)
            raise
        self._client.recorder.record(
            "ledger.rolled", writer.ledger_id, note=f"{self.name}: {reason}"
        )
        self._writer = writer
        return writer

    async def _seal(self, writer: LedgerWriter) -> None:
        """Close a ledger, or learn where somebody else has: what lies before its end is stored."""
        with suppress(BKMetadataVersionException):
            await writer.close()
        ledger_id, metadata = writer.ledger_id, writer.metadata
        self._chain[-1] = self._closed_link(ledger_id, metadata)
        self._writer = None
        while self._pending and 0 <= self._pending[0].entry_id <= metadata.last_entry_id:
            pending = self._pending.popleft()
            self._tell(pending, (ledger_id, pending.entry_id))

    def _closed_link(self, ledger_id: int, metadata: LedgerMetadata) -> LedgerInfo:
        entry_count = metadata.last_entry_id + 1
        return LedgerInfo(ledger_id, entry_count, metadata.length, self._wall_clock_ms())

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
