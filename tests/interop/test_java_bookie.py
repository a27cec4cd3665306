"""Apache's and labkit's bookies share an ensemble and take over each other's directories."""

from collections.abc import Awaitable, Callable

import pytest

from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.writer import MAX_PAYLOAD_SIZE, LedgerWriter
from labkit.system.metadata.registration import BOOKIE_RPC, find_endpoint
from labkit.system.model.errors import BKLedgerFencedException, BKUnauthorizedAccessException
from tests.interop.apache import JavaClient
from tests.interop.bookies import RunningBookie
from tests.interop.conftest import Cluster
from tests.interop.payloads import PASSWORD, PAYLOADS, read, write
from tests.system.bookie.raw import UNAUTHORIZED, RawClient, add, added

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

ENTRIES = [*PAYLOADS, bytes(MAX_PAYLOAD_SIZE)]
"""Includes a payload of the maximum size."""


async def write_and_fence(
    client: BookKeeper, java: JavaClient, payloads: list[bytes]
) -> LedgerWriter:
    """Write a ledger and recover it with another client, without the writer noticing."""
    writer = await write(client, 1, 1, 1, payloads=payloads)
    last, _ = await java.open(writer.ledger_id, recovery=True)
    assert last == len(payloads) - 1
    return writer


@pytest.mark.promise("A ledger can be stored on bookies of both kinds")
async def test_one_ensemble_has_bookies_of_both_kinds(cluster: Cluster) -> None:
    labkit_names = ["labkit-1", "labkit-2"]
    labkit_bookies = [await cluster.labkit_bookie(cluster.bookie(name)) for name in labkit_names]
    apache_bookie = await cluster.java_bookie(cluster.bookie("apache-1"))
    client = cluster.labkit_client("labkit-1", "apache-1", "labkit-2")
    writer = await write(client, 3, 3, 2, payloads=ENTRIES)
    await writer.close()
    assert await read(client, writer.ledger_id) == ENTRIES

    # Apache's bookie also has a complete copy.
    for bookie in labkit_bookies:
        await bookie.stop()
    assert await read(client, writer.ledger_id) == ENTRIES
    await apache_bookie.stop()


@pytest.mark.promise(
    "Apache's bookie serves labkit's directories and the reverse; Apache's shell reads "
    "labkit's files"
)
@pytest.mark.parametrize(
    ("end", "flushed"),
    [
        (RunningBookie.kill, False),
        pytest.param(RunningBookie.stop, True, marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize(("kind", "successor"), [("labkit", "apache"), ("apache", "labkit")])
async def test_a_successor_serves_what_the_other_kind_of_bookie_acknowledged(
    cluster: Cluster,
    kind: str,
    successor: str,
    end: Callable[[RunningBookie], Awaitable[None]],
    flushed: bool,
) -> None:
    folder = cluster.bookie(f"{kind}-then-{successor}-{end.__name__}")
    client = cluster.labkit_client(folder.bookie_id)

    bookie = await cluster.start(kind, folder)
    java = await cluster.java_client()
    mark = folder.last_mark()
    ledger = await write(client, 1, 1, 1, payloads=ENTRIES)
    fenced = [await write_and_fence(client, java, ENTRIES)]
    if kind == "labkit":
        # Apache's bookie forgets the fence of a ledger if it has no entries of the ledger.
        fenced.append(await write_and_fence(client, java, []))
    await end(bookie)
    assert (folder.last_mark() > mark) == flushed

    await cluster.start(successor, folder)
    assert await ledger.add(b"behind them") == len(ENTRIES)
    await ledger.close()
    assert await read(client, ledger.ledger_id) == [*ENTRIES, b"behind them"]
    assert await read(client, fenced[0].ledger_id) == ENTRIES
    for writer in fenced:
        with pytest.raises(BKLedgerFencedException):
            await writer.add(b"too late")


@pytest.mark.parametrize("kind", ["labkit", "apache"])
async def test_a_bookie_refuses_the_writer_of_an_id_that_a_stranger_took_first(
    cluster: Cluster, kind: str
) -> None:
    """docs/security.md says this about both kinds of bookie."""
    folder = cluster.bookie(f"{kind}-with-a-stranger")
    await cluster.start(kind, folder)
    endpoint = await find_endpoint(cluster.metadata, folder.bookie_id, BOOKIE_RPC)
    client = cluster.labkit_client(folder.bookie_id)
    known = await write(client, 1, 1, 1, payloads=[b"honest"])
    new = await client.create_ledger(1, 1, 1, password=PASSWORD)
    async with RawClient(endpoint.port) as stranger:
        refused = await stranger.ask(add(known.ledger_id, 1))
        assert refused == added(known.ledger_id, 1, UNAUTHORIZED)
        taken = await stranger.ask(add(new.ledger_id, 0))
        assert taken == added(new.ledger_id, 0)
    with pytest.raises(BKUnauthorizedAccessException):
        await new.add(b"honest")
    assert await known.add(b"as before") == 1


@pytest.mark.promise(
    "labkit's client creates, writes, reads, recovers and deletes ledgers on Apache's bookies"
)
async def test_labkit_fences_recovers_and_reads_in_batches_on_apaches_bookies(
    cluster: Cluster,
) -> None:
    names = ["apache-a", "apache-b"]
    for name in names:
        await cluster.java_bookie(cluster.bookie(name))
    client = cluster.labkit_client(*names)
    writer = await write(client, 2, 2, 2)

    reader = await cluster.labkit_client(*names).open_ledger(writer.ledger_id, password=PASSWORD)

    assert reader.last_add_confirmed == len(PAYLOADS) - 1
    assert [entry.payload async for entry in reader.read()] == PAYLOADS
    with pytest.raises(BKLedgerFencedException):
        await writer.add(b"too late")
    batch = await reader.read_batch(5, 20, 1 << 20)
    assert [entry.payload for entry in batch] == PAYLOADS[5:25]
    assert reader.batch_reads.is_supported, (
        "the bookie closed the connection because of the batch read"
    )
