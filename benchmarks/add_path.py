"""A bookie's journaled add path, from received bytes to answers, without client and network.

    received bytes -> frames -> add requests -> memtable and journal -> one write and one sync for
    the group -> answers

Two groups are under way, as with any client that has more to send: while the journal's thread
writes one, the event loop takes in the next.
"""

import asyncio
import os
import shutil
from collections.abc import Callable, Sequence
from functools import partial
from itertools import cycle
from pathlib import Path
from time import perf_counter, process_time

from benchmarks.measure import Figure, in_turn, per_second, ratios
from benchmarks.peers import PEERS, Peer
from benchmarks.workload import add_frames, entries_of, open_store, silent_recorder
from labkit.system.bookie.node import Bookie
from labkit.system.model.wire import Code, decode_answers
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.journal import Journal
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.disk import RealDisk
from labkit.worlds.live.disk_thread import DiskThread
from labkit.worlds.live.net import split_frames

GROUP_SIZES = (64, 256, 1024)
_CPU_GROUP_SIZE = 256
_RECEIVE_ENTRIES = 64
_LEDGER_COUNTS = (1, 16, _RECEIVE_ENTRIES)
_NO_FLUSH_INTERVAL_MS = 3_600_000
_LEAST_OF_RAW = 0.5

Groups = list[list[bytes]]
"""Of each group the receives that bring it, or its entries."""


def add_path_figures(folder: Path, entry_count: int, repeat_count: int) -> list[Figure]:
    """The add path against the raw disk and against other durable stores, by group size."""
    entries = entries_of(entry_count)
    raw: list[Figure] = []
    against: list[Figure] = []
    for size in GROUP_SIZES:
        groups = _in_groups(entries, size)
        receives = [_receives(group) for group in groups]
        runs: dict[str, Callable[[], float]] = {
            "raw": partial(raw_seconds, folder / "raw", groups),
            "journal": partial(_journal_seconds, folder / "journal", groups),
            "labkit": partial(bookie_seconds, folder / "bookie", receives),
        }
        for peer in PEERS:
            if not peer.missing:
                runs[peer.name] = partial(_peer_seconds, folder / "peer", peer, groups)
        seconds = in_turn(runs, repeat_count)
        ours = per_second(entry_count, seconds["labkit"])
        limit = per_second(entry_count, seconds["raw"])
        raw.append(
            Figure(
                f"adds in groups of {size}, of raw append + fdatasync",
                ratios(seconds["raw"], seconds["labkit"]),
                at_least=_LEAST_OF_RAW,
                note=f"{ours} of {limit}; {_quickest(seconds['raw'], seconds['labkit'])}",
            )
        )
        raw.append(
            Figure(
                f"the journal alone in groups of {size}, of raw append + fdatasync",
                ratios(seconds["raw"], seconds["journal"]),
                note=f"{per_second(entry_count, seconds['journal'])} of {limit}",
            )
        )
        raw.append(
            Figure(
                f"time that half of raw leaves for an add in groups of {size}",
                [1e6 * each / _LEAST_OF_RAW / entry_count for each in seconds["raw"]],
                " µs",
            )
        )
        against += (_against(peer, size, entry_count, ours, seconds) for peer in PEERS)
    return raw + against


def _against(
    peer: Peer, size: int, entry_count: int, ours: str, seconds: dict[str, tuple[float, ...]]
) -> Figure:
    name = f"adds in groups of {size}, times {peer.name}"
    if peer.missing:
        return Figure(name, (), at_least=peer.target, note=peer.missing)
    theirs = seconds[peer.name]
    quickest = _quickest(theirs, seconds["labkit"])
    note = f"{ours} to {per_second(entry_count, theirs)}; {quickest}"
    return Figure(name, ratios(theirs, seconds["labkit"]), at_least=peer.target, note=note)


def _quickest(over: Sequence[float], under: Sequence[float]) -> str:
    """What is left of a ratio when both had the machine nearly to themselves."""
    return f"quickest repeat of each: {min(over) / min(under):.2f}"


def bookie_seconds(folder: Path, groups: Groups, recorder: Recorder | None = None) -> float:
    """Time for a new bookie to take and acknowledge all groups of receives."""
    empty(folder)
    wall_s, _ = asyncio.run(_serve(folder, groups, recorder or silent_recorder()))
    return wall_s


def cpu_figures(folder: Path, entry_count: int, repeat_count: int) -> list[Figure]:
    """Processor time of the add path: steadier than speed while the machine has other work."""
    figures = []
    for ledger_count in _LEDGER_COUNTS:
        groups = receives_of(entry_count, _CPU_GROUP_SIZE, ledger_count)
        cpu_us = []
        for _ in range(repeat_count):
            empty(folder)
            _, cpu_s = asyncio.run(_serve(folder, groups, silent_recorder()))
            cpu_us.append(cpu_s * 1e6 / entry_count)
        ledgers = "one ledger" if ledger_count == 1 else f"{ledger_count} ledgers in turn"
        name = f"processor time of an add in groups of {_CPU_GROUP_SIZE}, {ledgers}"
        figures.append(Figure(name, cpu_us, " µs", is_work=True))
    return figures


