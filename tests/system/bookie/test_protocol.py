"""Tests for the exact bytes that a bookie process sends on its socket."""

import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count

import pytest
import pytest_asyncio

from labkit.system.metadata.registration import BOOKIE_RPC, find_endpoint
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.bookie.raw import (
    BAD_VERSION,
    FENCE,
    FENCED,
    KEY,
    UNAUTHORIZED,
    RawClient,
    add,
    added,
    answer,
    entry,
    frame,
    read,
)

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.java]

MAX_FRAME_SIZE = 5 * 1024 * 1024
_LEDGER_IDS = count(100)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def one_bookie() -> AsyncIterator[LocalCluster]:
    async with LocalCluster(1, traced=False) as cluster:
        yield cluster


@asynccontextmanager
async def connected(cluster: LocalCluster) -> AsyncIterator[RawClient]:
    """Connect to the bookie on its current port, which changes with each restart."""
    client = await cluster.connect()
    endpoint = await find_endpoint(client.store, "b0", BOOKIE_RPC)
    async with RawClient(endpoint.port) as bookie:
        yield bookie


@pytest_asyncio.fixture(loop_scope="session")
async def bookie(one_bookie: LocalCluster) -> AsyncIterator[RawClient]:
    async with connected(one_bookie) as bookie:
        yield bookie


@pytest.fixture
def ledger() -> int:
    """Return the id of a ledger that no other test uses."""
    return next(_LEDGER_IDS)


async def test_worked_example_of_an_add_and_a_read_is_answered_byte_for_byte(
    bookie: RawClient,
) -> None:
    stored = "00000000000000070000000000000000ffffffffffffffff00000000000000059e3e717b68656c6c6f"
    request = f"0000004102010000850bf1071c5e3d8c24235676f8816ae0cbe2f14f{stored}"
    done = "00000018020100000000000000000000000000070000000000000000"
    assert (await bookie.ask(bytes.fromhex(request))).hex() == done
    request = "000000140202000000000000000000070000000000000000"
    found = f"0000004102020000000000000000000000000007{'00' * 8}{stored}"
    assert (await bookie.ask(bytes.fromhex(request))).hex() == found
    missing = "00000018020200000000000200000000000000070000000000000001"
    request = "000000140202000000000000000000070000000000000001"
    assert (await bookie.ask(bytes.fromhex(request))).hex() == missing


async def test_read_of_entry_minus_one_gives_the_last_entry_and_echoes_minus_one(
    bookie: RawClient, ledger: int
) -> None:
    for entry_id in (0, 7, 2):
        await bookie.ask(add(ledger, entry_id))
    assert await bookie.ask(read(ledger, -1)) == answer(2, 0, ledger, -1, entry(ledger, 7))


async def test_fence_key_and_entries_survive_a_kill(
    one_bookie: LocalCluster, bookie: RawClient, ledger: int
) -> None:
    await bookie.ask(add(ledger, 0))
    await bookie.ask(read(ledger, 0, FENCE, KEY))
    await one_bookie.restart("b0")
    async with connected(one_bookie) as bookie:
        assert await bookie.ask(add(ledger, 1)) == added(ledger, 1, FENCED)
        assert await bookie.ask(add(ledger, 1, key=bytes(20))) == added(ledger, 1, UNAUTHORIZED)
        assert await bookie.ask(read(ledger, 0)) == answer(2, 0, ledger, 0, entry(ledger, 0))


@pytest.mark.promise("A client that tries to authenticate is let in, in both protocol versions")
async def test_client_that_wants_to_authenticate_learns_that_there_is_no_need(
    bookie: RawClient, ledger: int
) -> None:
    """BookKeeper's client then continues as if it had been authenticated."""
    for plugin in (b"AuthDisabledPlugin", b"another"):
        message = b"\x0a" + bytes([len(plugin)]) + plugin + b"\x12\x03key"
        said = await bookie.ask(frame(bytes.fromhex("02030000") + message))
        assert said.hex() == "0000001a020300000a124175746844697361626c6564506c7567696e1200"
    assert await bookie.ask(add(ledger, 0)) == added(ledger, 0)


@pytest.mark.parametrize("version", [3, 127, 128, 255])
async def test_version_above_2_is_refused(bookie: RawClient, version: int) -> None:
    body = struct.pack(">BBH", version, 1, 0) + bytes(60)
    said = await bookie.ask(frame(body))
    assert said == frame(struct.pack(">BBHiqq", version, 1, 0, BAD_VERSION, -1, -1))


@pytest.mark.parametrize("size", [MAX_FRAME_SIZE - 3, 2**31, 2**32 - 1])
async def test_frame_above_the_limit_ends_its_connection_and_no_other(
    one_bookie: LocalCluster, bookie: RawClient, ledger: int, size: int
) -> None:
    async with connected(one_bookie) as other:
        await bookie.send(struct.pack(">I", size) + b"x")
        assert await bookie.is_closed()
        assert await other.ask(add(ledger, 0)) == added(ledger, 0)
