"""Hostile peers, each of which tries for a few seconds to use as many of a bookie's resources as it
can.

A peer does not read responses unless its docstring says so.
"""

import asyncio
import struct
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from itertools import count

from labkit.system.model.batch_read import encode_batch_read
from labkit.system.model.proto import bookkeeper_protocol_pb2 as pb
from labkit.system.model.wire import MAX_FRAME_SIZE, BatchReadRequest
from labkit.system.model.wire_v3 import encode_request
from labkit.worlds.live.host.ports import LOOPBACK
from tests.system.bookie.raw import FENCE, KEY, RawClient, add, frame, read

LARGE, TINY, POLITE, FLOODED = 1, 2, 3, 4
"""Ledger ids: one entry of the maximum size; many of the minimum size; the ledger of the
well-behaved client; and the first of the ledgers that the hostile peer writes.
"""
TINY_COUNT = 30_000
LARGEST_PAYLOAD = MAX_FRAME_SIZE - len(add(LARGE, 0, b""))
HALF = struct.pack(">I", MAX_FRAME_SIZE - 4) + bytes(MAX_FRAME_SIZE - 1000)
"""The beginning of a frame of the maximum size, with only its end missing."""


class Peer:
    """The connections of one hostile host."""

    def __init__(self, port: int, trace_port: int) -> None:
        self.port, self.trace_port = port, trace_port
        self._writers: list[asyncio.StreamWriter] = []

    async def connect(self, port: int = 0) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Open another connection. All but a few unread bytes stay in the kernel's buffers."""
        reader, writer = await asyncio.open_connection(LOOPBACK, port or self.port, limit=1)
        self._writers.append(writer)
        return reader, writer

    async def send(self, data: bytes, connections: int = 1) -> None:
        """Send the same bytes on new connections, as long as the bookie accepts the connections."""

        async def one() -> None:
            with suppress(OSError):
                _, writer = await self.connect()
                writer.write(data)
                await writer.drain()

        await asyncio.gather(*(one() for _ in range(connections)))

    async def send_all(self, pieces: Callable[[int], bytes], *, takes: bool = False) -> None:
        """Send pieces endlessly on one connection; with `takes`, also read the responses."""
        reader, writer = await self.connect()
        async with asyncio.TaskGroup() as group:
            if takes:
                group.create_task(_take_all(reader))
            for number in count():
                writer.write(pieces(number))
                await writer.drain()

    def leave(self) -> None:
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()


async def _take_all(reader: asyncio.StreamReader) -> None:
    while await reader.read(1024 * 1024):
        """Discard the response."""


async def large_reads(peer: Peer) -> None:
    """240 reads of a 5 MiB entry, in 6,960 bytes."""
    await peer.send(read(LARGE, 0) * 240)


async def large_reads_on_many(peer: Peer) -> None:
    """240 reads of a 5 MiB entry on each of 100 connections."""
    await peer.send(read(LARGE, 0) * 240, 100)


async def fencing_reads(peer: Peer) -> None:
    """240 fencing reads of a 5 MiB entry on each of 4 connections."""
    await peer.send(read(LARGE, 0, FENCE, KEY) * 240, 4)


async def last_entries(peer: Peer) -> None:
    """240 READ_LAC (version 3) of a 5 MiB entry on each of 4 connections."""
    body = encode_request(pb.READ_LAC, 1, pb.ReadLacRequest(ledgerId=LARGE))
    await peer.send(frame(body) * 240, 4)


async def half_frames(peer: Peer) -> None:
    """Half a frame of 5 MiB on each of 150 connections."""
    await peer.send(HALF, 150)


async def half_frames_that_come_and_go(peer: Peer) -> None:
    """Half a frame of 5 MiB on each of 50 connections, which are then closed, three times."""
    for _ in range(3):
        await peer.send(HALF, 50)
        peer.leave()


async def bytes_now_and_then(peer: Peer) -> None:
    """300 connections that announce 5 MiB and send one byte at a time."""
    await peer.send(HALF[:4], 300)
    while True:
        for writer in peer._writers:
            writer.write(b"x")
        await asyncio.sleep(0.05)


