"""After collecting deleted ledgers, both kinds of bookie return identical responses.

The responses are compared byte for byte, before and after a restart that replays the journal.
"""

from dataclasses import replace

import pytest

from labkit.system.metadata.registration import BOOKIE_RPC, find_endpoint
from labkit.system.model.errors import BKLedgerFencedException
from tests.interop.conftest import Cluster
from tests.system.bookie.raw import (
    FENCE,
    FENCED,
    KEY,
    NO_LEDGER,
    RECOVERY_ADD,
    RawClient,
    add,
    added,
    answer,
    read,
)
from tests.until import until_true

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

COLLECTS_SOON = (("gcWaitTime", 500),)


@pytest.mark.parametrize("kind", ["labkit", "apache"])
async def test_a_ledger_that_was_collected_takes_no_add(cluster: Cluster, kind: str) -> None:
    folder = cluster.bookie(f"{kind}-collects")
    bookie = await cluster.start(kind, replace(folder, keys=COLLECTS_SOON))
    client, other = (cluster.labkit_client(folder.bookie_id) for _ in range(2))

    async def port() -> int:
        return (await find_endpoint(cluster.metadata, folder.bookie_id, BOOKIE_RPC)).port

    writers = written, _, never_fenced = [await client.create_ledger(1, 1, 1) for _ in range(3)]
    for writer in (written, never_fenced):
        await writer.add(b"first")
    for writer in writers:
        if writer is not never_fenced:
            await other.open_ledger(writer.ledger_id)
        await other.delete_ledger(writer.ledger_id)

    async with RawClient(await port()) as raw:

        async def all_are_collected() -> bool:
            """Check the last deleted ledger, which accepts adds until it has been collected."""
            last = never_fenced.ledger_id
            return await raw.ask(add(last, 1)) == added(last, 1, FENCED)

        await until_true(all_are_collected)
        for writer in writers:
            ledger = writer.ledger_id
            assert await raw.ask(add(ledger, 1)) == added(ledger, 1, FENCED)
            recovery_add = add(ledger, 1, flags=RECOVERY_ADD)
            assert await raw.ask(recovery_add) == added(ledger, 1, FENCED)
            fence = read(ledger, -1, FENCE, KEY)
            assert await raw.ask(fence) == answer(2, NO_LEDGER, ledger, -1)
            with pytest.raises(BKLedgerFencedException):
                await writer.add(b"too late")

    # Both kinds of bookie replay the entries and the fence. (BookKeeper drops the fence of a ledger
    # without entries.)
    await bookie.kill()
    await cluster.start(kind, folder)
    async with RawClient(await port()) as raw:
        fenced, open_again = written.ledger_id, never_fenced.ledger_id
        assert await raw.ask(add(fenced, 1)) == added(fenced, 1, FENCED)
        assert await raw.ask(add(open_again, 1)) == added(open_again, 1)
