"""Ledgers whose entries are durable, and confirmed, only after a force."""

import asyncio

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.writer import LedgerWriter
from labkit.system.model.errors import (
    BKBookieHandleNotAvailableException,
    BKException,
    BKLedgerClosedException,
    BKLedgerFencedException,
    BKWriteException,
)
from labkit.worlds.live.processes.cluster import LocalCluster
from tests.until import DEADLINE_S

pytestmark = pytest.mark.asyncio(loop_scope="session")


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


async def test_a_ledger_closes_at_what_was_forced(client: BookKeeper) -> None:
    writer = await client.create_ledger(3, 2, 2, deferred_sync=True)
    await writer.add(b"kept")
    await writer.force()
    await writer.add(b"never forced")
    await writer.close()
    assert (writer.metadata.last_entry_id, writer.metadata.length) == (0, 4)
    with pytest.raises(BKLedgerClosedException):
        await writer.force()


async def test_force_with_nothing_to_force_returns(client: BookKeeper) -> None:
    writer = await client.create_ledger(3, 3, 2, deferred_sync=True)
    await writer.force()
    assert writer.last_add_confirmed == -1
    plain = await client.create_ledger(3, 3, 2)
    await plain.add(b"durable as it is")
    await plain.force()
    assert plain.last_add_confirmed == 0


async def test_forces_at_once_confirm_what_each_came_after(client: BookKeeper) -> None:
    writer = await client.create_ledger(3, 3, 3, deferred_sync=True)
    forces = []
    for n in range(20):
        await writer.add(b"entry")
        forces.append(asyncio.ensure_future(writer.force()))
        await asyncio.sleep(0)
        assert writer.last_add_confirmed <= n
    await asyncio.gather(*forces)
    assert writer.last_add_confirmed == 19


async def test_a_force_that_a_bookie_cannot_do_confirms_nothing(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    writer = await client.create_ledger(3, 3, 2, deferred_sync=True)
    await writer.add(b"entry")
    await cluster.kill("bookie-2")
    with pytest.raises(BKBookieHandleNotAvailableException):
        await writer.force()
    assert writer.last_add_confirmed == -1


async def _first_failure(writer: LedgerWriter) -> BKException:
    """Add until that fails."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                await writer.add(b"entry")
            except BKException as error:
                return error


async def test_a_bookie_that_fails_ends_the_writer(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    writer = await client.create_ledger(3, 3, 2, deferred_sync=True)
    await writer.add(b"entry")
    await cluster.kill("bookie-1")
    error = await _first_failure(writer)
    assert isinstance(error, BKWriteException)
    assert "bookie-1" in str(error)
    await writer.close()
    assert writer.metadata.last_entry_id == -1


async def test_a_bookie_that_restarts_before_the_force_confirms_nothing(
    cluster: LocalCluster, client: BookKeeper
) -> None:
    """It would answer the force, though it may have lost what it had acknowledged."""
    writer = await client.create_ledger(3, 3, 3, deferred_sync=True)
    await writer.add(b"entry")
    await cluster.restart("bookie-3")
    error: BKException = BKBookieHandleNotAvailableException()
    async with asyncio.timeout(DEADLINE_S):
        while isinstance(error, BKBookieHandleNotAvailableException):
            with pytest.raises(BKException) as raised:
                await writer.force()
            error = raised.value
            await asyncio.sleep(0.01)
    assert isinstance(error, BKWriteException)
    assert "bookie-3" in str(error)
    assert writer.last_add_confirmed == -1


async def test_a_fenced_writer_stops(client: BookKeeper) -> None:
    writer = await client.create_ledger(3, 3, 2, deferred_sync=True)
    await writer.add(b"entry")
    reader = await client.open_ledger(writer.ledger_id)
    assert reader.last_add_confirmed == 0
    with pytest.raises(BKLedgerFencedException):
        await writer.add(b"too late")
    with pytest.raises(BKLedgerFencedException):
        await writer.force()
    assert writer.is_ended
