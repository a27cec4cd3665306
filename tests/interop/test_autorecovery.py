"""Apache's and labkit's autorecovery repair ledgers together.

Each repairs ledgers on the other's bookies, and ledgers that the other one has marked.
"""

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from labkit.system.autorecovery.election import current_auditor
from labkit.system.autorecovery.fragments import fragments_of
from labkit.system.autorecovery.ledger_view import LedgerView, missing_copies
from labkit.system.autorecovery.underreplication import (
    LedgerUnderreplicationManager,
    UnavailableException,
)
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.reads import BookieReads
from labkit.worlds.live.host.guard import guarded
from labkit.worlds.live.host.ports import free_port
from tests.interop.bookies import BookieFolder, RunningBookie
from tests.interop.conftest import Cluster
from tests.interop.payloads import PAYLOADS, write
from tests.until import until_true

pytestmark = [
    pytest.mark.interop,
    pytest.mark.slow,
    pytest.mark.asyncio(loop_scope="session"),
]

TIMEOUT_S = 90.0
KEYS = (("openLedgerRereplicationGracePeriod", 1000), ("lostBookieRecoveryDelay", 0))


@asynccontextmanager
async def running(cluster: Cluster, command: Sequence[str], name: str) -> AsyncIterator[None]:
    """Run an autorecovery process, which is the auditor by the time the block starts."""
    with (cluster.folder / f"{name}.log").open("ab") as log:
        process = await asyncio.create_subprocess_exec(
            *guarded(list(command)), stdin=PIPE, stdout=DEVNULL, stderr=log
        )
    try:
        await until_true(lambda: is_auditor(cluster, name), TIMEOUT_S)
        yield
    finally:
        process.kill()
        await process.wait()
        await until_true(lambda: is_nobody_auditor(cluster), TIMEOUT_S)


async def is_auditor(cluster: Cluster, name: str) -> bool:
    return await current_auditor(cluster.metadata) == name


async def is_nobody_auditor(cluster: Cluster) -> bool:
    return await current_auditor(cluster.metadata) is None


def configured(cluster: Cluster, name: str) -> BookieFolder:
    return BookieFolder(name, cluster.folder / name, cluster.zookeeper, KEYS)


def java_autorecovery(cluster: Cluster, name: str) -> list[str]:
    conf = configured(cluster, name).write_configuration(free_port())
    main_class = "org.apache.bookkeeper.replication.AutoRecoveryMain"
    return cluster.apache.command(main_class, "--conf", str(conf))


def labkit_autorecovery(cluster: Cluster, name: str) -> list[str]:
    conf = configured(cluster, name).write_configuration(0)
    return [sys.executable, "-m", "labkit", "autorecovery", "--conf", str(conf)]


def marks_of(cluster: Cluster) -> LedgerUnderreplicationManager:
    return LedgerUnderreplicationManager(cluster.metadata, "test", lambda n: 0, lambda: 1)


async def stored(labkit: BookKeeper) -> int:
    writer = await write(labkit, 3, 3, 2)
    await writer.close()
    return writer.ledger_id


async def until_repaired(cluster: Cluster, labkit: BookKeeper, *lost: str) -> None:
    async def is_repaired() -> bool:
        for ledger_id in await labkit.list_ledgers():
            for segment in (await labkit.ledger_metadata(ledger_id)).segments:
                if any(bookie in segment.ensemble for bookie in lost):
                    return False
        return not await marks_of(cluster).ledgers()

    await until_true(is_repaired, TIMEOUT_S)


async def assert_every_copy(labkit: BookKeeper, ledger_id: int) -> None:
    metadata = await labkit.ledger_metadata(ledger_id)
    ledger = LedgerView(ledger_id, metadata, metadata.last_entry_id)
    for fragment in fragments_of(metadata, ledger.last_confirmed):
        for bookie in fragment.ensemble:
            reads = BookieReads(ledger_id, metadata, labkit.context)
            entry_ids = list(range(fragment.first, fragment.last + 1))
            assert await missing_copies(reads, bookie, entry_ids) == {}


