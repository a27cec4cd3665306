"""Tests for writers and readers on real bookies that are killed, paused and restarted."""

import asyncio
import shutil

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.writer import MAX_PAYLOAD_SIZE
from labkit.system.metadata.cookie import delete_cookie
from labkit.system.metadata.registration import BOOKIE_RPC, find_endpoint
from labkit.system.model.entry import DigestType
from labkit.system.model.errors import (
    BKBookieHandleNotAvailableException,
    BKLedgerFencedException,
)
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.bookie.raw import FENCED, RawClient, add, added
from tests.until import DEADLINE_S, until

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.java]

LONG_S = 3600.0
"""A wait that outlasts the test's own timeout."""


async def test_largest_payload_comes_back(client: BookKeeper) -> None:
    writer = await client.create_ledger(2, 2, 2, digest_type=DigestType.HMAC)
    assert await writer.add(bytes(MAX_PAYLOAD_SIZE)) == 0
    await writer.close()
    reader = await client.open_ledger_no_recovery(writer.ledger_id)
    assert len((await reader.read_entry(0)).payload) == MAX_PAYLOAD_SIZE


async def test_client_finds_a_restarted_bookie_at_its_new_port(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    writer = await client.create_ledger(1, 1, 1)
    await writer.add(b"entry")
    await writer.close()
    reader = await client.open_ledger_no_recovery(writer.ledger_id)
    await cluster.restart("b0")
    async with asyncio.timeout(30):
        while True:
            try:
                assert (await reader.read_entry(0)).payload == b"entry"
                break
            except BKBookieHandleNotAvailableException:
                # The client waits briefly before it reconnects.
                await asyncio.sleep(0.01)


async def test_bookie_with_a_damaged_registration_is_replaced(client: BookKeeper) -> None:
    path = "/ledgers/available/a0"
    await client.store.create(path, b"", ephemeral=True)
    try:
        writer = await client.create_ledger(1, 1, 1)
        assert writer.metadata.segments[0].ensemble == ("a0",)
        assert await writer.add(b"entry") == 0
        assert writer.metadata.segments[0].ensemble == ("b0",)
        await writer.close()
    finally:
        await client.store.delete(path)


@pytest.mark.core
@pytest.mark.promise("Killing a bookie under load loses nothing")
async def test_kill_under_load_changes_the_ensemble_and_loses_no_acked_entry(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    writer = await client.create_ledger(3, 3, 2)
    payloads = [b"entry %d " % number * 20 for number in range(4000)]
    adds: list[asyncio.Future[int]] = []

    async def kill() -> None:
        await until(lambda: len(adds) > 1500)
        await cluster.kill("b1")

    killing = asyncio.create_task(kill())
    for payload in payloads:
        await writer.drain()
        adds.append(writer.add(payload))
        if len(adds) % 100 == 0:
            await adds[-100]
    assert await asyncio.gather(*adds) == list(range(4000))
    await killing
    await writer.close()
    first, second = writer.metadata.segments
    assert first.ensemble == ("b0", "b1", "b2")
    assert second.ensemble == ("b0", "b3", "b2")
    reader = await client.open_ledger_no_recovery(writer.ledger_id)
    assert [entry.payload async for entry in reader.read()] == payloads


async def test_writer_confirms_nothing_on_bookies_that_were_emptied_after_a_recovery(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    writer = await client.create_ledger(2, 2, 2)
    await writer.add(b"entry")
    other = await cluster.connect("other")
    assert (await other.open_ledger(writer.ledger_id)).last_add_confirmed == 0
    for bookie in writer.ensemble:
        await cluster.kill(bookie)
        # This is what `bookkeeper shell bookieformat -deleteCookie` does.
        for kind in ("journal", "ledgers"):
            shutil.rmtree(cluster.folder_of(bookie) / kind)
        await delete_cookie(client.store, bookie)
        await cluster.restart(bookie)
    with pytest.raises(BKLedgerFencedException):
        await writer.add(b"late")
    assert writer.last_add_confirmed == 0
    # The bookies have forgotten the fence, so only the writer's own check has stopped it.
    endpoint = await find_endpoint(client.store, writer.ensemble[0], BOOKIE_RPC)
    async with RawClient(endpoint.port) as raw:
        assert await raw.ask(add(writer.ledger_id, 2)) == added(writer.ledger_id, 2)


@pytest.mark.core
@pytest.mark.promise(
    "A fence survives every restart, even for a ledger that the bookie never stored"
)
async def test_fence_survives_restart(cluster: LocalCluster, client: BookKeeper) -> None:
    writer = await client.create_ledger(3, 3, 3)
    await writer.add(b"entry")
    other = await cluster.connect("other")
    await other.open_ledger(writer.ledger_id)
    for bookie in writer.metadata.segments[0].ensemble:
        await cluster.restart(bookie)
        endpoint = await find_endpoint(client.store, bookie, BOOKIE_RPC)
        async with RawClient(endpoint.port) as raw:
            said = await raw.ask(add(writer.ledger_id, 1))
            assert said == added(writer.ledger_id, 1, FENCED)


@pytest.mark.promise(
    "Several entries arrive in one response; a bookie without batch reads is read entry by entry"
)
async def test_batch_read_gives_what_fits_into_one_response(client: BookKeeper) -> None:
    writer = await client.create_ledger(3, 3, 2)
    payloads = [b"%04d" % number * 25 for number in range(100)]
    await asyncio.gather(*map(writer.add, payloads))
    await writer.close()
    reader = await client.open_ledger_no_recovery(writer.ledger_id)
    assert [e.payload for e in await reader.read_batch(0, 10, 1 << 20)] == payloads[:10]
    assert [e.payload for e in await reader.read_batch(95, 10, 1 << 20)] == payloads[95:]
    assert [e.payload for e in await reader.read_batch(7, 0, 1 << 20)] == payloads[7:]
    assert [e.payload for e in await reader.read_batch(7, 50, 1)] == payloads[7:8]
    # The response has 36 bytes, plus 4 for the length, 36 for header and digest, and 100 for the
    # payload of each entry.
    assert [e.payload for e in await reader.read_batch(7, 50, 36 + 3 * 140)] == payloads[7:10]


@pytest.mark.promise(
    "Deferred sync: an entry is confirmed once every bookie of the ensemble was forced to sync it"
)
async def test_entries_are_acknowledged_at_once_and_confirmed_by_force(client: BookKeeper) -> None:
    writer = await client.create_ledger(3, 3, 2, deferred_sync=True)
    adds = [writer.add(b"entry %d" % n) for n in range(100)]
    assert await asyncio.gather(*adds) == list(range(100))
    assert writer.last_add_confirmed == -1
    await writer.force()
    assert writer.last_add_confirmed == 99
    await writer.close()
    reader = await client.open_ledger_no_recovery(writer.ledger_id)
    assert [e.payload async for e in reader.read()] == [b"entry %d" % n for n in range(100)]


@pytest.mark.promise(
    "Readers follow a writer by long polling, across ensemble changes and until the close"
)
@pytest.mark.parametrize(("ensemble", "write", "ack"), [(3, 3, 2), (3, 2, 2), (4, 1, 1)])
async def test_a_reader_follows_a_writer_entry_by_entry(
    client: BookKeeper, ensemble: int, write: int, ack: int
) -> None:
    writer = await client.create_ledger(ensemble, write, ack)
    reader = await client.open_ledger_no_recovery(writer.ledger_id)

    async def follow() -> list[bytes]:
        payloads = []
        for entry_id in range(50):
            lac, entry = await reader.read_last_add_confirmed_and_entry(entry_id, LONG_S)
            assert entry is not None
            assert lac >= entry.entry_id == entry_id
            payloads.append(entry.payload)
        return payloads

    following = asyncio.ensure_future(follow())
    for n in range(51):
        await writer.add(b"entry %d" % n)
    async with asyncio.timeout(DEADLINE_S):
        assert await following == [b"entry %d" % n for n in range(50)]


async def test_a_wait_goes_on_where_the_ledger_goes_on_after_an_ensemble_change(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    writer = await client.create_ledger(2, 2, 2)
    await writer.add(b"first")
    reader = await client.open_ledger_no_recovery(writer.ledger_id)
    waiting = asyncio.ensure_future(reader.read_last_add_confirmed_and_entry(2, LONG_S))
    await cluster.kill("b0")
    for n in range(4):
        await writer.add(b"entry %d" % n)
    assert len(writer.metadata.segments) == 2
    async with asyncio.timeout(DEADLINE_S):
        _, entry = await waiting
    assert entry is not None
    assert entry.payload == b"entry 1"
