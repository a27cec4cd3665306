"""Tests step 7, which runs the learner's program in a live cluster.

This is a separate module because a browser can load the steps but not start processes.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from labkit.course.checking.refused import Refused
from labkit.course.runs.timeline import LiveRunCounterexample
from labkit.course.workshop.client.cluster import Cluster
from labkit.course.workshop.client.contract import READABLE, SURVIVES, TAKEN_OVER
from labkit.course.workshop.client.process import PATIENT
from labkit.course.workshop.client.program import Program, Sizes
from labkit.course.workshop.client.running import ProgramProcess, run_to_end, start_program
from labkit.course.workshop.learner import Learner
from labkit.system.check import Outcome, Verdict, explain
from labkit.system.client.bookkeeper import BookKeeper
from labkit.system.client.striping import write_set
from labkit.system.model.errors import BKException, LabkitError
from labkit.system.model.ledger import LedgerMetadata, LedgerState
from labkit.system.model.missing_part import MissingPart
from labkit.system.trace.log import TraceLog
from labkit.views.shell.cluster.state import ledgermetadata, readledger
from labkit.worlds.live.processes.cluster import LocalCluster
from labkit.worlds.live.processes.node_process import NodeNotStartedError
from labkit.worlds.live.zookeeper.server import ZooKeeperNotStarted
from labkit.worlds.sim.run import outside_event_loops

_ENTRIES = 30
_SIZES = (3, 3, 2)
_STRIPED = (3, 2, 2)
_LIMIT_S = 360.0
_MILESTONES = (
    *("ledger.created", "ensemble.set", "ledger.closed", "node.killed"),
    *("recovery.started", "recovery.ended", "node.paused", "node.resumed"),
)
_COST_ENTRIES, _COST_WINDOW, _COST_ROUNDS = 1000, 100, 3


@dataclass(frozen=True, slots=True)
class LiveResult:
    """The trial's result, for a program that passed.

    your_ms, our_ms: the processor time that the learner's program and labkit's client took to write
        the same entries (the minimum of three rounds each)
    """

    report: str
    your_ms: float
    our_ms: float


def serves_a_cluster(learner: Learner) -> LiveResult:
    """Test the program in a live cluster, and measure how much processor time it uses.

    Running as a process, the program takes over the ledger of a stopped writer, and keeps working
    when a bookie is killed. Then labkit's client and shell read every entry that the program
    confirmed.
    """
    with TemporaryDirectory(prefix="labkit-", ignore_cleanup_errors=True) as folder:
        try:
            return outside_event_loops(lambda: asyncio.run(_serve(learner, Path(folder))))
        except (MissingPart, ZooKeeperNotStarted, NodeNotStartedError) as error:
            raise Refused(
                f"A live cluster cannot be started here: {error}\nIt needs Linux or macOS, Java and"
                " ZooKeeper's jars; run `labkit doctor` to see what is missing."
            ) from None
        except (LabkitError, TimeoutError, OSError) as error:
            raise Refused(
                f"Your program must end within {_LIMIT_S:.0f} s in a live cluster.",
                f"{type(error).__name__}: {error}",
            ) from None


async def _serve(learner: Learner, folder: Path) -> LiveResult:
    async with asyncio.timeout(_LIMIT_S), LocalCluster(4, folder=folder, traced=False) as cluster:
        # Measure before tracing starts, because handling the events would take processor time, too.
        your_ms, our_ms = await _processor_times(learner, cluster)
        await cluster.start_tracing()
        client = await cluster.connect("reader", config=PATIENT)
        live = _Live(cluster, learner.file.absolute(), client)
        try:
            report = f"{await _take_over(live)} {await _lose_a_bookie(live)}"
        except Refused as refused:
            await cluster.settled()
            raise Refused(refused.message, _shown(cluster.trace, refused, live)) from None
        finally:
            await live.kill_all()
    return LiveResult(report, your_ms, our_ms)


async def _processor_times(learner: Learner, cluster: LocalCluster) -> tuple[float, float]:
    """Measure both clients in alternating rounds, so that the results are comparable."""
    client = await cluster.connect(config=PATIENT)
    yours, ours = [], []
    for _ in range(_COST_ROUNDS):
        yours.append(await _processor_ms(_write_with_learners(learner, client)))
        ours.append(await _processor_ms(_write_with_labkits(client)))
    return min(yours), min(ours)


async def _write_with_learners(learner: Learner, client: BookKeeper) -> None:
    failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    program = Program(learner, client.context, failed.set_exception)
    window = _COST_WINDOW
    write = program.write(_SIZES, _payloads(), window, lambda _: None, lambda _: None)
    writing = asyncio.ensure_future(write)
    await asyncio.wait((writing, failed), return_when=asyncio.FIRST_COMPLETED)
    if failed.done():
        writing.cancel()
        failed.result()
    failed.cancel()
    await writing


async def _write_with_labkits(client: BookKeeper) -> None:
    writer = await client.create_ledger(*_SIZES)
    room = asyncio.Semaphore(_COST_WINDOW)
    async for payload in _payloads():
        await room.acquire()
        writer.add(payload).add_done_callback(lambda _: room.release())
    await writer.all_confirmed()
    await writer.close()


async def _payloads() -> AsyncIterator[bytes]:
    for number in range(_COST_ENTRIES):
        yield b"entry %d " % number * 10


async def _processor_ms(writing: Awaitable[None]) -> float:
    begin = time.process_time()
    await writing
    return (time.process_time() - begin) * 1000


class _Live:
    def __init__(self, cluster: LocalCluster, file: Path, client: BookKeeper) -> None:
        self.cluster = cluster
        self.client = client
        self.ledger_id = -1
        self._file = file
        self._programs: list[ProgramProcess] = []

    async def write(self, name: str, sizes: Sizes) -> ProgramProcess:
        numbers = ",".join(map(str, sizes))
        program = await self._start(name, "write", "--sizes", numbers, "--window", "8")
        await program.wait_for_lines(1, "ledger")
        self.ledger_id = program.numbers("ledger")[0]
        return program

    async def take(self) -> ProgramProcess:
        return await run_to_end(await self._start("r", "take", str(self.ledger_id)))

    async def kill_all(self) -> None:
        """Kill the programs and the bookies. If the bookies were stopped normally, they would flush
        entries that nobody reads.
        """
        for program in self._programs:
            await program.kill()
        for name in filter(self.cluster.is_up, self.cluster.bookie_names):
            await self.cluster.kill(name)

    async def _start(self, name: str, *arguments: str) -> ProgramProcess:
        folder, zookeeper = self.cluster.folder, self.cluster.zookeeper
        program = await start_program(
            self._file, name, folder, zookeeper, arguments, self.cluster.trace.add
        )
        self._programs.append(program)
        return program

    async def read_closed_ledger(self, least: int) -> LedgerMetadata:
        """Read the closed ledger with labkit's shell, compare its entries, and return its metadata.

        Raises `Refused` unless the ledger has at least `least` entries, each of which is stored on
        at least Qa of the bookies listed in the metadata.
        """
        metadata = (await ledgermetadata(self.client, self.ledger_id)).metadata
        if metadata.state is not LedgerState.CLOSED:
            raise Refused(
                f"{READABLE} The ledger must be CLOSED; labkit's shell shows {metadata.state.name}."
            )
        try:
            found = [each.data async for each in readledger(self.client, self.ledger_id)]
        except BKException as error:
            raise Refused(
                f"{READABLE} labkit's client cannot read the ledger: {type(error).__name__}:"
                f" {error}."
            ) from None
        if len(found) < least or found != [_line(number) for number in range(len(found))]:
            raise Refused(
                f"{SURVIVES} {least} were confirmed, but labkit's client read {len(found)}:"
                f" {found[:2]} ... {found[-1:]}."
            )
        await self._check_copies(metadata)
        return metadata

    async def _check_copies(self, metadata: LedgerMetadata) -> None:
        cluster = Cluster(self.ledger_id, metadata, self.client.context)
        sizes = metadata.ensemble_size, metadata.write_quorum
        for entry_id in range(metadata.last_entry_id + 1):
            ensemble = metadata.ensemble_at(entry_id)
            names = [ensemble[place] for place in write_set(entry_id, *sizes)]
            # Assume that a killed bookie has the entries that it acknowledged.
            have = [each for each in names if not self.cluster.is_up(each)]
            for bookie in names:
                if bookie not in have and await _has(cluster, bookie, entry_id):
                    have.append(bookie)
            if len(have) < metadata.ack_quorum:
                raise Refused(
                    f"{SURVIVES} Entry {entry_id} was confirmed, so {metadata.ack_quorum} of"
                    " the bookies in"
                    f" the metadata, {', '.join(names)}, must have it. It is on"
                    f" {', '.join(have) or 'none of them'}."
                )


async def _has(cluster: Cluster, bookie: str, entry_id: int) -> bool:
    try:
        await cluster.read_entry(bookie, entry_id)
    except BKException:
        return False
    return True


async def _take_over(live: _Live) -> str:
    writer = await live.write("w1", _SIZES)
    await writer.give(_lines(0, _ENTRIES))
    await writer.wait_for_lines(_ENTRIES, "confirmed")
    await writer.stop()
    await writer.give(_lines(_ENTRIES, 2 * _ENTRIES))
    taker = await live.take()
    taken = len(taker.numbers("entry"))
    if taken < _ENTRIES:
        raise Refused(
            f"{SURVIVES} The first program had"
            f" {_ENTRIES} entries confirmed when it was stopped (SIGSTOP), but the second one found"
            f" {taken} and closed the ledger at entry {taken - 1}."
        )
    writer.resume()
    await writer.close_input()
    code = await writer.ended()
    late = [number for number in writer.numbers("confirmed") if number >= taken]
    if late:
        raise Refused(
            f"{TAKEN_OVER} The ledger was closed at entry {taken - 1}. The first program, which"
            f" was only stopped, resumed and confirmed {len(late)} more, entries {late[0]} to"
            f" {late[-1]}: they are lost. Fencing makes enough bookies reject them."
        )
    if code == 0:
        raise Refused(
            f"{TAKEN_OVER} The first program resumed after the take-over, its adds were"
            " rejected, and it still exited with status 0: it must report the failure to its user."
        )
    await live.read_closed_ledger(_ENTRIES)
    return (
        f"Your program, running as a process, took over {taken} entries from a stopped writer,"
        f" which then ended with {writer.error()};"
    )


async def _lose_a_bookie(live: _Live) -> str:
    writer = await live.write("w2", _STRIPED)
    await writer.give(_lines(0, _ENTRIES))
    await writer.wait_for_lines(_ENTRIES // 3, "confirmed")
    before = (await ledgermetadata(live.client, live.ledger_id)).metadata
    killed = before.segments[-1].ensemble[1]
    await live.cluster.kill(killed)
    await writer.give(_lines(_ENTRIES, 2 * _ENTRIES))
    await writer.wait_for_lines(2 * _ENTRIES, "confirmed")
    # Read the metadata before the ledger is closed, because closing rewrites it.
    stored = (await ledgermetadata(live.client, live.ledger_id)).metadata.segments[-1].ensemble
    if killed in stored:
        raise Refused(
            f"{READABLE} {killed} was killed in mid-write; all {2 * _ENTRIES} entries are"
            " confirmed, but the"
            f" ledger's last ensemble in ZooKeeper is still {', '.join(stored)}, where readers and"
            " recoveries look for them."
        )
    await run_to_end(writer)
    metadata = await live.read_closed_ledger(2 * _ENTRIES)
    return (
        f"{2 * _ENTRIES} entries survived the kill of {killed}, in {len(metadata.segments)}"
        " segments, and labkit's shell read them."
    )


def _line(number: int) -> bytes:
    return b"entry %d" % number


def _lines(first: int, end: int) -> bytes:
    return b"".join(_line(number) + b"\n" for number in range(first, end))


def _shown(trace: TraceLog, refused: Refused, live: _Live) -> LiveRunCounterexample:
    of_nodes = ("node.killed", "node.paused", "node.resumed")
    seqs = [
        event.seq
        for event in trace.events
        if event.kind in _MILESTONES and (event.ledger == live.ledger_id or event.kind in of_nodes)
    ]
    reason = refused.message if refused.counterexample is None else str(refused.counterexample)
    last = seqs[-1] if seqs else -1
    verdict = Verdict("What happened", "", Outcome.INVALID, 1, reason, last, witnesses=tuple(seqs))
    return LiveRunCounterexample(trace, explain(verdict, trace.events))
