"""Apache BookKeeper's client uses what only its default protocol, version 3, has."""

import asyncio
import re

import pytest
import pytest_asyncio

from labkit.system.client.bookkeeper import BookKeeper
from tests.interop.apache import JavaClient
from tests.interop.conftest import BOOKIES, Cluster
from tests.interop.payloads import LAST_ENTRY_ID, LENGTH, PAYLOADS, write
from tests.until import until_true

pytestmark = [
    pytest.mark.interop,
    pytest.mark.usefixtures("labkit"),
    pytest.mark.asyncio(loop_scope="session"),
]

LONG_POLL_MS = 4000
"""Shorter than the request timeout of Apache's client."""


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def java(cluster: Cluster) -> JavaClient:
    return await cluster.java_client("v3")


async def test_java_reads_an_open_ledger_up_to_its_last_add_confirmed(java: JavaClient) -> None:
    ledger_id = await java.create(3, 2, 2, "CRC32C")
    for payload in PAYLOADS[:4]:
        await java.add(ledger_id, [payload])
    assert (await java.open(ledger_id))[0] == 2
    assert await java.read_last_confirmed(ledger_id) == 2
    assert await java.read(ledger_id, 0, 2) == PAYLOADS[:3]


async def test_java_tails_a_ledger_by_long_polls(cluster: Cluster, java: JavaClient) -> None:
    ledger_id = await java.create(3, 2, 2, "CRC32C")
    reader = await cluster.java_client("v3")
    await reader.open(ledger_id)
    await java.add(ledger_id, PAYLOADS[:1])
    for entry_id in range(5):
        poll = asyncio.create_task(reader.await_entry(ledger_id, entry_id, LONG_POLL_MS))
        # A reader learns that an entry is confirmed when the next entry is added.
        await java.add(ledger_id, [PAYLOADS[entry_id + 1]])
        assert await poll == (entry_id, PAYLOADS[entry_id])


async def test_a_long_poll_ends_without_an_entry_when_its_time_is_up(java: JavaClient) -> None:
    ledger_id = await java.create(3, 2, 2, "CRC32C")
    for payload in PAYLOADS[:2]:
        await java.add(ledger_id, [payload])
    await java.open(ledger_id)
    assert await java.await_entry(ledger_id, 1, 200) == (0, None)


async def test_java_forces_what_it_wrote_with_deferred_sync(
    cluster: Cluster, java: JavaClient
) -> None:
    ledger_id = await java.create_deferred(3, 2, 2)
    assert await java.add(ledger_id, PAYLOADS) == LAST_ENTRY_ID
    assert await java.last_add_confirmed(ledger_id) == -1
    await java.force(ledger_id)
    assert await java.last_add_confirmed(ledger_id) == LAST_ENTRY_ID
    await java.close(ledger_id)
    assert await java.open(ledger_id) == (LAST_ENTRY_ID, LENGTH)
    assert await java.read(ledger_id, 0, LAST_ENTRY_ID) == PAYLOADS


@pytest.mark.parametrize("protocol", ["v2", "v3"])
async def test_javas_explicit_lac_announces_the_last_entry(cluster: Cluster, protocol: str) -> None:
    """A client that uses protocol version 2 opens a second connection for explicit LACs."""
    writer = await cluster.java_client(protocol, explicit_lac_interval_ms=20)
    reader = await cluster.java_client(protocol)
    ledger_id = await writer.create(3, 2, 2, "CRC32C")
    assert await writer.add(ledger_id, PAYLOADS) == LAST_ENTRY_ID
    await reader.open(ledger_id)

    async def knows_the_last() -> bool:
        return await reader.read_explicit_last_confirmed(ledger_id) == LAST_ENTRY_ID

    await until_true(knows_the_last)
    assert await reader.read(ledger_id, 0, LAST_ENTRY_ID) == PAYLOADS


async def test_java_learns_which_entries_a_bookie_has(java: JavaClient, labkit: BookKeeper) -> None:
    writer = await write(labkit, 3, 2, 2)
    for place, bookie in enumerate(BOOKIES):
        stored = await java.list_of_entries(writer.ledger_id, bookie, LAST_ENTRY_ID)
        mine = {place, (place - 1) % 3}
        assert stored == [n for n in range(len(PAYLOADS)) if n % 3 in mine]


async def test_java_learns_how_much_space_a_bookie_has(java: JavaClient) -> None:
    for bookie in BOOKIES:
        total, free = await java.disk_space(bookie)
        assert 0 < free <= total


async def test_shell_bookieinfo_shows_every_bookie(cluster: Cluster) -> None:
    output = await cluster.bookie("shell").shell(cluster.apache, "bookieinfo")
    shown = re.findall(r"BookieID:(\S+?),.*Free: (\d+)\(.*Total: (\d+)\(", output)
    assert sorted(bookie for bookie, _, _ in shown) == list(BOOKIES)
    assert all(0 < int(free) <= int(total) for _, free, total in shown)
