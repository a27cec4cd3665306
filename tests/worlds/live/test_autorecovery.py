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
from labkit.system.client.context import ClientConfig
from labkit.system.client.placement.placement import in_name_order
from labkit.system.client.reads import BookieReads
from labkit.system.metadata.location import MetadataLocation
from labkit.system.metadata.racks import RACKS
from labkit.system.metadata.store import MetadataUnavailableError
from labkit.system.model.errors import BKLedgerFencedException
from labkit.system.model.ledger import LedgerState
from labkit.system.trace.events import Event
from labkit.worlds.live.host.guard import guarded
from labkit.worlds.live.host.posix import continue_process, stop_process
from labkit.worlds.live.processes.cluster import LocalCluster
from labkit.worlds.live.zookeeper.server import EmbeddedZooKeeper
from labkit.worlds.live.zookeeper.store import ZooKeeperStore
from tests.repeat import repeated
from tests.until import until, until_true
from tests.worlds.live.real_bookie import RealBookie

PATHS = AutoRecoveryPaths(MetadataLocation("any"))

pytestmark = [pytest.mark.asyncio(loop_scope="session"), pytest.mark.java, pytest.mark.slow]

SHAPES = ((3, 3, 2), (3, 2, 2), (4, 3, 2), (2, 2, 1), (1, 1, 1))
KEYS: dict[str, object] = {
    "openLedgerRereplicationGracePeriod": 500,
    "lockReleaseOfFailedLedgerGracePeriod": 2000,
    "rwRereplicateBackoffMs": 500,
}
LONGER_THAN_A_SESSION_S = 6.0


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


def events_of(cluster: LocalCluster, *kinds: str) -> list[Event]:
    return [event for event in cluster.trace.events if event.kind in kinds]


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


@pytest.mark.long
async def test_bookie_that_comes_back_gives_up_what_others_have_instead() -> None:
    tidy = {**KEYS, "gcWaitTime": 200, "gcOverreplicatedLedgerWaitTime": 1000}
    async with LocalCluster(4, autorecovery=tidy) as cluster:
        client = await cluster.connect(placement=in_name_order)
        ledgers = [await stored(client, sizes, 300) for sizes in ((3, 3, 2), (2, 2, 2))]
        await cluster.kill("b1")
        await until_healed(client, "b1")
        # This ledger is not on b1, so its restart must not affect it.
        ledgers.append(await stored(client, (3, 3, 2), 10))
        await cluster.restart("b1")
        await until(lambda: len(events_of(cluster, "ledger.dropped")) == 2)
        dropped = events_of(cluster, "ledger.dropped")
        assert [(event.node, event.ledger) for event in dropped] == [
            ("b1", ledger_id) for ledger_id in ledgers[:2]
        ]
        for ledger_id in ledgers[:2]:
            reads = BookieReads(ledger_id, await client.ledger_metadata(ledger_id), client.context)
            assert sorted(await missing_copies(reads, "b1", [0, 299])) == [0, 299]
        await cluster.kill("b0")
        await until_healed(client, "b0")
        await assert_every_copy(client, ledgers)
        client.close()


@pytest.mark.long
async def test_copies_are_moved_until_write_sets_span_racks() -> None:
    apart = {
        **KEYS,
        "minNumRacksPerWriteQuorum": 2,
        "auditorPeriodicPlacementPolicyCheckInterval": 1,
        "repairedPlacementPolicyNotAdheringBookieEnabled": "true",
    }
    async with LocalCluster(4, autorecovery=apart) as cluster:
        client = await cluster.connect(placement=in_name_order)
        ledgers = [await stored(client, sizes, 300) for sizes in ((2, 2, 2), (4, 2, 2))]
        racks = {"b0": "left", "b1": "left", "b2": "right", "b3": "right"}
        said = {"default": {bookie: {"rack": rack} for bookie, rack in racks.items()}}
        await client.store.create(RACKS, json.dumps(said).encode())

        async def is_apart() -> bool:
            [segment] = (await client.ledger_metadata(ledgers[0])).segments
            return len({racks[bookie] for bookie in segment.ensemble}) == 2

        await until_true(is_apart, 60)
        await until_healed(client)
        # The other ledger uses all four bookies, so no bookie is left to swap with.
        await until(lambda: ledgers[1] in [e.ledger for e in events_of(cluster, "placement.unmet")])
        await assert_every_copy(client, ledgers)
        config = ClientConfig(min_num_racks_per_write_quorum=2)
        aware = await cluster.connect("aware", placement=in_name_order, config=config)
        writer = await aware.create_ledger(4, 2, 2)
        assert [racks[name] for name in writer.metadata.segments[0].ensemble] == [
            "left",
            "right",
        ] * 2
        aware.close()
        client.close()


