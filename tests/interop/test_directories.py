"""Bookies of either kind serve each other's files in several directories.

This holds for several journal and ledger directories and every journal version in use.
"""

import pytest

from labkit.system.model.errors import BKLedgerFencedException
from labkit.system.storage.entry_log import log_ids
from labkit.system.storage.index.ledger_index import LedgerIndex, index_path, ledger_ids_on_disk
from labkit.system.storage.journal import journal_ids
from labkit.system.storage.journal_scan import JournalScan
from labkit.worlds.live.disk import RealDisk
from tests.interop.bookies import BookieFolder
from tests.interop.conftest import Cluster
from tests.interop.payloads import PASSWORD, PAYLOADS, read, write
from tests.repeat import repeated

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

INDEX_VERSION = {4: 0, 5: 0, 6: 1}
LEDGERS = 4
"""This many consecutive ids use both journals and, in labkit, both ledger directories."""
DRAWN = 20
"""Each new ledger uses one of two directories at random, so one of them remains empty in about one
of a million runs.
"""


def with_two_of_each(folder: BookieFolder, journal_version: int) -> BookieFolder:
    """Configure the bookie with two journal directories and two ledger directories."""
    both = {
        f"{kind}Directories": f"{folder.folder}/{name}0,{folder.folder}/{name}1"
        for kind, name in (("journal", "j"), ("ledger", "l"))
    }
    versions = {
        "journalFormatVersionToWrite": journal_version,
        "fileInfoFormatVersionToWrite": INDEX_VERSION[journal_version],
    }
    keys = (*both.items(), *versions.items())
    return BookieFolder(folder.bookie_id, folder.folder, folder.zookeeper, keys)


def disks(folder: BookieFolder, name: str) -> list[RealDisk]:
    return [RealDisk(folder.folder / f"{name}{number}") for number in range(2)]


def check_formats(folder: BookieFolder, version: int, *, of_labkit: bool) -> None:
    """Check that all files have the requested version and each journal has the right ledgers."""
    for number, disk in enumerate(disks(folder, "j")):
        scans = [JournalScan(disk, file_id) for file_id in journal_ids(disk)]
        assert {scan.version for scan in scans} == {version}
        found = {record.ledger_id % 2 for scan in scans for record in scan.records()}
        assert found == {number}
    stored = [ledger_ids_on_disk(disk) for disk in disks(folder, "l")]
    for disk, ledger_ids in zip(disks(folder, "l"), stored, strict=True):
        for ledger_id in ledger_ids:
            assert LedgerIndex.load(ledger_id, disk, 8192).header.version == INDEX_VERSION[version]
            assert disk.exists(index_path(ledger_id))
    if of_labkit:
        # Apache's bookie chooses the directories of indexes and entry logs at random.
        assert [{ledger_id % 2 for ledger_id in ids} for ids in stored] == [{0}, {1}]
        assert all(log_ids(disk) for disk in disks(folder, "l"))


@pytest.mark.parametrize("version", repeated(reversed(INDEX_VERSION)))
@pytest.mark.parametrize(("kind", "successor"), [("labkit", "apache"), ("apache", "labkit")])
async def test_a_successor_serves_every_entry_of_two_journals_and_two_ledger_directories(
    cluster: Cluster, kind: str, successor: str, version: int
) -> None:
    folder = with_two_of_each(cluster.bookie(f"{kind}-{version}"), version)
    client = cluster.labkit_client(folder.bookie_id)
    written: list[int] = []

    async def write_some() -> None:
        for _ in range(LEDGERS):
            writer = await write(client, 1, 1, 1)
            await writer.close()
            written.append(writer.ledger_id)

    # Some entries are in entry logs and indexes, and the others are only in the journals.
    bookie = await cluster.start(kind, folder)
    await write_some()
    await bookie.stop()
    bookie = await cluster.start(kind, folder)
    await write_some()
    fenced = [await client.create_ledger(1, 1, 1, password=PASSWORD) for _ in range(2)]
    java = await cluster.java_client()
    for writer in fenced:
        await writer.add(b"before the fence")
        await java.open(writer.ledger_id, recovery=True)
    await bookie.kill()
    check_formats(folder, version, of_labkit=kind == "labkit")

    await cluster.start(successor, folder)
    for ledger_id in written:
        assert await read(client, ledger_id) == PAYLOADS
    for writer in fenced:
        with pytest.raises(BKLedgerFencedException):
            await writer.add(b"too late")


@pytest.mark.parametrize(("kind", "successor"), [("labkit", "apache"), ("apache", "labkit")])
async def test_a_bookie_that_got_another_ledger_directory_serves_what_it_had_before(
    cluster: Cluster, kind: str, successor: str
) -> None:
    before = cluster.bookie(f"grown-by-{kind}")
    directories = f"{before.folder}/ledgers,{before.folder}/ledgers-2"

    def grown(**more: str) -> BookieFolder:
        keys = {"ledgerDirectories": directories} | more
        return BookieFolder(before.bookie_id, before.folder, before.zookeeper, tuple(keys.items()))

    client = cluster.labkit_client(before.bookie_id)
    bookie = await cluster.labkit_bookie(before)
    writers = [await client.create_ledger(1, 1, 1, password=PASSWORD) for _ in range(LEDGERS)]
    for writer in writers:
        await writer.add(b"before")
    await bookie.stop()
    bookie = await cluster.start(kind, grown(allowStorageExpansion="true"))
    writers += [await client.create_ledger(1, 1, 1, password=PASSWORD) for _ in range(DRAWN)]
    for writer in writers:
        await writer.add(b"after")
        await writer.close()
    await bookie.stop()
    assert any(ledger_ids_on_disk(RealDisk(before.folder / "ledgers-2")))
    await cluster.start(successor, grown())
    for number, writer in enumerate(writers):
        expected = [b"before", b"after"][number >= LEDGERS :]
        assert await read(client, writer.ledger_id) == expected