async def silent_connections(peer: Peer) -> None:
    """5,000 connections that send nothing."""
    await peer.send(b"", 5_000)


async def long_polls(peer: Peer) -> None:
    """200,000 long polls of an hour each, on 2 connections."""
    poll = pb.ReadRequest(ledgerId=TINY, entryId=-1, previousLAC=10**9, timeOut=3_600_000)
    await peer.send(frame(encode_request(pb.READ_ENTRY, 1, poll)) * 100_000, 2)


async def lists_of_entries(peer: Peer) -> None:
    """20,000 requests for the list of a ledger's 30,000 entries."""
    ask = pb.GetListOfEntriesOfLedgerRequest(ledgerId=TINY)
    await peer.send(frame(encode_request(pb.GET_LIST_OF_ENTRIES_OF_LEDGER, 1, ask)) * 20_000)


async def batch_reads(peer: Peer) -> None:
    """20,000 batch reads without a limit on each of 4 connections."""
    request = BatchReadRequest(TINY, 0, 1, 0, MAX_FRAME_SIZE)
    await peer.send(frame(encode_batch_read(request)) * 20_000, 4)


async def auth_messages(peer: Peer) -> None:
    """Authentication messages of 5 MiB (version 3) on 10 connections."""
    message = pb.AuthMessage(authPluginName="x", payload=bytes(MAX_FRAME_SIZE - 100))
    body = frame(encode_request(pb.AUTH, 1, message))
    await asyncio.gather(*(peer.send_all(lambda _: body) for _ in range(10)))


async def tiny_adds(peer: Peer) -> None:
    """Adds of the smallest entries without a pause, with all responses read."""

    def piece(number: int) -> bytes:
        first = 5_000 * number
        return b"".join(add(FLOODED, entry_id, b"") for entry_id in range(first, first + 5_000))

    await peer.send_all(piece, takes=True)


async def adds_to_many_ledgers(peer: Peer) -> None:
    """Smallest adds without a pause, each to a new ledger, with all responses read."""

    def piece(number: int) -> bytes:
        first = FLOODED + 5_000 * number
        return b"".join(add(ledger_id, 0, b"") for ledger_id in range(first, first + 5_000))

    await peer.send_all(piece, takes=True)


async def large_adds(peer: Peer) -> None:
    """Adds of 5 MiB without a pause on 20 connections."""

    async def one(ledger_id: int) -> None:
        payload = bytes(LARGEST_PAYLOAD)
        await peer.send_all(lambda entry_id: add(ledger_id, entry_id, payload))

    await asyncio.gather(*(one(FLOODED + number) for number in range(20)))


async def readers_who_read(peer: Peer) -> None:
    """4 connections that request 5 MiB entries without a pause, and read the responses."""

    async def one() -> None:
        reader, writer = await peer.connect()
        while True:
            writer.write(read(LARGE, 0) * 20)
            for _ in range(20):
                await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))

    await asyncio.gather(*(one() for _ in range(4)))


async def deaf_listeners(peer: Peer) -> None:
    """3 trace listeners that do not read, while adds are traced without a pause."""
    for _ in range(3):
        await peer.connect(peer.trace_port)
    async with RawClient(peer.port) as client:
        for first in range(0, 10**9, 1000):
            adds = (add(FLOODED, entry_id, b"") for entry_id in range(first, first + 1000))
            await client.send(b"".join(adds))
            for _ in range(1000):
                await client.receive()


PEERS: Sequence[Callable[[Peer], Awaitable[None]]] = (
    large_reads,
    large_reads_on_many,
    fencing_reads,
    last_entries,
    readers_who_read,
    half_frames,
    half_frames_that_come_and_go,
    bytes_now_and_then,
    silent_connections,
    long_polls,
    lists_of_entries,
    batch_reads,
    auth_messages,
    tiny_adds,
    adds_to_many_ledgers,
    large_adds,
    deaf_listeners,
)