def receives_of(entry_count: int, group_size: int, ledger_count: int = 1) -> Groups:
    """Add requests in groups, as receives, to `ledger_count` ledgers in turn."""
    entries = entries_of(entry_count, ledger_count=ledger_count)
    return [_receives(group) for group in _in_groups(entries, group_size)]


def _in_groups(entries: list[bytes], size: int) -> list[list[bytes]]:
    return [entries[at : at + size] for at in range(0, len(entries), size)]


def _receives(group: list[bytes], size: int = _RECEIVE_ENTRIES) -> list[bytes]:
    return [add_frames(some) for some in _in_groups(group, size)]


def cpu_us_of_an_add(folder: Path, client_count: int) -> float:
    """Microseconds of processor time of an add; `client_count` clients send in turn."""
    groups = [_receives(group, 16) for group in _in_groups(entries_of(32 * 1024), 1024)]
    empty(folder)
    _, cpu_s = asyncio.run(_serve(folder, groups, silent_recorder(), client_count))
    return cpu_s * 1e6 / (32 * 1024)


async def _serve(
    folder: Path, groups: Groups, recorder: Recorder, client_count: int = 1
) -> tuple[float, float]:
    """Seconds on the clock and of the processor, opening and closing left out.

    `client_count` connections bring the receives in turn.
    """
    store = open_store(folder, recorder=recorder)
    thread = DiskThread("journal")
    bookie = Bookie(store, [thread.run], thread.run, _NO_FLUSH_INTERVAL_MS, lambda has_space: None)
    serving = asyncio.create_task(bookie.run())
    client = _Client()
    takes = cycle([bookie.accept(client) for _ in range(client_count)])
    started, started_cpu = perf_counter(), process_time()
    sent = 0
    for group in groups:
        before = sent
        for receive in group:
            bodies, _ = split_frames(receive)
            next(takes)(bodies)
            sent += len(bodies)
        await client.until_answered(before)
    await client.until_answered(sent)
    seconds = perf_counter() - started, process_time() - started_cpu
    client.check()
    serving.cancel()
    await asyncio.wait([serving])
    thread.join()
    store.journals[0].close()
    return seconds


class _Client:
    """The other end of the bookie's connection."""

    is_writable = True

    def __init__(self) -> None:
        self._answers: list[bytes] = []
        self._progress = asyncio.Event()

    def send(self, bodies: Sequence[bytes]) -> None:
        self._answers += bodies
        self._progress.set()

    def pause(self) -> None:
        raise RuntimeError("the bookie holds its client back: the memtable is too small for this")

    def resume(self) -> None:
        """Never paused."""

    def close(self) -> None:
        """Nothing to close."""

    def when_closed(self, then: Callable[[], None]) -> None:
        """Never closed."""

    def when_writable(self, then: Callable[[], None]) -> None:
        """It is all the time."""

    async def until_answered(self, count: int) -> None:
        while len(self._answers) < count:
            self._progress.clear()
            await self._progress.wait()

    def check(self) -> None:
        refused = [answer for answer in decode_answers(self._answers) if answer.code != Code.OK]
        if refused:
            raise RuntimeError(f"the bookie refused {len(refused)} adds, first {refused[0]}")


def raw_seconds(folder: Path, groups: Groups) -> float:
    """The limit: the same bytes into a file that was written once before, one sync per group."""
    empty(folder)
    writes = [b"".join(group) for group in groups]
    fd = os.open(folder / "raw", os.O_RDWR | os.O_CREAT)
    for data in writes:
        os.write(fd, bytes(len(data)))
    os.fsync(fd)
    offset = 0
    started = perf_counter()
    for data in writes:
        os.pwrite(fd, data, offset)
        os.fdatasync(fd)
        offset += len(data)
    seconds = perf_counter() - started
    os.close(fd)
    return seconds


def _journal_seconds(folder: Path, groups: Groups) -> float:
    """Records into a bookie's journal in the same groups, in one thread."""
    empty(folder)
    journal = Journal(RealDisk(folder), StorageConfig(), first_file_id=1)
    started = perf_counter()
    for group in groups:
        journal.append(*group)
        journal.commit()
    seconds = perf_counter() - started
    journal.close()
    return seconds


def _peer_seconds(folder: Path, peer: Peer, groups: Groups) -> float:
    empty(folder)
    # A key sorts like (ledger, entry): the first 16 bytes of an entry.
    items = [[(entry[:16], entry) for entry in group] for group in groups]
    return peer.seconds(folder, items)


def empty(folder: Path) -> None:
    """Make the folder, and make it empty."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
