"""A small simulated world for autorecovery in virtual time, with a simulated ZooKeeper, and with
in-memory bookies behind the real client and the real wire protocol.

    @simulated
    async def test_rule(world: World) -> None:
        await world.start_autorecovery("a")
        ...
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.daemon import AutoRecovery, Rules
from labkit.system.autorecovery.paths import AutoRecoveryPaths
from labkit.system.autorecovery.underreplication import LedgerUnderreplicationManager
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientConfig
from labkit.system.client.placement.placement import in_name_order
from labkit.system.client.striping import write_set
from labkit.system.metadata.cluster import init_cluster
from labkit.system.metadata.location import MetadataLocation
from labkit.system.metadata.registration import BOOKIE_RPC, Endpoint, register_bookie
from labkit.system.model import wire_v3
from labkit.system.model.availability import availability_of, encode_availability
from labkit.system.model.entry import NO_ENTRY_ID, decode_entry, make_digest
from labkit.system.model.ledger import LedgerMetadata
from labkit.system.model.net import Connection, OnBodies, OnClose
from labkit.system.model.proto import bookkeeper_protocol_pb2 as pb
from labkit.system.model.wire import (
    AddBatch,
    BatchReadRequest,
    Code,
    Flag,
    Opcode,
    ReadRequest,
    decode_requests,
    encode_response,
)
from labkit.system.trace.events import Event
from labkit.system.trace.recorder import Recorder
from labkit.worlds.sim.machine.loop import SimLoop
from labkit.worlds.sim.machine.metadata import SimMetadataStore
from tests.batch_answers import batch_answer
from tests.processor_time import processor_time
from tests.ready_connection import ReadyConnection
from tests.virtual_time import in_world
from tests.worlds.sim.metadata_world import MetadataWorld

TIME_LIMIT_S = 7200
LATENCY_S = 0.001
PATHS = AutoRecoveryPaths(MetadataLocation("any"))


@dataclass
class MemoryBookie:
    """A bookie that stores entries in memory; an added entry is durable immediately."""

    name: str
    entries: dict[tuple[int, int], bytes] = field(default_factory=dict)
    fenced: dict[int, None] = field(default_factory=dict)
    is_down: bool = False
    is_silent: bool = False
    rejects_adds: bool = False
    gives_no_lists: bool = False
    list_count: int = 0
    """How often the bookie was asked for the list of a ledger's entries."""
    session: SimMetadataStore | None = None

    def stored(self, ledger_id: int) -> list[int]:
        return sorted(entry for ledger, entry in self.entries if ledger == ledger_id)

    def lose(self, ledger_id: int, *entry_ids: int) -> None:
        for entry_id in entry_ids:
            del self.entries[ledger_id, entry_id]

    def list_entries(self, body: bytes) -> list[bytes]:
        """Answer a request for the list of a ledger's entries, the only version 3 request supported
        here.
        """
        self.list_count += 1
        request = wire_v3.decode_request(body)
        if self.gives_no_lists:
            return [wire_v3.encode_response(request.header, pb.EBADREQ)]
        ledger_id = request.getListOfEntriesOfLedgerRequest.ledgerId
        if not self.stored(ledger_id):
            return [wire_v3.encode_response(request.header, pb.ENOLEDGER)]
        entries = encode_availability(availability_of(self.stored(ledger_id)))
        answer = pb.GetListOfEntriesOfLedgerResponse(
            status=pb.EOK, ledgerId=ledger_id, availabilityOfEntriesOfLedger=entries
        )
        return [wire_v3.encode_response(request.header, pb.EOK, answer)]

    def answers(self, request: object) -> list[bytes]:
        if isinstance(request, AddBatch):
            return request.responses(self._add(request))
        if isinstance(request, BatchReadRequest):
            return [self._read_batch(request)]
        assert isinstance(request, ReadRequest)
        return [self._read(request)]

    def _add(self, request: AddBatch) -> Code:
        flags, _, *columns = request
        if self.fenced.keys() & {*request.ledger_ids} and not flags & Flag.RECOVERY_ADD:
            return Code.FENCED
        if self.rejects_adds:
            return Code.IO_ERROR
        for ledger_id, entry_id, entry in zip(*columns, strict=True):
            self.entries[ledger_id, entry_id] = entry
        return Code.OK

    def _read(self, request: ReadRequest) -> bytes:
        ledger_id, entry_id, flags, _ = request
        if flags & Flag.FENCE:
            self.fenced[ledger_id] = None
        stored = self.stored(ledger_id)
        wanted = stored[-1] if entry_id == NO_ENTRY_ID and stored else entry_id
        if (ledger_id, wanted) in self.entries:
            entry = self.entries[ledger_id, wanted]
            return encode_response(Opcode.READ, Code.OK, ledger_id, entry_id, entry)
        code = Code.NO_ENTRY if stored else Code.NO_LEDGER
        return encode_response(Opcode.READ, code, ledger_id, entry_id)

    def _read_batch(self, request: BatchReadRequest) -> bytes:
        ledger_id, first = request.ledger_id, request.first_entry_id
        found = []
        for entry_id in range(first, first + request.max_count):
            if (ledger_id, entry_id) not in self.entries:
                break
            found.append(self.entries[ledger_id, entry_id])
        return batch_answer(request, Code.OK if found else Code.NO_ENTRY, found)


