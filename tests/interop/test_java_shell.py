"""`bookkeeper shell` reads the files of a labkit bookie and the metadata of a labkit cluster.

In BookKeeper: `bookie/BookieShell.java`, `tools/cli/commands/bookie/*.java`.
"""

import asyncio
import re
from base64 import b64encode
from pathlib import Path

import pytest
import pytest_asyncio

from labkit.cli.main import main
from labkit.system.model.entry import encode_explicit_lac
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.entry_log import log_ids, read_ledgers_map, scan_entry_log
from labkit.system.storage.index.ledger_index import LedgerIndex
from labkit.system.storage.journal_scan import JournalScan
from labkit.system.storage.log_mark import read_last_mark
from labkit.worlds.live.disk import RealDisk
from labkit.worlds.live.zookeeper.server import EmbeddedZooKeeper
from tests.interop.apache import Apache
from tests.interop.bookies import BookieFolder
from tests.interop.conftest import Cluster
from tests.interop.payloads import LAST_ENTRY_ID, LENGTH, PASSWORD, PAYLOADS, write
from tests.system.storage.support import CRC32C, KEY, add, store_over

pytestmark = [pytest.mark.interop, pytest.mark.asyncio(loop_scope="session")]

LEDGERS = (5, 0x1234)
PAGE_SIZE = 8192
SMALL = StorageConfig(
    journal_max_size_mb=1,
    journal_pre_alloc_size_mb=1,
    log_size_limit=4096,
    page_size=PAGE_SIZE,
)
"""Entry logs fill up after a few entries, so that one of them gets a ledgers map."""

RECORD = re.compile(r"Lid=(-?\d+), Eid=(-?\d+), ByteOffset=(\d+), EntrySize=(\d+)")
ENTRY = re.compile(r"Lid=(\d+), Eid=(\d+), EntrySize=\d+")
LOCATION = re.compile(r"^entry (\d+)\s+:\s+\(log:(\d+), pos: (\d+)\)$", re.MULTILINE)
LEDGER_SIZE = re.compile(r"Lid=(\d+), TotalSizeOfEntriesOfLedger=(\d+)")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> BookieFolder:
    """Write two ledgers, fence one and give it an explicit LAC, and fill one entry log."""
    folder = BookieFolder("b0", tmp_path_factory.mktemp("written"), "127.0.0.1:1")
    store = store_over(journal_disk(folder), ledger_disk(folder), SMALL)
    for ledger_id in LEDGERS:
        add(store, ledger_id, 0, 1, 2, payload=b"a" * 1000)
    store.checkpoint()
    add(store, 5, 3, 4)
    store.set_explicit_lac(5, encode_explicit_lac(5, 3, CRC32C), KEY)
    store.fence(5, KEY)
    store.close()
    return folder


def journal_disk(folder: BookieFolder) -> RealDisk:
    return RealDisk(folder.folder / "journal")


def ledger_disk(folder: BookieFolder) -> RealDisk:
    return RealDisk(folder.folder / "ledgers")


def records(output: str) -> list[tuple[int, ...]]:
    """Return the ledger id, entry id, offset and size of every record that the shell lists."""
    return [tuple(map(int, found)) for found in RECORD.findall(output)]


async def test_lastmark_shows_last_log_mark(apache: Apache, written: BookieFolder) -> None:
    mark = read_last_mark(ledger_disk(written))
    output = await written.shell(apache, "lastmark")
    assert f"Journal Id - {mark.file_id}({mark.file_name}), Pos - {mark.offset}" in output


async def test_readjournal_finds_every_record(apache: Apache, written: BookieFolder) -> None:
    scan = JournalScan(journal_disk(written), 1)
    expected = [(r.ledger_id, r.entry_id, r.offset, len(r.body)) for r in scan.records()]
    output = await written.shell(apache, "readjournal", "1.txn")
    assert "Journal Version : 6" in output
    assert "Fenced" in output
    assert KEY.hex() in output
    assert records(output) == expected


async def test_readlog_finds_every_entry(apache: Apache, written: BookieFolder) -> None:
    disk = ledger_disk(written)
    found = {}
    for log_id in log_ids(disk):
        entries = scan_entry_log(disk, log_id)
        expected = [(e.ledger_id, e.entry_id, e.offset, len(e.data)) for e in entries]
        found[log_id] = records(await written.shell(apache, "readlog", f"{log_id:x}.log"))
        assert found[log_id] == expected
    assert sum(map(len, found.values())) == 8


async def test_readlogmetadata_takes_the_ledgers_map_of_a_full_log(
    apache: Apache, written: BookieFolder
) -> None:
    output = await written.shell(apache, "readlogmetadata", "0")
    assert "No ledgers map" not in output
    sizes = {int(ledger): int(size) for ledger, size in LEDGER_SIZE.findall(output)}
    assert sizes == read_ledgers_map(ledger_disk(written), 0)


