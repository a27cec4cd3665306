"""Apache's bookie beside labkit's in one ensemble, and each on the directories of the other."""

from collections.abc import Awaitable, Callable

import pytest

from labkit.client.bookkeeper import BookKeeper
from labkit.client.placement import Placement
from labkit.client.writer import LedgerWriter
from labkit.model.errors import BKLedgerFencedException
from tests.interop.apache import JavaClient
from tests.interop.bookies import RunningBookie
from tests.interop.conftest import Cluster
from tests.interop.payloads import LAST_ENTRY_ID, PASSWORD, PAYLOADS

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="module")]


def only(*bookies: str) -> Placement:
    """The placement that takes these bookies and no others."""
    return lambda writable, count: bookies


async def write(client: BookKeeper, payloads: list[bytes]) -> LedgerWriter:
    """A ledger on one bookie, left open."""
    writer = await client.create_ledger(1, 1, 1, password=PASSWORD)
    for payload in payloads:
        writer.add(payload)
    await writer.confirmed()
    return writer


async def write_and_fence(
    client: BookKeeper, java: JavaClient, payloads: list[bytes]
) -> LedgerWriter:
    """A ledger that a reader recovers; its writer does not know yet."""
    writer = await write(client, payloads)
    last, _ = await java.open(writer.ledger_id, recovery=True)
    assert last == len(payloads) - 1
    return writer


async def read(client: BookKeeper, ledger_id: int) -> list[bytes]:
    """The payloads of a closed ledger."""
    reader = await client.open_ledger_no_recovery(ledger_id, password=PASSWORD)
    return [entry.payload async for entry in reader.read()]


async def test_one_ensemble_has_bookies_of_both_kinds(cluster: Cluster) -> None:
    labkit_names = ["labkit-1", "labkit-2"]
    labkit_bookies = [await cluster.labkit_bookie(cluster.bookie(name)) for name in labkit_names]
    apache_bookie = await cluster.java_bookie(cluster.bookie("apache-1"))
    client = cluster.labkit_client(only("labkit-1", "apache-1", "labkit-2"))
    writer = await client.create_ledger(3, 3, 2, password=PASSWORD)
    for payload in PAYLOADS:
        writer.add(payload)
    await writer.confirmed()
    await writer.close()
    assert await read(client, writer.ledger_id) == PAYLOADS

    # Apache's bookie alone has all of it, too.
    for bookie in labkit_bookies:
        await bookie.stop()
    assert await read(client, writer.ledger_id) == PAYLOADS
    await apache_bookie.stop()


@pytest.mark.parametrize("end", [RunningBookie.stop, RunningBookie.kill])
async def test_each_serves_every_acknowledged_entry_that_the_other_left(
    cluster: Cluster, end: Callable[[RunningBookie], Awaitable[None]]
) -> None:
    folder = cluster.bookie(f"bookie-{end.__name__}")
    client = cluster.labkit_client(only(folder.bookie_id))
    java = await cluster.java_client()

    process = await cluster.labkit_bookie(folder)
    of_labkit = await write(client, PAYLOADS)
    fenced = await write_and_fence(client, java, PAYLOADS)
    fenced_empty = await write_and_fence(client, java, [])
    assert folder.entry_log_bytes() == 0
    await end(process)

    process = await cluster.java_bookie(folder)
    assert await of_labkit.add(b"behind them") == LAST_ENTRY_ID + 1
    await of_labkit.close()
    assert await read(client, of_labkit.ledger_id) == [*PAYLOADS, b"behind them"]
    assert await read(client, fenced.ledger_id) == PAYLOADS
    for writer in (fenced, fenced_empty):
        with pytest.raises(BKLedgerFencedException):
            await writer.add(b"too late")
    of_apache = await write(client, PAYLOADS)
    fenced = await write_and_fence(client, java, PAYLOADS)
    await end(process)

    await cluster.labkit_bookie(folder)
    assert await of_apache.add(b"behind them") == LAST_ENTRY_ID + 1
    await of_apache.close()
    for ledger in (of_labkit, of_apache):
        assert await read(client, ledger.ledger_id) == [*PAYLOADS, b"behind them"]
    assert await read(client, fenced.ledger_id) == PAYLOADS
    with pytest.raises(BKLedgerFencedException):
        await fenced.add(b"too late")
