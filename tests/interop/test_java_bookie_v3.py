"""labkit's client uses protocol version 3 with Apache's bookies."""

import asyncio

import pytest
import pytest_asyncio

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientConfig
from labkit.system.model.errors import BKNoSuchLedgerExistsException
from tests.interop.conftest import Cluster
from tests.interop.payloads import LAST_ENTRY_ID, LENGTH, PASSWORD, PAYLOADS, read
from tests.until import DEADLINE_S, until_true

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

BOOKIES = ("apache-1", "apache-2")
LONG_S = 60.0


@pytest_asyncio.fixture(scope="module", loop_scope="session", autouse=True)
async def bookies(cluster: Cluster) -> None:
    for name in BOOKIES:
        await cluster.java_bookie(cluster.bookie(name))


@pytest_asyncio.fixture(loop_scope="session")
async def client(cluster: Cluster) -> BookKeeper:
    """Return a client whose writers send explicit LACs."""
    return cluster.labkit_client(*BOOKIES, config=ClientConfig(explicit_lac_interval_ms=20))


async def test_deferred_sync_and_force(client: BookKeeper) -> None:
    writer = await client.create_ledger(2, 2, 2, password=PASSWORD, deferred_sync=True)
    assert await asyncio.gather(*map(writer.add, PAYLOADS)) == list(range(len(PAYLOADS)))
    assert writer.last_add_confirmed == -1
    await writer.force()
    assert writer.last_add_confirmed == LAST_ENTRY_ID
    await writer.close()
    assert writer.metadata.length == LENGTH
    assert await read(client, writer.ledger_id) == PAYLOADS


async def test_a_reader_follows_a_writer(client: BookKeeper) -> None:
    writer = await client.create_ledger(2, 1, 1, password=PASSWORD)
    await writer.add(PAYLOADS[0])
    reader = await client.open_ledger_no_recovery(writer.ledger_id, password=PASSWORD)
    async with asyncio.timeout(DEADLINE_S):
        for entry_id in range(10):
            wait = reader.read_last_add_confirmed_and_entry(entry_id, LONG_S)
            waiting = asyncio.ensure_future(wait)
            await writer.add(PAYLOADS[entry_id + 1])
            lac, entry = await waiting
            assert lac >= entry_id
            assert entry is not None
            assert entry.payload == PAYLOADS[entry_id]


async def test_the_explicit_lac_announces_the_newest_entry(client: BookKeeper) -> None:
    writer = await client.create_ledger(2, 2, 2, password=PASSWORD)
    for payload in PAYLOADS[:3]:
        await writer.add(payload)
    reader = await client.open_ledger_no_recovery(writer.ledger_id, password=PASSWORD)

    async def knows_the_newest() -> bool:
        return await reader.read_explicit_last_add_confirmed() == 2

    await until_true(knows_the_newest)
    assert (await reader.read_entry(2)).payload == PAYLOADS[2]


async def test_a_bookie_tells_its_entries_and_its_space(client: BookKeeper) -> None:
    writer = await client.create_ledger(2, 1, 1, password=PASSWORD)
    await asyncio.gather(*map(writer.add, PAYLOADS[:21]))
    for place, name in enumerate(BOOKIES):
        bookie = client.context.bookie_client.get_v3(name)
        entries = await bookie.list_of_entries(writer.ledger_id)
        assert [n for n in range(30) if n in entries] == list(range(place, 21, 2))
        space = await bookie.disk_space()
        assert 0 < space.free <= space.total
        with pytest.raises(BKNoSuchLedgerExistsException):
            await bookie.list_of_entries(10**9)