async def test_ledger_shows_key_fence_and_locations(apache: Apache, written: BookieFolder) -> None:
    index = LedgerIndex.load(5, ledger_disk(written), PAGE_SIZE)
    output = await written.shell(apache, "ledger", "-m", "5")
    assert f"master key  : {KEY.hex()}" in output
    assert "isFenced     : true" in output
    located = [(int(e), int(log) << 32 | int(at)) for e, log, at in LOCATION.findall(output)]
    assert located == list(index.locations())
    assert len(located) == 5


async def test_listfilesondisc_knows_every_file(apache: Apache, written: BookieFolder) -> None:
    output = await written.shell(apache, "listfilesondisc", "-txn", "-log", "-idx")
    listed = {Path(line) for line in output.splitlines() if line.startswith("/")}
    files = {path for path in written.folder.glob("*/current/**/*") if path.is_file()}
    assert listed == {path for path in files if path.suffix in {".txn", ".log", ".idx"}}


async def test_localconsistencycheck_passes(apache: Apache, written: BookieFolder) -> None:
    assert "=== Check passed ===" in await written.shell(apache, "localconsistencycheck")


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def ledger_id(cluster: Cluster) -> int:
    """Write a closed ledger to one labkit bookie in a cluster of two."""
    for name in ("b0", "b1"):
        await cluster.labkit_bookie(cluster.bookie(name))
    client = cluster.labkit_client("b0")
    writer = await write(client, 1, 1, 1)
    await writer.close()
    return writer.ledger_id


async def test_listbookies_lists_writable_bookies(cluster: Cluster, ledger_id: int) -> None:
    output = await cluster.bookie("shell").shell(cluster.apache, "listbookies", "-rw")
    assert re.findall(r"BookieID:(\S+?),", output) == ["b0", "b1"]


@pytest.mark.promise("Apache's shell lists, prints and checks what labkit wrote")
async def test_listledgers_and_ledgermetadata_decode_the_metadata(
    cluster: Cluster, ledger_id: int
) -> None:
    shell = cluster.bookie("shell").shell
    expected = (
        "LedgerMetadata{formatVersion=3, ensembleSize=1, writeQuorumSize=1, ackQuorumSize=1,"
        f" state=CLOSED, length={LENGTH}, lastEntryId={LAST_ENTRY_ID}, digestType=CRC32C,"
        f" password=base64:{b64encode(PASSWORD).decode()}, ensembles={{0=[b0]}},"
        " customMetadata={}}"
    )
    assert expected in await shell(cluster.apache, "listledgers", "-meta")
    assert expected in await shell(cluster.apache, "ledgermetadata", "-ledgerid", str(ledger_id))


@pytest.mark.promise("The shell's verbs do the same as Apache's")
async def test_both_shells_tell_the_same_of_ledgers_and_bookies(
    cluster: Cluster, ledger_id: int, capsys: pytest.CaptureFixture[str]
) -> None:
    for command in (
        ("ledgermetadata", "-l", str(ledger_id)),
        ("listledgers", "-meta"),
        ("listbookies", "-rw"),
        ("whatisinstanceid",),
    ):
        javas = await cluster.bookie("shell").shell(cluster.apache, *command)
        where = ["shell", "--zookeeper", cluster.zookeeper]
        assert await asyncio.to_thread(main, [*where, *command]) == 0
        ours = capsys.readouterr().out.replace(", State:ReadWrite", "")
        lines = ours.splitlines()
        assert lines
        assert [line for line in lines if line not in javas] == []


async def test_readledger_reads_every_entry(cluster: Cluster, ledger_id: int) -> None:
    shell = cluster.bookie("shell").shell
    output = await shell(cluster.apache, "readledger", "-l", str(ledger_id))
    found = [(int(ledger), int(entry)) for ledger, entry in ENTRY.findall(output)]
    assert found == [(ledger_id, entry_id) for entry_id in range(len(PAYLOADS))]


async def test_simpletest_passes_on_labkit_bookies(cluster: Cluster, ledger_id: int) -> None:
    quorums = ("-ensemble", "2", "-writeQuorum", "2", "-ackQuorum", "2")
    output = await cluster.bookie("shell").shell(
        cluster.apache, "simpletest", *quorums, "-numEntries", "100"
    )
    assert "100 entries written to ledger" in output


async def test_labkit_joins_a_cluster_that_initnewcluster_made(
    apache: Apache, tmp_path: Path
) -> None:
    async with EmbeddedZooKeeper(tmp_path / "zookeeper") as zookeeper:
        bookie = BookieFolder("b0", tmp_path, zookeeper.address)
        apache = apache.known_to(zookeeper)
        await bookie.shell(apache, "initnewcluster")
        process = await bookie.start_labkit()
        try:
            cookie = (tmp_path / "ledgers" / "current" / "VERSION").read_text()
            instance_id = re.search('instanceId: "(.*)"', cookie)
            assert instance_id is not None
            shown = await bookie.shell(apache, "whatisinstanceid")
            assert f"InstanceId: {instance_id[1]}" in shown
        finally:
            await process.stop()
