"""The official client can use the workshop's bookie, and BookKeeper's shell can read its files."""

import pytest

from labkit.course.workshop.tracks import track
from labkit.system.storage.entry_log import log_ids, scan_entry_log
from labkit.system.storage.journal import journal_ids
from labkit.system.storage.journal_scan import JournalScan
from labkit.system.storage.log_mark import LogMark, read_last_mark
from labkit.worlds.live.disk import RealDisk
from tests.interop.conftest import Cluster
from tests.interop.payloads import LAST_ENTRY_ID, PAYLOADS, read
from tests.interop.test_java_shell import LOCATION, records

pytestmark = [
    pytest.mark.interop,
    pytest.mark.long,
    pytest.mark.asyncio(loop_scope="session"),
]

SOLUTION = str(track("bookie").solution)


async def test_the_official_client_and_shell_read_what_the_workshops_bookie_keeps(
    cluster: Cluster,
) -> None:
    folder = cluster.bookie("b0")
    running = await folder.start_labkit("--store", SOLUTION)
    java = await cluster.java_client()
    ledger_id = await java.create(1, 1, 1, "CRC32C")
    assert await java.add(ledger_id, PAYLOADS) == LAST_ENTRY_ID
    await java.close(ledger_id)
    await running.kill()
    running = await folder.start_labkit("--store", SOLUTION)
    assert await read(cluster.labkit_client("b0"), ledger_id) == PAYLOADS
    java = await cluster.java_client()
    await java.open(ledger_id, "CRC32C")
    assert await java.read(ledger_id, 0, LAST_ENTRY_ID) == PAYLOADS
    await running.stop()

    apache = cluster.apache
    journal, ledgers = RealDisk(folder.folder / "journal"), RealDisk(folder.folder / "ledgers")
    for file_id in journal_ids(journal):
        output = await folder.shell(apache, "readjournal", LogMark(file_id, 0).file_name)
        found = JournalScan(journal, file_id).records()
        assert records(output) == [(r.ledger_id, r.entry_id, r.offset, len(r.body)) for r in found]
    kept = 0
    for log_id in log_ids(ledgers):
        if entries := list(scan_entry_log(ledgers, log_id)):
            output = await folder.shell(apache, "readlog", f"{log_id:x}.log")
            expected = [(e.ledger_id, e.entry_id, e.offset, len(e.data)) for e in entries]
            assert records(output) == expected
            kept += len(entries)
    assert kept == len(PAYLOADS)
    output = await folder.shell(apache, "ledger", "-m", str(ledger_id))
    assert len(LOCATION.findall(output)) == len(PAYLOADS)
    mark = read_last_mark(ledgers)
    output = await folder.shell(apache, "lastmark")
    assert f"Journal Id - {mark.file_id}({mark.file_name}), Pos - {mark.offset}" in output
    assert "=== Check passed ===" in await folder.shell(apache, "localconsistencycheck")
