"""After real bookies are lost for good, autorecovery restores every copy."""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
import pytest_asyncio

from labkit.system.autorecovery.election import current_auditor
from labkit.system.autorecovery.fragments import fragments_of
from labkit.system.autorecovery.ledger_view import LedgerView, missing_copies
from labkit.system.autorecovery.paths import AutoRecoveryPaths
from labkit.system.autorecovery.underreplication import (
    LedgerUnderreplicationManager,
)
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.placement.placement import in_name_order
from labkit.system.client.reads import BookieReads
from labkit.system.metadata.location import MetadataLocation
from labkit.system.model.errors import BKLedgerFencedException
from labkit.system.model.ledger import LedgerState
from labkit.worlds.live.host.guard import guarded
from labkit.worlds.live.processes.cluster import LocalCluster
from labkit.worlds.live.zookeeper.server import EmbeddedZooKeeper
from labkit.worlds.live.zookeeper.store import ZooKeeperStore
from tests.until import until_true
from tests.worlds.live.real_bookie import RealBookie

PATHS = AutoRecoveryPaths(MetadataLocation("any"))

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.java, pytest.mark.slow]

SHAPES = ((3, 3, 2), (3, 2, 2), (4, 3, 2), (2, 2, 1), (1, 1, 1))
KEYS: dict[str, object] = {
    "openLedgerRereplicationGracePeriod": 500,
    "lockReleaseOfFailedLedgerGracePeriod": 2000,
    "rwRereplicateBackoffMs": 500,
}


@pytest_asyncio.fixture(loop_scope="session")
async def healing() -> AsyncIterator[LocalCluster]:
    """Run five bookies with autorecovery for one test."""
    async with LocalCluster(5, autorecovery=KEYS) as cluster:
        yield cluster


def payload(number: int) -> bytes:
    return b"entry %d " % number * (number % 50)


async def stored(client: BookKeeper, sizes: tuple[int, int, int], count: int) -> int:
    """Write and close a ledger with `count` entries."""
    writer = await client.create_ledger(*sizes)
    for start in range(0, count, 500):
        numbers = range(start, min(count, start + 500))
        await asyncio.gather(*(writer.add(payload(number)) for number in numbers))
    await writer.close()
    return writer.ledger_id


async def names_it(client: BookKeeper, bookie: str) -> bool:
    """Return whether any ledger's metadata lists the bookie."""
    for ledger_id in await client.list_ledgers():
        metadata = await client.ledger_metadata(ledger_id)
        if any(bookie in segment.ensemble for segment in metadata.segments):
            return True
    return False


async def until_healed(client: BookKeeper, *lost: str) -> None:
    """Wait until no ledger's metadata lists a lost bookie and no ledger is marked."""
    manager = LedgerUnderreplicationManager(client.store, "test", lambda n: 0, lambda: 0)

    async def is_healed() -> bool:
        for bookie in lost:
            if await names_it(client, bookie):
                return False
        return not await manager.ledgers()

    await until_true(is_healed, 90)


async def assert_every_copy(client: BookKeeper, ledger_ids: Sequence[int]) -> None:
    """Read every copy from the bookie that should have it, and check the digests and payloads."""
    for ledger_id in ledger_ids:
        metadata = await client.ledger_metadata(ledger_id)
        assert metadata.state is LedgerState.CLOSED
        ledger = LedgerView(ledger_id, metadata, metadata.last_entry_id)
        for fragment in fragments_of(metadata, ledger.last_confirmed):
            for place, bookie in enumerate(fragment.ensemble):
                entry_ids = [
                    entry_id
                    for entry_id in range(fragment.first, fragment.last + 1)
                    if fragment.should_have(entry_id, place)
                ]
                reads = BookieReads(ledger_id, metadata, client.context)
                assert await missing_copies(reads, bookie, entry_ids) == {}
        reader = await client.open_ledger_no_recovery(ledger_id)
        read = [entry.payload async for entry in reader.read()]
        assert read == [payload(number) for number in range(metadata.last_entry_id + 1)]


@pytest.mark.core
@pytest.mark.promise(
    "After bookies are lost for good, every copy is restored, whatever else goes wrong"
)
async def test_every_ledger_is_back_at_all_its_copies(healing: LocalCluster) -> None:
    client = await healing.connect(placement=in_name_order)
    ledgers = [await stored(client, sizes, 300) for sizes in SHAPES[:4]]
    ledgers.append(await stored(client, (3, 3, 2), 0))
    ledgers.append(await stored(client, (3, 3, 2), 1))
    alone = await client.create_ledger(3, 3, 2)
    await alone.add(payload(0))
    ledgers.append(alone.ledger_id)
    await healing.kill("b1")
    await until_healed(client, "b1")
    await assert_every_copy(client, ledgers)
    with pytest.raises(BKLedgerFencedException):
        await alone.add(b"its writer was idle for too long")
    client.close()


async def start_autorecovery(zookeeper: str, name: str) -> Process:
    command = [sys.executable, "-m", "labkit", "autorecovery", "--id", name]
    return await asyncio.create_subprocess_exec(
        *guarded([*command, "--zookeeper", zookeeper]), stdin=PIPE, stdout=PIPE, stderr=PIPE
    )


async def test_separate_process_repairs_for_bookies_that_do_not() -> None:
    async with LocalCluster(4) as cluster:
        client = await cluster.connect(placement=in_name_order)
        ledger_id = await stored(client, (3, 3, 2), 50)
        process = await start_autorecovery(cluster.zookeeper, "healer")
        assert process.stdout is not None
        assert json.loads(await process.stdout.readline())["pid"]

        async def is_auditor() -> bool:
            return await current_auditor(client.store) == "healer"

        await until_true(is_auditor)
        await cluster.kill("b1")
        await until_healed(client, "b1")
        await assert_every_copy(client, [ledger_id])
        process.terminate()
        assert process.stderr is not None
        assert await process.stderr.read() == b""
        assert await process.wait() == 0
        assert await current_auditor(client.store) is None
        client.close()


@pytest.mark.long
async def test_auditor_that_was_silent_for_too_long_comes_back_as_a_candidate(
    healing: LocalCluster,
) -> None:
    client = await healing.connect(placement=in_name_order)
    auditor = await current_auditor(client.store)
    assert auditor is not None

    async def is_replaced() -> bool:
        return await current_auditor(client.store) not in (None, auditor)

    async def is_candidate_again() -> bool:
        votes = await client.store.children(PATHS.election)
        return len(await client.writable_bookies()) == len(votes) == 5

    await healing.pause(auditor)
    await until_true(is_replaced)
    await healing.resume(auditor)
    await until_true(is_candidate_again)
    assert healing.is_up(auditor)
    assert await current_auditor(client.store) != auditor
    client.close()


async def test_autorecovery_that_cannot_go_on_takes_its_bookie_with_it(tmp_path: Path) -> None:
    async with EmbeddedZooKeeper(tmp_path / "zookeeper") as server:
        async with ZooKeeperStore(server.location) as store:
            await store.create(f"{PATHS.root}/LAYOUT", b'type: "NEWER"\nversion: 3\n')
        bookie = RealBookie(tmp_path / "b0", server.address, {})
        await bookie.launch()
        code, said = await bookie.last_words()
    assert code == 1
    assert "underreplication/LAYOUT is" in said
    assert "NEWER" in said
