"""A network whose bookies answer when and what the test says, behind the real client.

Frames are the real ones: what a bookie gets is kept decoded, what it says is encoded here.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field

from labkit.client.bookie_client import BookieClients
from labkit.client.reader import LedgerReader
from labkit.client.writer import LedgerWriter
from labkit.metadata.ledger_manager import LedgerManager
from labkit.metadata.registration import BOOKIE_RPC, Endpoint
from labkit.model.entry import Entry, encode_entry, make_digest
from labkit.model.ledger import LedgerMetadata, Segment
from labkit.model.net import Connection, OnBodies, OnClose
from labkit.model.wire import (
    AddRequest,
    Code,
    Opcode,
    ReadRequest,
    Request,
    decode_requests,
    encode_answer,
)
from labkit.trace.recorder import Recorder, Row
from tests.until import until

LEDGER = 7


@dataclass
class ScriptedBookie:
    """The bookie's end of the connections, in the hands of the test."""

    name: str
    asked: list[Request] = field(default_factory=list)
    is_up: bool = True
    connections: int = 0
    on_bodies: OnBodies | None = None
    on_close: OnClose | None = None

    def say(self, opcode: Opcode, code: Code, entry_id: int, data: bytes = b"") -> None:
        assert self.on_bodies is not None, f"{self.name} has no connection"
        self.on_bodies([encode_answer(opcode, code, LEDGER, entry_id, data)])

    def ack(self, *entry_ids: int) -> None:
        for entry_id in entry_ids:
            self.say(Opcode.ADD, Code.OK, entry_id)

    def refuse(self, entry_id: int, code: Code) -> None:
        self.say(Opcode.ADD, code, entry_id)

    def drop(self) -> None:
        """The connection is lost."""
        assert self.on_close is not None
        self.on_bodies, on_close = None, self.on_close
        on_close()

    @property
    def adds(self) -> list[int]:
        return [request.entry_id for request in self.asked if isinstance(request, AddRequest)]

    @property
    def reads(self) -> list[int]:
        return [request.entry_id for request in self.asked if isinstance(request, ReadRequest)]

    def send(self, bodies: Sequence[bytes]) -> None:
        self.asked += decode_requests(bodies)

    def close(self) -> None:
        if self.on_bodies is not None:
            asyncio.get_running_loop().call_soon(self.drop)


class ScriptedNetwork:
    """The way to some bookies, by name; the host of an endpoint is the bookie's name."""

    def __init__(self, *names: str) -> None:
        self.bookies = {name: ScriptedBookie(name) for name in names}

    async def connect(
        self, host: str, port: int, on_bodies: OnBodies, on_close: OnClose
    ) -> Connection:
        bookie = self.bookies[host]
        if not bookie.is_up:
            raise ConnectionRefusedError(111, "Connection refused")
        bookie.connections += 1
        bookie.on_bodies, bookie.on_close = on_bodies, on_close
        return bookie

    async def find(self, bookie: str) -> Endpoint:
        return Endpoint(BOOKIE_RPC, bookie, 1)

    def clients(self, timeout_s: float = 60.0) -> BookieClients:
        return BookieClients(self, self.find, timeout_s)


class Script:
    """Bookies b1, b2, ... and a ledger on them."""

    def __init__(
        self, ensemble_size: int, write_quorum: int, ack_quorum: int, *, timeout_s: float = 60.0
    ) -> None:
        names = tuple(f"b{place + 1}" for place in range(ensemble_size))
        self.network = ScriptedNetwork(*names)
        self.bookies = list(self.network.bookies.values())
        self.rows: list[Row] = []
        self.recorder = Recorder("client", lambda: 0)
        self.recorder.listen(self.rows.extend)
        self.metadata = LedgerMetadata(
            ensemble_size, write_quorum, ack_quorum, (Segment(0, names),)
        )
        self.digest = make_digest(self.metadata.digest_type, b"")
        self.clients = self.network.clients(timeout_s)

    def writer(self, manager: LedgerManager, version: int = 0) -> LedgerWriter:
        return LedgerWriter(LEDGER, self.metadata, version, manager, self.clients, self.recorder)

    def reader(self, last_add_confirmed: int = -1) -> LedgerReader:
        reader = LedgerReader(LEDGER, self.metadata, self.clients, self.recorder)
        reader.last_add_confirmed = last_add_confirmed
        return reader

    def stored(self, entry_id: int, payload: bytes = b"payload", confirmed: int = -1) -> bytes:
        entry = Entry(LEDGER, entry_id, confirmed, len(payload), payload)
        return encode_entry(entry, self.digest)

    async def until_asked(self, count: int, *places: int) -> None:
        """Wait until each of these bookies (default: all) was asked so often."""
        chosen = [self.bookies[place] for place in places] or self.bookies
        await until(lambda: all(len(bookie.asked) >= count for bookie in chosen))
