"""Entries can be written even if the metadata store is down for longer than a session."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from labkit.system.metadata.store import MetadataError
from labkit.system.model.ledger import LedgerState
from labkit.worlds.live.host.posix import continue_process, stop_process
from labkit.worlds.live.processes.cluster import LocalCluster
from labkit.worlds.live.zookeeper.server import EmbeddedZooKeeper
from tests.repeat import repeated
from tests.until import until_true
from tests.worlds.live.test_autorecovery import KEYS, assert_every_copy, payload, until_healed

LONGER_THAN_A_SESSION_S = 5.0
PAYLOADS = [payload(number) for number in range(30)]


@asynccontextmanager
async def away(server: EmbeddedZooKeeper, *, hangs: bool) -> AsyncIterator[None]:
    """Let the server hang, so that sessions expire, or stop it, so that they do not."""
    if hangs:
        await stop_process(server.pid)
    else:
        await server.stop()
    yield
    if hangs:
        continue_process(server.pid)
    else:
        await server.start()


@pytest.mark.promise(
    "If ZooKeeper is down, hung or partitioned for longer than a session, writers continue, "
    "bookies register again, and no bookie is declared lost"
)
@pytest.mark.java
@pytest.mark.parametrize("hangs", repeated([True, False]))
async def test_writers_go_on_and_bookies_register_again(tmp_path: Path, hangs: bool) -> None:
    folder = tmp_path / "bookies"
    async with (
        EmbeddedZooKeeper(tmp_path / "zookeeper") as server,
        LocalCluster(4, zookeeper=server.address, folder=folder, autorecovery=KEYS) as cluster,
    ):
        client = await cluster.connect()
        writer = await client.create_ledger(3, 3, 2)
        for each in PAYLOADS[:10]:
            await writer.add(each)
        async with away(server, hangs=hangs):
            for each in PAYLOADS[10:20]:
                await writer.add(each)
            await asyncio.sleep(LONGER_THAN_A_SESSION_S)
            for each in PAYLOADS[20:]:
                await writer.add(each)

        async def all_registered() -> bool:
            try:
                return len(await client.writable_bookies()) == 4
            except MetadataError:
                return False

        await until_true(all_registered)
        await asyncio.sleep(LONGER_THAN_A_SESSION_S)
        await cluster.settled()
        lost = ("bookie.lost", "ledger.underreplicated")
        assert [event for event in cluster.trace.events if event.kind in lost] == []
        assert all(map(cluster.is_up, cluster.bookie_names))
        await writer.close()
        metadata = await client.ledger_metadata(writer.ledger_id)
        assert (metadata.state, metadata.last_entry_id) == (LedgerState.CLOSED, 29)
        assert len(metadata.segments) == 1
        reader = await client.open_ledger(writer.ledger_id)
        assert [entry.payload async for entry in reader.read()] == PAYLOADS
        # The auditor is still at work: it notices a bookie that is really lost.
        lost_bookie = metadata.segments[0].ensemble[0]
        await cluster.kill(lost_bookie)
        await until_healed(client, lost_bookie)
        await assert_every_copy(client, [writer.ledger_id])
