"""Readers that follow a writer: long polls, and the explicit LAC."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.context import ClientConfig
from labkit.system.client.placement.placement import in_name_order
from labkit.system.model.errors import PROVES_ABSENCE, BKException
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.until import DEADLINE_S, until_true

pytestmark = pytest.mark.asyncio(loop_scope="session")

LONG_S = 3600.0
"""As a time to wait: the test fails before."""


@pytest_asyncio.fixture(loop_scope="session")
async def telling(cluster: LocalCluster) -> AsyncIterator[BookKeeper]:
    """A client whose writers tell an explicit LAC."""
    config = ClientConfig(explicit_lac_interval_ms=5)
    client = await cluster.connect("teller", placement=in_name_order, config=config)
    yield client
    client.close()


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


async def test_a_wait_ends_without_an_entry_when_its_time_is_up(client: BookKeeper) -> None:
    writer = await client.create_ledger(3, 3, 2)
    await writer.add(b"not known to be confirmed")
    reader = await client.open_ledger_no_recovery(writer.ledger_id)
    assert await reader.read_last_add_confirmed_and_entry(0, 0.05) == (-1, None)


async def test_a_wait_ends_when_the_ledger_is_closed(client: BookKeeper) -> None:
    writer = await client.create_ledger(3, 3, 2)
    await writer.add(b"last")
    reader = await client.open_ledger_no_recovery(writer.ledger_id)
    last = asyncio.ensure_future(reader.read_last_add_confirmed_and_entry(0, LONG_S))
    after = await client.open_ledger_no_recovery(writer.ledger_id)
    nothing = asyncio.ensure_future(after.read_last_add_confirmed_and_entry(1, LONG_S))
    await writer.close()
    async with asyncio.timeout(DEADLINE_S):
        confirmed, entry = await last
        assert confirmed == 0
        assert entry is not None
        assert entry.payload == b"last"
        assert await nothing == (0, None)


async def test_a_wait_goes_on_where_the_ledger_goes_on_after_an_ensemble_change(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    writer = await client.create_ledger(2, 2, 2)
    await writer.add(b"first")
    reader = await client.open_ledger_no_recovery(writer.ledger_id)
    waiting = asyncio.ensure_future(reader.read_last_add_confirmed_and_entry(2, LONG_S))
    await cluster.kill("bookie-1")
    for n in range(4):
        await writer.add(b"entry %d" % n)
    assert len(writer.metadata.segments) == 2
    async with asyncio.timeout(DEADLINE_S):
        _, entry = await waiting
    assert entry is not None
    assert entry.payload == b"entry 1"


async def test_a_bookie_that_is_down_does_not_end_a_wait(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    writer = await client.create_ledger(3, 3, 2)
    await writer.add(b"first")
    reader = await client.open_ledger_no_recovery(writer.ledger_id)
    await cluster.pause("bookie-3")
    waiting = asyncio.ensure_future(reader.read_last_add_confirmed_and_entry(0, LONG_S))
    await writer.add(b"second")
    async with asyncio.timeout(DEADLINE_S):
        lac, entry = await waiting
    assert lac == 0
    assert entry is not None


async def test_a_wait_that_no_bookie_can_end_is_an_error(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    writer = await client.create_ledger(2, 2, 2)
    await writer.add(b"first")
    reader = await client.open_ledger_no_recovery(writer.ledger_id)
    for name in ("bookie-1", "bookie-2"):
        await cluster.kill(name)
    with pytest.raises(BKException) as raised:
        await reader.read_last_add_confirmed_and_entry(0, LONG_S)
    assert not isinstance(raised.value, PROVES_ABSENCE)


async def test_an_explicit_lac_announces_the_newest_entry(
    client: BookKeeper, telling: BookKeeper
) -> None:
    writer = await telling.create_ledger(3, 2, 2)
    reader = await client.open_ledger_no_recovery(writer.ledger_id)
    last = asyncio.ensure_future(reader.read_last_add_confirmed_and_entry(2, LONG_S))
    for payload in (b"0", b"1", b"2"):
        await writer.add(payload)
    async with asyncio.timeout(DEADLINE_S):
        lac, entry = await last
    assert lac == 2
    assert entry is not None
    assert entry.payload == b"2"


async def test_an_explicit_lac_is_read_from_enough_bookies(
    client: BookKeeper, telling: BookKeeper
) -> None:
    writer = await telling.create_ledger(4, 3, 2)
    reader = await client.open_ledger_no_recovery(writer.ledger_id)
    assert await reader.read_explicit_last_add_confirmed() == -1
    for payload in (b"0", b"1"):
        await writer.add(payload)

    async def is_told() -> bool:
        return await reader.read_explicit_last_add_confirmed() == 1

    await until_true(is_told)
    assert (await reader.read_entry(1)).payload == b"1"


async def test_too_few_bookies_tell_no_lac(cluster: LocalCluster, client: BookKeeper) -> None:
    writer = await client.create_ledger(3, 3, 2)
    await writer.add(b"entry")
    reader = await client.open_ledger_no_recovery(writer.ledger_id)
    for name in ("bookie-1", "bookie-2"):
        await cluster.kill(name)
    with pytest.raises(BKException, match="too few bookies") as raised:
        await reader.read_explicit_last_add_confirmed()
    assert not isinstance(raised.value, PROVES_ABSENCE)


async def test_a_writer_tells_each_time_that_more_is_confirmed(telling: BookKeeper) -> None:
    writer = await telling.create_ledger(3, 3, 3)
    bookie = telling.context.bookies.get_v3("bookie-1")

    async def is_told() -> bool:
        known = await bookie.read_lac(writer.ledger_id)
        told = int.from_bytes(known.explicit_lac[8:16], "big", signed=True)
        return bool(known.explicit_lac) and told == writer.last_add_confirmed

    for _ in range(5):
        await writer.add(b"entry")
        await until_true(is_told)
