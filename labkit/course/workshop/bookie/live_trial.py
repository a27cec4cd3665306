"""Tests step 8, which runs the learner's bookie as a process of a live cluster.

This is a separate module because a browser can load the steps but not start processes.
"""

import asyncio
from pathlib import Path
from tempfile import TemporaryDirectory

from labkit.course.checking.exercise import Refused
from labkit.course.workshop.bookie.contract import READABLE, SURVIVES
from labkit.course.workshop.files import last_lines
from labkit.course.workshop.learner import Learner
from labkit.system.client.writer import LedgerWriter
from labkit.system.model.errors import LabkitError
from labkit.system.model.missing_part import MissingPart
from labkit.views.shell.consistency import check_consistency
from labkit.views.shell.folders import open_data_folder
from labkit.worlds.live.processes.cluster import LocalCluster
from labkit.worlds.live.zookeeper.server import ZooKeeperNotStarted
from labkit.worlds.sim.run import outside_event_loops

NAME = "b0"
_ENTRIES = 200
_LIMIT_S = 120.0


class LearnersCluster(LocalCluster):
    """A cluster whose only bookie is the learner's, so every response comes from it."""

    def __init__(self, file: Path, folder: Path, zookeeper: str = "") -> None:
        super().__init__(1, zookeeper=zookeeper, folder=folder, traced=False)
        self.file = file

    def command_of(self, name: str, command: list[str]) -> list[str]:
        return [*command, "--store", str(self.file)]


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
    report = check_consistency(open_data_folder(folder / NAME))
    if report.errors or report.entry_count < _ENTRIES + confirmed:
        raise Refused(
            READABLE,
            "\n".join(report.errors)
            or f"it found {report.entry_count} entries, expected {_ENTRIES + confirmed}",
        )
    return (
        f"Your bookie, a process of a live cluster, acknowledged {_ENTRIES + confirmed} entries,"
        " which survived SIGKILL; labkit's shell found"
        f" {report.entry_count} entries in its files."
    )


async def _killed_under_way(writer: LedgerWriter, cluster: LocalCluster) -> int:
    """Kill the bookie while adds are in flight; return the number of acknowledged adds."""
    adds = [writer.add(_payload(number)) for number in range(_ENTRIES)]
    await adds[_ENTRIES // 2]
    await cluster.kill(NAME)
    results = await asyncio.gather(*adds, return_exceptions=True)
    return sum(not isinstance(result, BaseException) for result in results)


def _payload(number: int) -> bytes:
    return b"entry %d " % number * 20