@pytest.mark.long
async def test_worker_that_dies_while_copying_is_followed_by_another() -> None:
    slow = {**KEYS, "replicationRateByBytes": 200_000}
    async with LocalCluster(5, autorecovery=slow) as cluster:
        client = await cluster.connect(placement=in_name_order)
        ledger_id = await stored(client, (2, 2, 2), 4000)
        await cluster.kill("b1")
        await until(lambda: len(events_of(cluster, "entry.copied")) > 300)
        worker = events_of(cluster, "replication.started")[-1].node
        if worker == "b0":
            # This bookie has the only remaining copies, so do not kill it; pause it until its
            # session expires.
            await cluster.pause(worker)
            await asyncio.sleep(LONGER_THAN_A_SESSION_S)
            await cluster.resume(worker)
        else:
            await cluster.kill(worker)
        await until_healed(client, "b1")
        await assert_every_copy(client, [ledger_id])
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
        await until_true(lambda: is_auditor(client, "healer"))
        await cluster.kill("b1")
        await until_healed(client, "b1")
        await assert_every_copy(client, [ledger_id])
        process.terminate()
        assert process.stderr is not None
        assert await process.stderr.read() == b""
        assert await process.wait() == 0
        assert await current_auditor(client.store) is None
        client.close()


async def is_auditor(client: BookKeeper, name: str) -> bool:
    return await current_auditor(client.store) == name


@pytest.mark.long
@pytest.mark.parametrize("is_down", repeated([False, True]))
async def test_outage_of_the_metadata_store_loses_no_bookie(tmp_path: Path, is_down: bool) -> None:
    """Sessions do not expire while ZooKeeper is down, but they do expire while it hangs."""
    async with (
        EmbeddedZooKeeper(tmp_path) as server,
        LocalCluster(5, zookeeper=server.address, autorecovery=KEYS) as cluster,
    ):
        client = await cluster.connect(placement=in_name_order)
        ledger_id = await stored(client, (3, 3, 2), 50)
        before = await client.ledger_metadata(ledger_id)
        if is_down:
            await server.stop()
            await asyncio.sleep(LONGER_THAN_A_SESSION_S)
            await server.start()
        else:
            await stop_process(server.pid)
            await asyncio.sleep(2 * LONGER_THAN_A_SESSION_S)
            continue_process(server.pid)
        await until_true(lambda: has_writable(client, 5))
        await asyncio.sleep(LONGER_THAN_A_SESSION_S)
        await cluster.settled()
        assert all(map(cluster.is_up, cluster.bookie_names))
        assert events_of(cluster, "bookie.lost", "ledger.underreplicated") == []
        assert await client.ledger_metadata(ledger_id) == before
        await cluster.kill("b1")
        await until_healed(client, "b1")
        await assert_every_copy(client, [ledger_id])
        client.close()


async def has_writable(client: BookKeeper, count: int) -> bool:
    try:
        return len(await client.writable_bookies()) == count
    except MetadataUnavailableError:
        return False


@pytest.mark.long
async def test_auditor_that_was_silent_for_too_long_comes_back_as_a_candidate(
    healing: LocalCluster,
) -> None:
    client = await healing.connect(placement=in_name_order)
    auditor = await current_auditor(client.store)
    assert auditor is not None
    await healing.pause(auditor)
    await until_true(lambda: is_another_auditor(client, auditor))
    await healing.resume(auditor)
    await until_true(lambda: has_writable(client, 5))
    await until_true(lambda: has_votes(client, 5))
    assert healing.is_up(auditor)
    assert await current_auditor(client.store) != auditor
    client.close()


async def is_another_auditor(client: BookKeeper, former: str) -> bool:
    return await current_auditor(client.store) not in (None, former)


async def has_votes(client: BookKeeper, count: int) -> bool:
    return len(await client.store.children(PATHS.election)) == count


async def test_autorecovery_that_cannot_go_on_takes_its_bookie_with_it(tmp_path: Path) -> None:
    async with EmbeddedZooKeeper(tmp_path / "zookeeper") as server:
        store = ZooKeeperStore(server.location)
        await store.start()
        await store.create(f"{PATHS.root}/LAYOUT", b'type: "NEWER"\nversion: 3\n')
        await store.stop()
        bookie = RealBookie(tmp_path / "b0", server.address, {})
        await bookie.launch()
        code, said = await bookie.last_words()
    assert code == 1
    assert "underreplication/LAYOUT is" in said
    assert "NEWER" in said
