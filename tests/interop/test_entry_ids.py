"""Both kinds of bookie accept the largest entry id that labkit sends.

The index is then a sparse file of several terabytes, whose hole labkit's shell skips.
"""

import asyncio

import pytest

from labkit.cli.main import main
from labkit.system.metadata.registration import BOOKIE_RPC, find_endpoint
from labkit.system.model.entry import MAX_ENTRY_ID
from labkit.system.storage.index.ledger_index import index_path
from tests.interop.conftest import Cluster
from tests.system.bookie.raw import RawClient, add, added, answer, entry, read

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

LEDGER = 7_000


@pytest.mark.promise(
    "The largest entry id is accepted, as in BookKeeper; the shell skips the hole in the index"
)
@pytest.mark.parametrize("kind", ["labkit", "apache"])
async def test_the_largest_entry_id_is_taken_and_makes_an_index_with_a_hole(
    cluster: Cluster, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = cluster.bookie(f"{kind}-hole")
    bookie = await cluster.start(kind, folder)
    port = (await find_endpoint(cluster.metadata, folder.bookie_id, BOOKIE_RPC)).port
    async with RawClient(port) as raw:
        assert await raw.ask(add(LEDGER, MAX_ENTRY_ID)) == added(LEDGER, MAX_ENTRY_ID)
        found = answer(2, 0, LEDGER, MAX_ENTRY_ID, entry(LEDGER, MAX_ENTRY_ID))
        assert await raw.ask(read(LEDGER, MAX_ENTRY_ID)) == found
    await bookie.stop()
    index = (folder.folder / "ledgers" / index_path(LEDGER)).stat()
    assert index.st_size >= 1024 + 8 * 2**40
    assert index.st_blocks * 512 < 2**20
    where = ["--journal", f"{folder.folder}/journal", "--ledgers", f"{folder.folder}/ledgers"]
    for verb in (["ledger", str(LEDGER)], ["readledger", str(LEDGER)], ["listledgers"]):
        assert await asyncio.to_thread(main, ["shell", *where, *verb]) == 0
    assert str(MAX_ENTRY_ID) in capsys.readouterr().out
