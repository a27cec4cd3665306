"""Tests for a client's connection to a bookie in version 3, either over TCP to a bookie in this
process or to a stub.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from labkit.system.client.protocol.protocol_v3 import LongPollResult, PerChannelBookieClientV3
from labkit.system.metadata.registration import BOOKIE_RPC, Endpoint
from labkit.system.model.errors import (
    PROVES_ABSENCE,
    BKBookieHandleNotAvailableException,
    BKClientClosedException,
    BKLedgerFencedException,
    BKNoSuchEntryException,
    BKNoSuchLedgerExistsException,
    BKReadException,
    BKTimeoutException,
    BKUnauthorizedAccessException,
)
from labkit.system.model.net import Connection, OnBodies
from labkit.system.model.proto import bookkeeper_protocol_pb2 as pb
from labkit.system.model.wire_v3 import decode_request, encode_response, response_to
from labkit.worlds.live.net import TcpNetwork, listen
from tests.system.bookie.in_process import Node
from tests.system.bookie.raw import KEY
from tests.system.bookie.v3 import entry, lac_body
from tests.until import until

WAIT_S = 3600.0


@asynccontextmanager
async def client_of(
    accept: Callable[[Connection], OnBodies],
    timeout_s: float = 60.0,
    may_connect: asyncio.Event | None = None,
) -> AsyncIterator[PerChannelBookieClientV3]:
    server = await listen(accept)
    port = server.sockets[0].getsockname()[1]

    async def find(bookie: str) -> Endpoint:
        if may_connect is not None:
            await may_connect.wait()
        return Endpoint(BOOKIE_RPC, "127.0.0.1", port)

    client = PerChannelBookieClientV3("b0", TcpNetwork(), find, timeout_s)
    try:
        yield client
    finally:
        client.close()
        server.close()


@pytest.fixture
async def client(node: Node) -> AsyncIterator[PerChannelBookieClientV3]:
    async with client_of(node.bookie.accept) as client:
        yield client


async def test_deferred_adds_are_durable_after_a_force(
    node: Node, client: PerChannelBookieClientV3
) -> None:
    await asyncio.gather(*(client.add(1, n, entry(1, n), KEY) for n in range(100)))
    assert node.store.journals[0].synced.offset == 0
    await client.force_ledger(1)
    assert node.store.journals[0].synced.offset > 512
    assert node.store.read_entry(1, 99) == entry(1, 99)


async def test_an_explicit_lac_is_read_back(client: PerChannelBookieClientV3) -> None:
    with pytest.raises(BKNoSuchEntryException):
        await client.read_lac(1)
    await client.write_lac(1, 7, lac_body(1, 7), KEY)
    assert await client.read_lac(1) == (lac_body(1, 7), b"")
    await client.add(1, 8, entry(1, 8), KEY)
    assert await client.read_lac(1) == (lac_body(1, 7), entry(1, 8))


async def test_a_read_waits_for_the_next_entry(client: PerChannelBookieClientV3) -> None:
    await client.add(1, 0, entry(1, 0), KEY)
    waiting = asyncio.ensure_future(client.read_after(1, -1, WAIT_S))
    await client.add(1, 1, entry(1, 1), KEY)
    assert await waiting == LongPollResult(0, 0, entry(1, 0))
    assert await client.read_after(1, 0, 0.001) == LongPollResult(0, -1, b"")


async def test_a_bookie_tells_its_space_and_its_entries(
    node: Node, client: PerChannelBookieClientV3
) -> None:
    node.bookie.disk_space = lambda: (1000, 300)
    assert await client.disk_space() == (1000, 300)
    with pytest.raises(BKNoSuchLedgerExistsException):
        await client.list_of_entries(1)
    for n in (0, 2):
        await client.add(1, n, entry(1, n), KEY)
    entries = await client.list_of_entries(1)
    assert [n for n in range(5) if n in entries] == [0, 2]


# Misbehaving bookies


class Stub:
    """A stub of a bookie that records requests and sends only the responses that the test
    gives it.
    """

    def __init__(self) -> None:
        self.connections: list[Connection] = []
        self.requests: list[pb.Request] = []

    def accept(self, connection: Connection) -> OnBodies:
        self.connections.append(connection)

        def on_bodies(bodies: Sequence[bytes]) -> None:
            self.requests += map(decode_request, bodies)

        return on_bodies

    def say(self, *bodies: bytes) -> None:
        self.connections[-1].send(bodies)

    def done(self, number: int) -> bytes:
        """Return a successful response to the request with this index."""
        request = self.requests[number]
        return encode_response(request.header, pb.EOK, response_to(request, pb.EOK))


async def test_responses_may_come_in_any_order_and_more_than_once() -> None:
    stub = Stub()
    async with client_of(stub.accept) as client:
        forces = [asyncio.ensure_future(client.force_ledger(n)) for n in range(3)]
        await until(lambda: len(stub.requests) == 3)
        stub.say(stub.done(2), stub.done(2), stub.done(0))
        await asyncio.gather(forces[2], forces[0])
        assert not forces[1].done()
        stub.say(stub.done(1))
        await forces[1]


async def test_a_response_to_another_operation_completes_no_request() -> None:
    stub = Stub()
    async with client_of(stub.accept) as client:
        force = asyncio.ensure_future(client.force_ledger(1))
        await until(lambda: stub.requests)
        other = pb.Request()
        other.CopyFrom(stub.requests[0])
        other.header.operation = pb.READ_LAC
        stub.say(encode_response(other.header, pb.EOK, response_to(other, pb.EOK)))
        reading = asyncio.ensure_future(client.read_lac(1))
        await until(lambda: len(stub.requests) == 2)
        stub.say(stub.done(1))
        await reading
        assert not force.done()
        stub.say(stub.done(0))
        await force


async def test_a_bookie_that_does_not_respond_in_time_is_reported() -> None:
    stub = Stub()
    async with client_of(stub.accept, timeout_s=0.001) as client:
        with pytest.raises(BKTimeoutException, match=r"b0.*FORCE_LEDGER"):
            await client.force_ledger(1)


async def test_the_time_that_the_bookie_may_wait_counts_in() -> None:
    stub = Stub()
    async with client_of(stub.accept, timeout_s=0.001) as client:
        waiting = asyncio.ensure_future(client.read_after(1, -1, WAIT_S))
        with pytest.raises(BKTimeoutException):
            await client.force_ledger(1)
        assert not waiting.done()
        waiting.cancel()


async def test_a_bookie_that_talks_nonsense_is_left() -> None:
    stub = Stub()
    async with client_of(stub.accept) as client:
        force = asyncio.ensure_future(client.force_ledger(1))
        await until(lambda: stub.requests)
        stub.say(b"\x02\x01nonsense")
        with pytest.raises(BKBookieHandleNotAvailableException, match="not a Response of protocol"):
            await force


async def test_what_timed_out_before_there_was_a_connection_is_never_sent() -> None:
    stub, may_connect = Stub(), asyncio.Event()
    async with client_of(stub.accept, timeout_s=0.001, may_connect=may_connect) as client:
        waiting = [asyncio.ensure_future(client.read_after(2, -1, WAIT_S))]
        with pytest.raises(BKTimeoutException):
            await client.force_ledger(1)
        waiting.append(asyncio.ensure_future(client.read_after(3, -1, WAIT_S)))
        await asyncio.sleep(0)
        may_connect.set()
        await until(lambda: len(stub.requests) == 2)
        assert [request.readRequest.ledgerId for request in stub.requests] == [2, 3]
        for each in waiting:
            each.cancel()


async def test_a_list_of_entries_that_makes_no_sense_proves_nothing() -> None:
    stub = Stub()
    async with client_of(stub.accept) as client:
        listing = asyncio.ensure_future(client.list_of_entries(1))
        await until(lambda: stub.requests)
        stub.say(stub.done(0))
        with pytest.raises(BKReadException, match="not a list of entries") as raised:
            await listing
        assert not isinstance(raised.value, PROVES_ABSENCE)


async def test_a_closed_client_fails_what_was_asked_and_what_is_asked_later() -> None:
    stub = Stub()
    async with client_of(stub.accept) as client:
        force = asyncio.ensure_future(client.force_ledger(1))
        await until(lambda: stub.requests)
        client.close()
        for asked in (force, client.force_ledger(1)):
            with pytest.raises(BKClientClosedException):
                await asked


async def test_a_request_with_a_response_has_no_time_left_that_could_run_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stub = Stub()
    async with client_of(stub.accept, timeout_s=WAIT_S) as client:
        timers: list[asyncio.TimerHandle] = []
        call_later = client.loop.call_later

        def kept(delay: float, *arguments: Any) -> asyncio.TimerHandle:
            timer = call_later(delay, *arguments)
            if delay == WAIT_S:
                timers.append(timer)
            return timer

        monkeypatch.setattr(client.loop, "call_later", kept)
        forces = [asyncio.ensure_future(client.force_ledger(n)) for n in range(2)]
        await until(lambda: len(stub.requests) == 2)
        stub.say(stub.done(0))
        await forces[0]
        assert [timer.cancelled() for timer in timers] == [True, False]
        client.close()
        with pytest.raises(BKClientClosedException):
            await forces[1]
        assert [timer.cancelled() for timer in timers] == [True, True]


async def test_a_rejection_is_raised(node: Node, client: PerChannelBookieClientV3) -> None:
    await client.add(1, 0, entry(1, 0), KEY)
    with pytest.raises(BKUnauthorizedAccessException):
        await client.add(1, 1, entry(1, 1), bytes(20))
    node.store.fence(1, KEY)
    with pytest.raises(BKLedgerFencedException, match="b0"):
        await client.add(1, 1, entry(1, 1), KEY)
