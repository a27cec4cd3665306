"""Apache BookKeeper's client survives the loss of labkit bookies, and labkit reads the result."""

import pytest

from labkit.system.model.errors import BKNotEnoughBookiesException
from labkit.system.model.ledger import LedgerState
from tests.interop.conftest import Cluster
from tests.interop.payloads import LAST_ENTRY_ID, PASSWORD, PAYLOADS

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]


async def test_labkit_reads_across_the_ensemble_change_of_a_java_writer(cluster: Cluster) -> None:
    names = ("b0", "b1", "b2", "b3")
    bookies = {name: await cluster.labkit_bookie(cluster.bookie(name)) for name in names}
    java = await cluster.java_client()
    labkit = cluster.labkit_client()
    ledger_id = await java.create(3, 3, 3, "CRC32C")
    await java.add(ledger_id, PAYLOADS)
    lost = (await labkit.ledger_metadata(ledger_id)).ensemble_at(0)[0]
    await bookies[lost].kill()
    assert await java.add(ledger_id, PAYLOADS) == 2 * LAST_ENTRY_ID + 1
    await java.close(ledger_id)

    reader = await labkit.open_ledger_no_recovery(ledger_id, password=PASSWORD)
    assert [segment.first_entry_id for segment in reader.metadata.segments] == [0, len(PAYLOADS)]
    assert lost not in reader.metadata.ensemble_at(len(PAYLOADS))
    assert [entry.payload async for entry in reader.read()] == PAYLOADS * 2
    for bookie in bookies.values():
        await bookie.kill()


async def test_java_recovers_an_unconfirmed_entry_that_one_bookie_has(
    cluster: Cluster,
) -> None:
    first, *others = (cluster.bookie(f"recovered-{number}") for number in (1, 2, 3))
    kept = await cluster.labkit_bookie(first)
    lost = [await cluster.labkit_bookie(folder) for folder in others]
    labkit = cluster.labkit_client(first.bookie_id, *(folder.bookie_id for folder in others))
    writer = await labkit.create_ledger(3, 3, 2, password=PASSWORD)
    for payload in PAYLOADS:
        await writer.add(payload)
    for bookie in lost:
        await bookie.kill()
    # The killed bookies remain registered for a while, and no others are available.
    with pytest.raises(BKNotEnoughBookiesException):
        await writer.add(b"on the first bookie only")
    for folder in others:
        await cluster.labkit_bookie(folder)

    java = await cluster.java_client()
    last_entry_id, _ = await java.open(writer.ledger_id, recovery=True)
    assert last_entry_id == LAST_ENTRY_ID + 1

    # Recovery has written the entry to the other bookies, so the first one is no longer needed.
    await kept.stop()
    reader = await labkit.open_ledger_no_recovery(writer.ledger_id, password=PASSWORD)
    assert reader.metadata.state is LedgerState.CLOSED
    expected = [*PAYLOADS, b"on the first bookie only"]
    assert [entry.payload async for entry in reader.read()] == expected
