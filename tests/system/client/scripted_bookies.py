"""A network whose bookies respond only as the test tells them to, behind the real client.

Requests and responses use the real wire format: requests are recorded in decoded form, and
responses are encoded here. A bookie does not respond on its own unless `serves` is set, in which
case it handles adds, reads and fences as a real bookie does.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientConfig
from labkit.system.client.placement.placement import in_name_order
from labkit.system.client.reader import LedgerReader
from labkit.system.client.writer import LedgerWriter
from labkit.system.metadata.ledger_layout import HIERARCHICAL
from labkit.system.metadata.ledger_manager import LedgerManager
from labkit.system.metadata.location import DEFAULT_LEDGERS_ROOT as ROOT
from labkit.system.metadata.registration import BOOKIE_RPC, Endpoint, encode_service_info
from labkit.system.model.entry import Entry, encode_entry, make_digest
from labkit.system.model.ledger import LedgerMetadata, Segment, encode_ledger_metadata
from labkit.system.model.net import Connection, OnBodies, OnClose
from labkit.system.model.wire import (
    AddBatch,
    BatchReadRequest,
    Code,
    Flag,
    Opcode,
    ReadRequest,
    Request,
    decode_requests,
    encode_response,
)
from labkit.system.trace.events import Event
from labkit.system.trace.recorder import Recorder
from tests.batch_answers import batch_answer
from tests.ready_connection import ReadyConnection
from tests.system.client.memory_store import MemoryStore
from tests.until import until

LEDGER = 7


@dataclass
class ScriptedConnection(ReadyConnection):
    """The bookie's end of one connection."""

    bookie: "ScriptedBookie" = field(repr=False)
    on_bodies: OnBodies
    on_close: OnClose

    def send(self, bodies: Sequence[bytes]) -> None:
        # Decode each body separately, so that adds are not combined into a batch.
        for request in (decode_requests([body])[0] for body in bodies):
            self.bookie.asked.append(request)
            if self.bookie.serves:
                asyncio.get_running_loop().call_soon(self.bookie.serve, self, request)

    def say(self, opcode: Opcode, code: Code, entry_id: int, data: bytes = b"") -> None:
        self.on_bodies([encode_response(opcode, code, LEDGER, entry_id, data)])

    def close(self) -> None:
        asyncio.get_running_loop().call_soon(self.on_close)


@dataclass
class ScriptedBookie:
    """A bookie that the test controls."""

    name: str
    asked: list[Request] = field(default_factory=list)
    is_up: bool = True
    connections: list[ScriptedConnection] = field(default_factory=list)
    connect_count: int = 0
    serves: bool = False
    entries: dict[int, bytes] = field(default_factory=dict)
    fenced: bool = False
    unreadable: list[int] = field(default_factory=list)

    def say(self, opcode: Opcode, code: Code, entry_id: int, data: bytes = b"") -> None:
        assert self.connections, f"{self.name} has no connection"
        self.connections[-1].say(opcode, code, entry_id, data)

    def ack(self, *entry_ids: int) -> None:
        for entry_id in entry_ids:
            self.say(Opcode.ADD, Code.OK, entry_id)

    def reject(self, entry_id: int, code: Code) -> None:
        self.say(Opcode.ADD, code, entry_id)

    def drop(self) -> None:
        """Close the newest connection."""
        self.connections.pop().on_close()

    def die(self) -> None:
        """Close all connections and refuse new ones."""
        self.is_up = False
        while self.connections:
            self.drop()

    @property
    def adds(self) -> list[int]:
        return [request.entry_ids[0] for request in self.asked if isinstance(request, AddBatch)]

    @property
    def reads(self) -> list[int]:
        return [request.entry_id for request in self.asked if isinstance(request, ReadRequest)]

    def serve_as(self, serve: Callable[[ScriptedConnection, Request], None]) -> None:
        """Handle requests with this function instead of behaving like a real bookie."""
        self.serve = serve  # type: ignore[assignment, method-assign]
        self.serves = True

    def serve(self, connection: ScriptedConnection, request: Request) -> None:
        """Respond as a real bookie would."""
        if isinstance(request, AddBatch):
            [entry_id], [entry] = request.entry_ids, request.entries
            if self.fenced and not request.flags & Flag.RECOVERY_ADD:
                connection.say(Opcode.ADD, Code.FENCED, entry_id)
            else:
                self.entries[entry_id] = entry
                connection.say(Opcode.ADD, Code.OK, entry_id)
        elif isinstance(request, ReadRequest):
            self.fenced = self.fenced or bool(request.flags & Flag.FENCE)
            entry_id = request.entry_id
            found = max(self.entries, default=-1) if entry_id == -1 else entry_id
            if entry_id in self.unreadable:
                connection.say(Opcode.READ, Code.IO_ERROR, entry_id)
            elif found in self.entries:
                connection.say(Opcode.READ, Code.OK, entry_id, self.entries[found])
            else:
                connection.say(Opcode.READ, Code.NO_ENTRY, entry_id)
        elif isinstance(request, BatchReadRequest):
            wanted = range(request.first_entry_id, request.first_entry_id + request.max_count)
            readable = takewhile(lambda each: each in self.entries.keys() - self.unreadable, wanted)
            entries = [self.entries[each] for each in readable]
            code = Code.OK if entries else Code.NO_ENTRY
            connection.on_bodies([batch_answer(request, code, entries)])