async def four_bookies(cluster: Cluster, prefix: str) -> dict[str, RunningBookie]:
    """Start two labkit bookies and two Apache bookies, in this order."""
    names = [f"{prefix}-{number}" for number in range(1, 5)]
    running = {name: await cluster.labkit_bookie(cluster.bookie(name)) for name in names[:2]}
    for name in names[2:]:
        running[name] = await cluster.java_bookie(cluster.bookie(name))
    return running


@pytest.mark.promise("Each autorecovery repairs ledgers using the other system's bookies")
@pytest.mark.long
async def test_java_repairs_onto_labkit_bookies(cluster: Cluster) -> None:
    bookies = await four_bookies(cluster, "one")
    labkit = cluster.labkit_client("one-1", "one-3", "one-4")
    ledger_id = await stored(labkit)
    async with running(cluster, java_autorecovery(cluster, "java-healer"), "java-healer"):
        await bookies["one-3"].kill()
        await until_repaired(cluster, labkit, "one-3")
    metadata = await labkit.ledger_metadata(ledger_id)
    assert metadata.segments[0].ensemble == ("one-1", "one-2", "one-4")
    await assert_every_copy(labkit, ledger_id)
    for bookie in bookies.values():
        await bookie.kill()


@pytest.mark.long
async def test_labkit_repairs_onto_java_bookies(cluster: Cluster) -> None:
    bookies = await four_bookies(cluster, "two")
    labkit = cluster.labkit_client("two-1", "two-2", "two-3")
    ledger_id = await stored(labkit)
    await labkit.delete_ledger(0)
    async with running(cluster, labkit_autorecovery(cluster, "healer"), "healer"):
        await bookies["two-2"].kill()
        await until_repaired(cluster, labkit, "two-2")
    metadata = await labkit.ledger_metadata(ledger_id)
    assert metadata.segments[0].ensemble == ("two-1", "two-4", "two-3")
    await assert_every_copy(labkit, ledger_id)
    java = await cluster.java_client()
    last, _ = await java.open(ledger_id)
    assert await java.read(ledger_id, 0, last) == PAYLOADS
    for bookie in bookies.values():
        await bookie.kill()
    await labkit.delete_ledger(ledger_id)


async def test_each_repairs_what_the_other_marked_and_is_followed_by_the_other(
    cluster: Cluster,
) -> None:
    await four_bookies(cluster, "three")
    labkit = cluster.labkit_client("three-1", "three-2", "three-3")
    ledger_id = await stored(labkit)
    before = await labkit.ledger_metadata(ledger_id)
    async with running(cluster, java_autorecovery(cluster, "java-healer"), "java-healer"):
        # No copies are missing, so the repair only has to remove the mark.
        await marks_of(cluster).mark(ledger_id, ["three-2"])
        await until_repaired(cluster, labkit)
        shell = cluster.bookie("three-1")
        assert "java-healer" in await shell.shell(cluster.apache, "whoisauditor")
    async with running(cluster, labkit_autorecovery(cluster, "healer"), "healer"):
        assert "healer" in await shell.shell(cluster.apache, "whoisauditor")
        await shell.shell(cluster.apache, "autorecovery", "-disable")
        assert not await marks_of(cluster).is_enabled()
        with pytest.raises(UnavailableException):
            await marks_of(cluster).disable()
        await marks_of(cluster).mark(ledger_id, ["three-2", "three-3"])
        listed = await shell.shell(cluster.apache, "listunderreplicated", "-printmissingreplica")
        assert f"{ledger_id}" in listed
        assert "three-3" in listed
        await shell.shell(cluster.apache, "autorecovery", "-enable")
        await until_repaired(cluster, labkit)
    assert await labkit.ledger_metadata(ledger_id) == before
