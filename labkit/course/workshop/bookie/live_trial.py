"""Tests step 8, which runs the learner's bookie as a process of a live cluster.

This is a separate module because a browser can load the steps but not start processes.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from labkit.course.checking.refused import Refused
from labkit.course.workshop.bookie.steps.process_step import READABLE, SURVIVES
from labkit.course.workshop.files import last_lines
from labkit.course.workshop.learner import Learner
from labkit.system.client.writer import LedgerWriter
from labkit.system.model.errors import LabkitError
from labkit.system.model.missing_part import MissingPart
from labkit.system.storage.index.ledger_index import DATA_OFFSET
from labkit.system.storage.journal import journal_ids
from labkit.system.storage.log_mark import read_last_mark
from labkit.views.shell.consistency import check_consistency
from labkit.views.shell.folders import BookieFolders, open_data_folder
from labkit.views.xray.file_spans import journal_spans
from labkit.worlds.live.processes.cluster import LocalCluster
from labkit.worlds.live.zookeeper.server import ZooKeeperNotStarted
from labkit.worlds.sim.run import outside_event_loops

NAME = "b0"
_ENTRIES = 200
_LIMIT_S = 120.0
_INDEX_PAGE_SIZE = 8192
_FLUSH_INTERVAL_MS = 50
"""This interval is short, so that the bookie makes checkpoints before it is killed."""
_STARTS = {".txn": b"BKLG\0\0\0\6", ".log": b"BKLO\0\0\0\1", ".idx": b"BKLE\0\0\0\1"}
"""The magic and version with which each kind of file starts."""


class LearnersCluster(LocalCluster):
    """A cluster whose only bookie is the learner's, so every response comes from that bookie."""

    def __init__(self, file: Path, folder: Path, zookeeper: str = "") -> None:
        super().__init__(1, zookeeper=zookeeper, folder=folder, traced=False)
        self.file = file

    def command_of(self, name: str, command: list[str]) -> list[str]:
        interval = f"--flush-interval-ms={_FLUSH_INTERVAL_MS}"
        return [*command, "--store", str(self.file), interval]


def serves_a_cluster(learner: Learner, zookeeper: str = "") -> str:
    """Check that acknowledged entries survive SIGKILL, and that labkit's tools can read the
    files.
    """
    with TemporaryDirectory(prefix="labkit-", ignore_cleanup_errors=True) as folder:
        try:
            serving = _serve(learner.file.absolute(), Path(folder), zookeeper)
            report = outside_event_loops(lambda: asyncio.run(asyncio.wait_for(serving, _LIMIT_S)))
        except (MissingPart, ZooKeeperNotStarted) as error:
            raise Refused(f"A live cluster cannot be started here: {error}") from None
        except (LabkitError, TimeoutError, OSError) as error:
            log = Path(folder) / NAME / "bookie.log"
            raise Refused(
                f"{SURVIVES} Your bookie did not serve the cluster, or not again after the kill.",
                "\n".join([f"{type(error).__name__}: {error}", *last_lines(log, 12)]),
            ) from None
    return report


async def _serve(file: Path, folder: Path, zookeeper: str) -> str:
    async with LearnersCluster(file, folder, zookeeper) as cluster:
        client = await cluster.connect()
        closed = await client.create_ledger(1, 1, 1)
        for number in range(_ENTRIES):
            await closed.add(_payload(number))
        await closed.close()
        killed = await client.create_ledger(1, 1, 1)
        confirmed = await _killed_under_way(killed, cluster)
        await cluster.restart(NAME)
        reader_of = await cluster.connect("reader")
        for ledger_id, least in ((closed.ledger_id, _ENTRIES), (killed.ledger_id, confirmed)):
            reader = await reader_of.open_ledger(ledger_id)
            found = [entry.payload async for entry in reader.read()]
            if found[:least] != [_payload(number) for number in range(least)]:
                raise Refused(
                    SURVIVES,
                    f"ledger {ledger_id}: {least} entries were acknowledged, but {len(found)} were"
                    " found after the restart",
                )
    folders = open_data_folder(folder / NAME)
    report = check_consistency(folders)
    errors = [*report.errors, *_format_errors(folders)]
    if errors or report.entry_count < _ENTRIES + confirmed:
        raise Refused(
            READABLE,
            "\n".join(errors)
            or f"it found {report.entry_count} entries, expected {_ENTRIES + confirmed}",
        )
    return (
        f"Your bookie, a process of a live cluster, acknowledged {_ENTRIES + confirmed} entries,"
        " which survived SIGKILL; labkit's shell found"
        f" {report.entry_count} entries in its files."
    )


def _format_errors(folders: BookieFolders) -> Iterator[str]:
    """Describe format errors in files from which labkit can nevertheless read the entries."""
    [journal], [ledgers] = folders.journals, folders.ledgers
    for path in sorted(
        path for each in (journal, ledgers) for path in Path(each.path("")).rglob("*.*")
    ):
        start, data = _STARTS.get(path.suffix, b""), path.read_bytes()
        if data and not data.startswith(start):
            yield f"{path.name} starts with {data[:8]!r}, expected {start!r}"
        if path.suffix == ".idx" and (len(data) - DATA_OFFSET) % _INDEX_PAGE_SIZE:
            yield f"{path.name} ends inside a page of {_INDEX_PAGE_SIZE} bytes"
    file_ids = journal_ids(journal)
    mark = read_last_mark(ledgers)
    if mark.file_id not in file_ids:
        yield f"lastMark points to {mark.file_name}, which does not exist"
    for span in journal_spans(journal, file_ids[-1]):
        if span.name == "rest":
            yield f"{file_ids[-1]:x}.txn: readers stop at offset {span.offset}, before its end"


async def _killed_under_way(writer: LedgerWriter, cluster: LocalCluster) -> int:
    """Kill the bookie while adds are in flight; return the number of acknowledged adds."""
    adds = [writer.add(_payload(number)) for number in range(_ENTRIES)]
    await adds[_ENTRIES // 2]
    await cluster.kill(NAME)
    results = await asyncio.gather(*adds, return_exceptions=True)
    return sum(not isinstance(result, BaseException) for result in results)


def _payload(number: int) -> bytes:
    return b"entry %d " % number * 20