class ScriptedNetwork:
    """A network of bookies, in which the host name of an endpoint is the name of the bookie."""

    def __init__(self, *names: str) -> None:
        self.bookies = {name: ScriptedBookie(name) for name in names}

    async def connect(
        self, host: str, port: int, on_bodies: OnBodies, on_close: OnClose
    ) -> Connection:
        bookie = self.bookies[host]
        if not bookie.is_up:
            raise ConnectionRefusedError(111, "Connection refused")
        connection = ScriptedConnection(bookie, on_bodies, on_close)
        bookie.connections.append(connection)
        bookie.connect_count += 1
        return connection


class Script:
    """Bookies b1, b2, ..., a ledger on the first of them, and a client."""

    def __init__(
        self,
        ensemble_size: int,
        write_quorum: int,
        ack_quorum: int,
        *,
        spares: int = 0,
        config: ClientConfig | None = None,
    ) -> None:
        names = tuple(f"b{place + 1}" for place in range(ensemble_size + spares))
        self.network = ScriptedNetwork(*names)
        self.bookies = list(self.network.bookies.values())
        self.store = MemoryStore()
        for name in names:
            endpoint = encode_service_info([Endpoint(BOOKIE_RPC, name, 1)])
            self.store.tree.create(f"{ROOT}/available/{name}", endpoint, 0, False)
        self.rows: list[Event] = []
        self.config = config or ClientConfig(request_timeout_s=60.0)
        self.client = self.new_client("client")
        self.manager = LedgerManager(self.store)
        self.metadata = LedgerMetadata(
            ensemble_size, write_quorum, ack_quorum, (Segment(0, names[:ensemble_size]),)
        )
        self.store.tree.create(f"{ROOT}/LAYOUT", HIERARCHICAL.encode(), 0, False)
        path, data = f"{ROOT}/00/0000/L0007", encode_ledger_metadata(self.metadata)
        self.store.tree.create(path, data, 0, False)
        self.digest = make_digest(self.metadata.digest_type, b"")

    def new_client(self, name: str, *, heard: bool = True) -> BookKeeper:
        recorder = Recorder(name, lambda: 0)
        if heard:
            recorder.listen(self.rows.extend)
        return BookKeeper(
            self.store,
            self.network,
            recorder,
            in_name_order,
            lambda: 1,
            lambda: 0,
            self.config,
        )

    def all_serve(self) -> None:
        """Make all bookies respond on their own from now on."""
        for bookie in self.bookies:
            bookie.serves = True

    def writer(self, client: BookKeeper | None = None) -> LedgerWriter:
        """Return a writer that has seen the ledger OPEN just now, as after its creation."""
        writer = LedgerWriter(LEDGER, self.metadata, 0, (client or self.client).context)
        writer.fence_check.saw_open(asyncio.get_running_loop().time())
        return writer

    def reader(self, last_add_confirmed: int = -1) -> LedgerReader:
        reader = LedgerReader(LEDGER, self.metadata, self.client.context)
        reader.last_add_confirmed = last_add_confirmed
        return reader

    async def stored_metadata(self) -> LedgerMetadata:
        metadata, _ = await self.manager.read(LEDGER)
        return metadata

    async def segments(self) -> list[tuple[int, str]]:
        """Return the segments in the metadata store as pairs of first entry and ensemble."""
        metadata = await self.stored_metadata()
        return [(s.first_entry_id, " ".join(s.ensemble)) for s in metadata.segments]

    def stored(
        self, entry_id: int, payload: bytes = b"payload", confirmed: int = -1, length: int = 0
    ) -> bytes:
        entry = Entry(LEDGER, entry_id, confirmed, length or len(payload), payload)
        return encode_entry(entry, self.digest)

    def put(self, entry_id: int, confirmed: int, *places: int) -> None:
        """Store the entry on these bookies as the writer encodes it, with 10 bytes of payload."""
        data = self.stored(entry_id, b"entry %04d" % entry_id, confirmed, 10 * (entry_id + 1))
        for place in places:
            self.bookies[place].entries[entry_id] = data

    def recorded(self, *kinds: str) -> list[tuple[str, int, str]]:
        """Return kind, entry and peer of the events of these kinds."""
        return [(row.kind, row.entry, row.peer) for row in self.rows if row.kind in kinds]

    async def until_asked(self, count: int, *places: int) -> None:
        """Wait until each of these bookies (default: all) has received `count` requests."""
        chosen = [self.bookies[place] for place in places] or self.bookies
        await until(lambda: all(len(bookie.asked) >= count for bookie in chosen))


async def pushed(script: Script, count: int) -> tuple[LedgerWriter, list[asyncio.Future[int]]]:
    """Return a writer with `count` adds, which all bookies of the ensemble have received (E =
    Qw).
    """
    writer = script.writer()
    adds = [writer.add(b"entry %d" % number) for number in range(count)]
    await script.until_asked(count, *range(script.metadata.ensemble_size))
    return writer, adds
