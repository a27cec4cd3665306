"""The steps of a workload: immutable objects that describe what clients do.

A step starts at the moment `when`, runs on its client's node, and ends if the node dies. Steps
refer to a ledger by its number in the workload, because the cluster assigns the ledger's id.
"""

import asyncio
import json
from collections import deque
from dataclasses import dataclass
from typing import Protocol

from labkit.system.autorecovery.underreplication import LedgerUnderreplicationManager
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientConfig
from labkit.system.client.deferred_sync import DeferredSyncWriter
from labkit.system.client.reader import LedgerReader
from labkit.system.client.writer import LedgerWriter
from labkit.system.metadata.racks import RACKS
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.settings.scenario_values import Value
from labkit.worlds.sim.settings.triggers import START, Moment


class Step(Protocol):
    """Something that a client does. You can use labkit's steps or define your own."""

    @property
    def client(self) -> str: ...

    @property
    def when(self) -> Moment: ...

    async def run(self, node: ClientNode) -> None: ...


@dataclass(frozen=True, slots=True, repr=False)
class Write(Value):
    """Create a ledger, add entries, and close it.

    At most `window` adds are pending at a time. `every_ms` is the pause between adds in
    milliseconds, and `pause_ms` is an additional pause before the last add. Without `close`, the
    ledger remains open, as if its writer had died.

    If `force_every` is not 0, the ledger uses deferred sync, and the writer forces the entries to
    disk after every `force_every` adds. Otherwise each entry is durable when it is acknowledged.
    `explicit_lac_ms` is the interval at which the writer sends its LastAddConfirmed separately if
    no entry contains it (0: never). The copies of an entry span `racks` racks if that many racks
    are available. With `enforce_racks`, the write fails if there are too few racks.

    With `delay_ensemble_change`, the writer replaces a failed bookie only if too few other bookies
    are left for an ack quorum. The writer fails if an add has not been acknowledged within
    `quorum_timeout_ms` (0: no timeout), or if more than `max_allowed_ensemble_changes` ensemble
    changes are needed.
    """

    ledger: int = 0
    entries: int = 10
    ensemble: int = 3
    write_quorum: int = 3
    ack_quorum: int = 2
    window: int = 5
    payload_size: int = 32
    every_ms: float = 0.0
    pause_ms: float = 0.0
    close: bool = True
    client: str = "w"
    when: Moment = START
    force_every: int = 0
    explicit_lac_ms: int = 0
    racks: int = 0
    delay_ensemble_change: bool = False
    quorum_timeout_ms: int = 0
    max_allowed_ensemble_changes: int = 2**31 - 1
    enforce_racks: bool = False

    def __str__(self) -> str:
        return f"write {self.entries} entries to ledger {self.ledger}"

    async def run(self, node: ClientNode) -> None:
        create = self._client(node).create_ledger
        sizes = (self.ensemble, self.write_quorum, self.ack_quorum)
        # Pass `deferred_sync` only if it is used, because learners' clients do not support it.
        writer = await (create(*sizes, deferred_sync=True) if self.force_every else create(*sizes))
        node.ledgers.created(self.ledger, writer.ledger_id)
        adds = _Adds(node, writer, is_deferred=bool(self.force_every))
        for number in range(self.entries):
            await adds.wait_for_window(self.window)
            if self.pause_ms and number == self.entries - 1:
                await asyncio.sleep(self.pause_ms / 1000)
            adds.begin(payload(self.ledger, number, self.payload_size))
            if self.every_ms:
                await asyncio.sleep(self.every_ms / 1000)
            if self.force_every and (number + 1) % self.force_every == 0:
                await adds.force()
        await adds.force()
        if self.close:
            await writer.close()

    def _client(self, node: ClientNode) -> BookKeeper:
        config = ClientConfig(
            explicit_lac_interval_ms=self.explicit_lac_ms,
            min_num_racks_per_write_quorum=self.racks,
            enforce_min_num_racks_per_write_quorum=self.enforce_racks,
            delay_ensemble_change=self.delay_ensemble_change,
            add_entry_quorum_timeout_s=self.quorum_timeout_ms / 1000 or -1.0,
            max_allowed_ensemble_changes=self.max_allowed_ensemble_changes,
        )
        if config == ClientConfig():
            return node.client
        return node.new_client(node.client.store, node.network, config)


class _Adds:
    def __init__(self, node: ClientNode, writer: LedgerWriter, *, is_deferred: bool) -> None:
        self._node, self._writer, self._is_deferred = node, writer, is_deferred
        self._pending: deque[tuple[bytes, asyncio.Future[int]]] = deque()

    def begin(self, payload: bytes) -> None:
        self._pending.append((payload, self._writer.add(payload)))

    async def wait_for_window(self, window: int) -> None:
        while self._pending and (len(self._pending) >= window or self._pending[0][1].done()):
            await self._wait_for_first()

    async def force(self) -> None:
        """Wait for all adds so far, and make them durable."""
        while self._pending:
            await self._wait_for_first()
        if isinstance(self._writer, DeferredSyncWriter):
            await self._writer.force()

    async def _wait_for_first(self) -> None:
        payload, added = self._pending.popleft()
        entry_id = await added
        # With deferred sync, the add returns before the entry has been confirmed.
        if not self._is_deferred:
            self._node.world.results.added(
                self._node.name, self._writer.ledger_id, entry_id, payload
            )


