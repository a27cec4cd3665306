"""Ensemble change, recovery and reads on real bookies that are killed and brought back."""

import asyncio
import shutil
from collections.abc import Callable

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.metadata.cookie import delete_cookie
from labkit.system.metadata.registration import BOOKIE_RPC, find_endpoint
from labkit.system.model.errors import (
    BKLedgerFencedException,
)
from labkit.system.model.ledger import LedgerState
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.system.bookie.raw import FENCED, RawClient, add, added
from tests.until import until

pytestmark = pytest.mark.asyncio(loop_scope="session")


async def test_kill_under_load_changes_the_ensemble_and_loses_no_acked_entry(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    writer = await client.create_ledger(3, 3, 2)
    payloads = [b"entry %d " % number * 20 for number in range(4000)]
    adds: list[asyncio.Future[int]] = []
    killing = asyncio.create_task(killed_at(cluster, "bookie-2", lambda: len(adds) > 1500))
    for payload in payloads:
        await writer.drain()
        adds.append(writer.add(payload))
        if len(adds) % 100 == 0:
            await adds[-100]
    assert await asyncio.gather(*adds) == list(range(4000))
    await killing
    await writer.close()
    first, second = writer.metadata.segments
    assert first.ensemble == ("bookie-1", "bookie-2", "bookie-3")
    assert second.ensemble == ("bookie-1", "bookie-4", "bookie-3")
    reader = await client.open_ledger_no_recovery(writer.ledger_id)
    assert [entry.payload async for entry in reader.read()] == payloads


async def killed_at(cluster: LocalCluster, bookie: str, moment: Callable[[], bool]) -> None:
    await until(moment)
    await cluster.kill(bookie)


async def test_writer_is_stopped_by_the_client_that_opens_its_ledger(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    writer = await client.create_ledger(3, 3, 2, password=b"pw")
    for number in range(10):
        await writer.add(b"%d" % number)
    other = await cluster.connect("other")
    reader = await other.open_ledger(writer.ledger_id, password=b"pw")
    assert reader.metadata.state is LedgerState.CLOSED
    assert [entry.payload async for entry in reader.read()] == [b"%d" % n for n in range(10)]
    with pytest.raises(BKLedgerFencedException):
        await writer.add(b"late")
    await writer.close()
    assert writer.metadata == reader.metadata


async def test_writer_confirms_nothing_on_bookies_that_were_emptied_after_a_recovery(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    writer = await client.create_ledger(2, 2, 2)
    await writer.add(b"entry")
    other = await cluster.connect("other")
    assert (await other.open_ledger(writer.ledger_id)).last_add_confirmed == 0
    for bookie in writer.ensemble:
        await cluster.kill(bookie)
        # As `bookkeeper shell bookieformat -deleteCookie` does.
        for kind in ("journal", "ledgers"):
            shutil.rmtree(cluster.folder_of(bookie) / kind)
        await delete_cookie(client.store, bookie)
        await cluster.restart(bookie)
    with pytest.raises(BKLedgerFencedException):
        await writer.add(b"late")
    assert writer.last_add_confirmed == 0
    # They have forgotten the fence, and only the writer's own check has kept it from going on.
    endpoint = await find_endpoint(client.store, writer.ensemble[0], BOOKIE_RPC)
    async with RawClient(endpoint.port) as raw:
        assert await raw.ask(add(writer.ledger_id, 2)) == added(writer.ledger_id, 2)


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


async def test_ledger_of_a_dead_writer_is_recovered_with_a_bookie_down(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    writer = await client.create_ledger(3, 3, 2)
    for number in range(50):
        await writer.add(b"%d" % number)
    await cluster.kill("bookie-1")
    other = await cluster.connect("other")
    reader = await other.open_ledger(writer.ledger_id)
    assert [entry.payload async for entry in reader.read()] == [b"%d" % n for n in range(50)]


async def test_tailing_reader_follows_the_writer_to_its_close(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    writer = await client.create_ledger(3, 3, 2)
    other = await cluster.connect("tail")
    reader = await other.open_ledger_no_recovery(writer.ledger_id)

    async def write() -> None:
        for number in range(30):
            await writer.add(b"%d" % number)
        await writer.close()

    async def tail() -> list[bytes]:
        found: list[bytes] = []
        while True:
            _, entry = await reader.read_last_add_confirmed_and_entry(len(found), 30)
            if entry is None:
                return found
            found.append(entry.payload)

    _, found = await asyncio.gather(write(), tail())
    assert found == [b"%d" % number for number in range(30)]
    assert reader.is_closed


async def test_batch_read_gives_what_fits_into_one_answer(client: BookKeeper) -> None:
    writer = await client.create_ledger(3, 3, 2)
    payloads = [b"%04d" % number * 25 for number in range(100)]
    await asyncio.gather(*map(writer.add, payloads))
    await writer.close()
    reader = await client.open_ledger_no_recovery(writer.ledger_id)
    assert [e.payload for e in await reader.read_batch(0, 10, 1 << 20)] == payloads[:10]
    assert [e.payload for e in await reader.read_batch(95, 10, 1 << 20)] == payloads[95:]
    assert [e.payload for e in await reader.read_batch(7, 0, 1 << 20)] == payloads[7:]
    assert [e.payload for e in await reader.read_batch(7, 50, 1)] == payloads[7:8]
    # 36 bytes of answer, and for each entry 4 of length, 36 of header and digest, 100 of payload.
    assert [e.payload for e in await reader.read_batch(7, 50, 36 + 3 * 140)] == payloads[7:10]