class _Pipe(ReadyConnection):
    """The client's end of a connection to a bookie."""

    def __init__(self, bookie: MemoryBookie, on_bodies: OnBodies, on_close: OnClose) -> None:
        self._bookie = bookie
        self._on_bodies = on_bodies
        self._on_close: list[OnClose] = [on_close]
        self._loop = asyncio.get_running_loop()

    def send(self, bodies: Sequence[bytes]) -> None:
        self._loop.call_later(LATENCY_S, self._arrive, bodies)

    def _arrive(self, bodies: Sequence[bytes]) -> None:
        if self._bookie.is_down:
            self.close()
        elif not self._bookie.is_silent:
            if wire_v3.is_version_3(bodies[0]):
                answers = [answer for body in bodies for answer in self._bookie.list_entries(body)]
            else:
                requests = decode_requests(bodies)
                answers = [body for request in requests for body in self._bookie.answers(request)]
            self._loop.call_later(LATENCY_S, self._on_bodies, answers)

    def when_closed(self, on_close: OnClose) -> None:
        self._on_close.append(on_close)

    def close(self) -> None:
        closing, self._on_close = self._on_close, []
        for on_close in closing:
            self._loop.call_soon(on_close)


class World:
    """Bookies b1 to b5, a client, and the autorecovery instances that the test starts."""

    def __init__(self, metadata: MetadataWorld) -> None:
        self.metadata = metadata
        self.rows: list[Event] = []
        self.bookies: dict[str, MemoryBookie] = {}
        self.instances: dict[str, asyncio.Task[None]] = {}
        self.config = AutoRecoveryConfig()
        self.rules = Rules()

    async def connect(
        self, host: str, port: int, on_bodies: OnBodies, on_close: OnClose
    ) -> Connection:
        await asyncio.sleep(LATENCY_S)
        if self.bookies[host].is_down:
            raise ConnectionRefusedError(111, "Connection refused")
        return _Pipe(self.bookies[host], on_bodies, on_close)

    async def begin(self) -> None:
        self.store = await self.metadata.session("client")
        await init_cluster(self.store, "instance")
        self.client = self.new_client("client", self.store)
        self.manager = self.new_manager(self.store)
        for number in range(1, 6):
            await self.add_bookie(f"b{number}")

    def new_client(
        self, node: str, store: SimMetadataStore, config: ClientConfig | None = None
    ) -> BookKeeper:
        recorder = Recorder(node, lambda: int(self.metadata.loop.now * 1e6))
        recorder.listen(self.rows.extend)
        clock = self.wall_clock_ms
        return BookKeeper(store, self, recorder, in_name_order, lambda: 1, clock, config)

    def new_manager(self, store: SimMetadataStore) -> LedgerUnderreplicationManager:
        return LedgerUnderreplicationManager(store, "host", lambda n: 0, self.wall_clock_ms)

    def wall_clock_ms(self) -> int:
        return 1_700_000_000_000 + int(self.metadata.loop.now * 1000)

    # Bookies

    async def add_bookie(self, name: str) -> None:
        self.bookies[name] = MemoryBookie(name)
        await self.store.create(f"/ledgers/cookies/{name}", b"")
        await self.start_bookie(name)

    async def start_bookie(self, name: str, *, read_only: bool = False) -> None:
        bookie = self.bookies[name]
        if bookie.session is None or bookie.is_down:
            bookie.session = await self.metadata.session(name)
        bookie.is_down = False
        endpoint = Endpoint(BOOKIE_RPC, name, 1)
        await register_bookie(bookie.session, name, [endpoint], read_only=read_only)

    async def stop_bookie(self, name: str) -> None:
        """Stop the bookie and end its session."""
        bookie = self.bookies[name]
        assert bookie.session is not None
        bookie.is_down = True
        await bookie.session.stop()

    # Autorecovery

    async def start_autorecovery(
        self, *nodes: str, own_bookie: str = "", follows_silence: bool = False
    ) -> None:
        """Start instances, each in a separate process, and return after all of them have voted."""
        for node in nodes:
            store = await self.metadata.session(node)
            client = self.new_client(node, store, self.config.client_config)
            daemon = AutoRecovery(
                node,
                client,
                self.config,
                lambda n: 0,
                self.rules,
                own_bookie=own_bookie,
                follows_silence=follows_silence,
            )
            self.instances[node] = self.metadata.processes[node].spawn(daemon.run())
            await asyncio.sleep(1)

    # Ledgers

    async def closed_ledger(self, entry_count: int, sizes: tuple[int, int, int] = (3, 3, 2)) -> int:
        writer = await self.client.create_ledger(*sizes)
        for number in range(entry_count):
            await writer.add(payload(number))
        await asyncio.sleep(10 * LATENCY_S)  # wait for the last acknowledgement
        await writer.close()
        return writer.ledger_id

    async def ledger(self, ledger_id: int) -> LedgerMetadata:
        return await self.client.ledger_metadata(ledger_id)

    async def missing(self, ledger_id: int) -> list[tuple[int, str]]:
        """Return the copies that are listed in the metadata, but missing on these bookies."""
        metadata = await self.ledger(ledger_id)
        digest = make_digest(metadata.digest_type, metadata.password)
        missing = []
        for entry_id in range(metadata.last_entry_id + 1):
            ensemble = metadata.ensemble_at(entry_id)
            for place in write_set(entry_id, metadata.ensemble_size, metadata.write_quorum):
                bookie = self.bookies[ensemble[place]]
                data = bookie.entries.get((ledger_id, entry_id))
                if bookie.is_down or data is None:
                    missing.append((entry_id, bookie.name))
                    continue
                entry = decode_entry(data, digest, ledger_id, entry_id)
                assert entry.payload == payload(entry_id)
        return missing

    async def until_replicated(self, timeout_s: float = 600) -> None:
        """Wait until no ledger names a stopped bookie and no ledger is marked."""
        async with asyncio.timeout(timeout_s):
            while not await self._all_is_well():  # noqa: ASYNC110 - virtual time
                await asyncio.sleep(0.1)
        await asyncio.sleep(0.1)

    async def _all_is_well(self) -> bool:
        for ledger_id in await self.client.list_ledgers():
            for segment in (await self.ledger(ledger_id)).segments:
                if any(self.bookies[name].is_down for name in segment.ensemble):
                    return False
        return not await self.manager.ledgers()

    def events(self, *kinds: str) -> list[Event]:
        return [row for row in self.rows if row.kind in kinds]


def payload(entry_id: int) -> bytes:
    return b"payload of entry %d" % entry_id


def run(rule: Callable[[World], Awaitable[None]]) -> None:
    """Run the body of a test in a new world."""
    loop = SimLoop(time_limit_s=TIME_LIMIT_S)

    async def main() -> None:
        world = World(MetadataWorld(loop))
        await world.begin()
        await rule(world)

    with processor_time():
        loop.run(main())


simulated = in_world(run)
"""Turns a coroutine function with a parameter `world` into a test that runs in a new world."""