@dataclass(frozen=True, slots=True, repr=False)
class Read(Value):
    """Read a ledger up to LastAddConfirmed without recovery, `polls` times.

    Each poll continues where the previous one ended, `poll_ms` milliseconds later. With
    `long_poll_ms`, a poll asks a bookie to wait up to that long for the next entry, and reads only
    that entry.

    Without `long_poll_ms`, `lac` determines how a poll obtains LastAddConfirmed: "read" asks as
    many bookies as needed to be certain, "try" accepts the first response with a newer value, and
    "explicit" also uses explicit LACs.
    """

    ledger: int = 0
    polls: int = 1
    poll_ms: float = 5.0
    client: str = "r"
    when: Moment = START
    long_poll_ms: float = 0.0
    lac: str = "read"

    def __str__(self) -> str:
        return f"read ledger {self.ledger}"

    async def run(self, node: ClientNode) -> None:
        ledger_id = await node.ledgers.id_of(self.ledger)
        reader = await node.client.open_ledger_no_recovery(ledger_id)
        first = 0
        for _ in range(self.polls):
            if self.long_poll_ms:
                wait_s = self.long_poll_ms / 1000
                _, entry = await reader.read_last_add_confirmed_and_entry(first, wait_s)
                if entry is not None:
                    node.world.results.read(node.name, ledger_id, first, first, [entry])
                    first += 1
                continue
            last = await self._last_add_confirmed(reader)
            if last >= first:
                await _read(node, reader, first, last)
                first = last + 1
            await asyncio.sleep(self.poll_ms / 1000)

    async def _last_add_confirmed(self, reader: LedgerReader) -> int:
        if self.lac == "try":
            return await reader.try_read_last_add_confirmed()
        if self.lac == "explicit":
            return await reader.read_explicit_last_add_confirmed()
        return await reader.read_last_add_confirmed()


@dataclass(frozen=True, slots=True, repr=False)
class Recover(Value):
    """Open a ledger with recovery (fence it, find the last entry, close it), and then read all of
    its entries.
    """

    ledger: int = 0
    client: str = "r"
    when: Moment = START

    def __str__(self) -> str:
        return f"recover ledger {self.ledger}"

    async def run(self, node: ClientNode) -> None:
        reader = await node.client.open_ledger(await node.ledgers.id_of(self.ledger))
        if reader.last_add_confirmed >= 0:
            await _read(node, reader, 0, reader.last_add_confirmed)


async def _read(node: ClientNode, reader: LedgerReader, first: int, last: int) -> None:
    entries = await reader.read_entries(first, last)
    node.world.results.read(node.name, reader.ledger_id, first, last, entries)


@dataclass(frozen=True, slots=True, repr=False)
class Delete(Value):
    """Delete a ledger. The ledger's metadata is deleted immediately, and its entries are deleted
    when the bookies collect garbage.
    """

    ledger: int = 0
    client: str = "w"
    when: Moment = START

    def __str__(self) -> str:
        return f"delete ledger {self.ledger}"

    async def run(self, node: ClientNode) -> None:
        await node.client.delete_ledger(await node.ledgers.id_of(self.ledger))


@dataclass(frozen=True, slots=True, repr=False)
class NameRacks(Value):
    """Assign the bookies to this many racks in round-robin order."""

    racks: int = 2
    client: str = "operator"
    when: Moment = START

    def __post_init__(self) -> None:
        Value.__post_init__(self)
        if not self.racks:
            raise BKIncorrectParameterException("NameRacks: racks must be at least 1, got 0")

    def __str__(self) -> str:
        return f"name {self.racks} racks"

    async def run(self, node: ClientNode) -> None:
        names = node.world.cluster.names
        bookies = {name: {"rack": f"/{index % self.racks}"} for index, name in enumerate(names)}
        await node.client.store.create(RACKS, json.dumps({"default": bookies}).encode())


@dataclass(frozen=True, slots=True, repr=False)
class DisableAutorecovery(Value):
    """Disable audits and repairs, and re-enable them `for_ms` milliseconds later."""

    for_ms: float = 1000.0
    client: str = "operator"
    when: Moment = START

    def __str__(self) -> str:
        return f"disable autorecovery for {self.for_ms:g} ms"

    async def run(self, node: ClientNode) -> None:
        switches = LedgerUnderreplicationManager(
            node.client.store, node.name, lambda _: 0, node.wall_clock_ms
        )
        await switches.disable()
        await asyncio.sleep(self.for_ms / 1000)
        await switches.enable()


def payload(ledger: int, number: int, size: int) -> bytes:
    text = f"{ledger}/{number} ".encode()
    return (text * (size // len(text) + 1))[: max(size, len(text))]
