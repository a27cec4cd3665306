"""Tests `Writer` with bookies and metadata that respond according to a script."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

from labkit.course.checking.exercise import Refused
from labkit.course.workshop.client import contract
from labkit.course.workshop.client.scripted_cluster import ScriptedCluster
from labkit.course.workshop.learner import Learner
from labkit.system.model.entry import NO_ENTRY_ID, Entry
from labkit.system.model.errors import (
    BKException,
    BKLedgerFencedException,
    BKMetadataVersionException,
    BKTimeoutException,
)
from labkit.system.model.ledger import LedgerMetadata, LedgerState, Segment
from labkit.worlds.sim.machine.loop import DeadlockError

_METADATA = LedgerMetadata(2, 2, 2, (Segment(0, ("b0", "b1")),))


class _Bookies(ScriptedCluster):
    """Bookies that acknowledge every add, hold it back, or raise an error."""

    def __init__(self) -> None:
        super().__init__(_METADATA)
        self.entries: dict[int, Entry] = {}
        self.error: type[BKException] | None = None
        self.failing = ""
        """The bookie that does not respond."""
        self.may_acknowledge = asyncio.Event()
        self.may_acknowledge.set()

    async def add_entry(self, bookie: str, entry: Entry, *, recovery: bool = False) -> None:
        self.entries[entry.entry_id] = entry
        await asyncio.sleep(0.001)
        if self.error is not None:
            raise self.error(bookie)
        if bookie == self.failing:
            raise BKTimeoutException(bookie)
        await self.may_acknowledge.wait()

    async def writable_bookies(self) -> list[str]:
        return ["b0", "b1", "b2", "b3"]

    async def read_metadata(self) -> tuple[LedgerMetadata, int]:
        await asyncio.sleep(0.001)
        return await super().read_metadata()

    async def write_metadata(self, metadata: LedgerMetadata, version: int) -> int:
        await asyncio.sleep(0.001)
        return await super().write_metadata(metadata, version)


def entries_carry_lac_and_length(learner: Learner) -> str:
    """Check the ledger length and the LastAddConfirmed that each entry carries.

    Both must have the values that they had when the entry was assigned its id.
    """

    async def script(cluster: _Bookies, writer: Any) -> None:
        await writer.add(b"four")
        cluster.may_acknowledge.clear()
        adds = [asyncio.create_task(writer.add(payload)) for payload in (b"seven..", b"two")]
        await asyncio.sleep(0.01)
        cluster.may_acknowledge.set()
        await asyncio.gather(*adds)
        await writer.add(b"")

    cluster = _run(learner, script)
    expected = {0: (NO_ENTRY_ID, 4), 1: (0, 11), 2: (0, 14), 3: (2, 14)}
    found = {e.entry_id: (e.last_add_confirmed, e.length) for e in cluster.entries.values()}
    for entry_id, right in expected.items():
        if found.get(entry_id) != right:
            raise Refused(
                contract.ANNOUNCES,
                "entry 0 (4 bytes) is confirmed, then entries 1 and 2 (7 and 3 bytes) are added"
                " together and confirmed, then entry 3 (0 bytes) is added\n"
                f"entry {entry_id} must carry LastAddConfirmed {right[0]} and length {right[1]};"
                f" yours carries {found.get(entry_id)}",
            )
    return "Entries carry LastAddConfirmed and the length of the moment at which they get their id."


def failed_bookies_are_replaced(learner: Learner) -> str:
    """Check which ensembles a writer chooses if its bookies fail one by one but stay registered."""

    async def script(cluster: _Bookies, writer: Any) -> None:
        for cluster.failing in ("b0", "b2"):
            await writer.add(b"")

    case = (
        "E=2 on b0 and b1, Qa=2; b0 fails at entry 0, its successor b2 fails at entry 1, and b0 is"
        " writable again by then\n"
    )
    cluster = _run(learner, script)
    for metadata in cluster.changes:
        starts = [segment.first_entry_id for segment in metadata.segments]
        if len(set(starts)) < len(starts):
            raise Refused(contract.REPLACES, f"{case}your segments: {metadata.segments}")
    again = [each for each in cluster.changes[1:] if "b0" in each.segments[-1].ensemble]
    if again:
        raise Refused(contract.OUTSIDE, f"{case}your segments: {again[0].segments}")
    return "Each failed bookie was replaced by one that had not failed before."


def another_client_closed(learner: Learner) -> str:
    """Check that `close` accepts that another client has closed the ledger only if the last entry
    is the writer's own.
    """

    async def close_late(cluster: _Bookies, writer: Any) -> None:
        await writer.add(b"four")
        cluster.version = 7
        await writer.close()

    case = "entry 0 is confirmed; another client writes the metadata, OPEN as before; then close()"
    try:
        cluster = _run(learner, close_late)
    except BKException as error:
        raise Refused(contract.CONFLICT, f"{case}\nraised {type(error).__name__}") from None
    if cluster.metadata.state is not LedgerState.CLOSED:
        raise Refused(contract.CONFLICT, f"{case}\nleft it OPEN")
    for last, is_other in ((0, False), (1, True), (NO_ENTRY_ID, True)):
        stored = _METADATA.closed(last, 4)

        async def script(cluster: _Bookies, writer: Any, stored: LedgerMetadata = stored) -> None:
            await writer.add(b"four")
            cluster.metadata, cluster.version = stored, 7
            await writer.close()

        case = f"entry 0 is confirmed; another client closes the ledger at {last}; then close()\n"
        try:
            cluster = _run(learner, script)
        except BKMetadataVersionException:
            if is_other:
                continue
            raise Refused(contract.OTHER_END, f"{case}must return, but raised") from None
        if cluster.metadata != stored:
            raise Refused(contract.OTHER_END, f"{case}stored other metadata: {cluster.metadata}")
        if is_other:
            raise Refused(contract.OTHER_END, f"{case}returned, but must raise")
    return "`close` accepted another client's end only where it was the writer's own."


def fenced_writer_fails(learner: Learner) -> str:
    """Check that a fenced writer's adds fail, and that it does not change the ensemble."""
    results: list[object] = []

    async def script(cluster: _Bookies, writer: Any) -> None:
        cluster.error = BKLedgerFencedException
        adds = [asyncio.create_task(writer.add(b"")) for _ in range(2)]
        results.extend(await asyncio.gather(*adds, return_exceptions=True))
        cluster.error = None
        results.extend(await asyncio.gather(writer.add(b""), return_exceptions=True))

    cluster = _run(learner, script)
    case = "b0 and b1 respond to adds 0 and 1 with BKLedgerFencedException; then add 2 is made\n"
    if cluster.changes:
        raise Refused(contract.FENCED, f"{case}the ensemble was changed: {cluster.changes[0]}")
    for number, result in enumerate(results):
        if not isinstance(result, BKLedgerFencedException):
            raise Refused(contract.FENCED, f"{case}the result of add {number} was {result!r}")
    return "A fenced writer failed all of its adds, and changed no ensemble."


def _run(
    learner: Learner, script: Callable[[_Bookies, Any], Coroutine[Any, Any, None]]
) -> _Bookies:
    """Run a script with the learner's writer. Raises `Refused` if an add or `close` never
    returns.
    """
    cluster = _Bookies()

    async def run() -> None:
        with learner.recording_errors(may_raise=(BKException,)):
            writer = learner.part("Writer")(cluster, replace(_METADATA), cluster.version)
            async with asyncio.timeout(5.0):
                await script(cluster, writer)

    try:
        cluster.run(run())
    except (DeadlockError, TimeoutError):
        raise Refused(contract.PENDING_FAIL, "An `add` or `close` waits for ever.") from None
    return cluster
