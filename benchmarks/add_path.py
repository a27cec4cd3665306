"""Measures a bookie's add path, from the received bytes to the responses, without a client or a
network.

    received bytes -> frames -> add requests -> memtable and journal -> one write and one sync for
    the group -> responses

Two groups are in flight, as they are with a busy client: while the journal thread writes one, the
event loop processes the next.
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
from labkit.system.model.wire import Code, decode_responses
from labkit.system.storage.config import StorageConfig
from labkit.system.storage.journal import Journal
from labkit.system.trace.recorder import Recorder
from labkit.worlds.live.disk import RealDisk
from labkit.worlds.live.disk_thread import DiskThread
from labkit.worlds.live.net import split_frames
from tests.ready_connection import ReadyConnection

GROUP_SIZES = (64, 256, 1024)
_CPU_GROUP_SIZE = 256
_RECEIVE_ENTRIES = 64
_LEDGER_COUNTS = (1, 16, _RECEIVE_ENTRIES)
_NO_FLUSH_INTERVAL_MS = 3_600_000
_LEAST_OF_RAW = 0.5

Groups = list[list[bytes]]
"""For each group, its entries, or the chunks of bytes in which they are received."""


def add_path_figures(folder: Path, entry_count: int, repeat_count: int) -> list[Figure]:
    """Compare the add path with the raw disk and other durable stores, for several group sizes."""
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
    """Return the ratio of the fastest repeats, which were slowed down least by other programs."""
    return f"quickest repeat of each: {min(over) / min(under):.2f}"


def bookie_seconds(folder: Path, groups: Groups, recorder: Recorder | None = None) -> float:
    """Return how long a new bookie takes to process all groups and acknowledge them."""
    empty(folder)
    wall_s, _ = asyncio.run(_serve(folder, groups, recorder or silent_recorder()))
    return wall_s


def cpu_figures(folder: Path, entry_count: int, repeat_count: int) -> list[Figure]:
    """Measure the processor time per add, which depends on other load less than throughput does."""
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
    """Return groups of add requests, split into chunks as a server receives them.

    The requests cycle through the ledgers.
    """
    entries = entries_of(entry_count, ledger_count=ledger_count)
    return [_receives(group) for group in _in_groups(entries, group_size)]


def _in_groups(entries: list[bytes], size: int) -> list[list[bytes]]:
    return [entries[at : at + size] for at in range(0, len(entries), size)]


def _receives(group: list[bytes], size: int = _RECEIVE_ENTRIES) -> list[bytes]:
    return [add_frames(some) for some in _in_groups(group, size)]


def cpu_us_of_an_add(folder: Path, client_count: int) -> float:
    """Return the processor time per add in µs, when `client_count` clients take turns."""
    groups = [_receives(group, 16) for group in _in_groups(entries_of(32 * 1024), 1024)]
    empty(folder)
    _, cpu_s = asyncio.run(_serve(folder, groups, silent_recorder(), client_count))
    return cpu_s * 1e6 / (32 * 1024)


async def _serve(
    folder: Path, groups: Groups, recorder: Recorder, client_count: int = 1
) -> tuple[float, float]:
    """Return the elapsed time and the processor time in seconds, excluding the time spent opening
    and closing the store.

    `client_count` connections take turns sending.
    """
    store = open_store(folder, recorder=recorder)
    thread = DiskThread("journal")
    bookie = Bookie(store, [thread.run], thread.run, _NO_FLUSH_INTERVAL_MS, lambda has_space: None)
    serving = asyncio.create_task(bookie.run())
    client = _Client()
    handlers = cycle([bookie.accept(client) for _ in range(client_count)])
    started, started_cpu = perf_counter(), process_time()
    sent = 0
    for group in groups:
        before = sent
        for receive in group:
            bodies, _ = split_frames(receive)
            next(handlers)(bodies)
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


class _Client(ReadyConnection):
    def __init__(self) -> None:
        self._responses: list[bytes] = []
        self._progress = asyncio.Event()

    def send(self, bodies: Sequence[bytes]) -> None:
        self._responses += bodies
        self._progress.set()

    def pause(self) -> None:
        raise RuntimeError("the bookie pauses its client: the memtable is too small for this load")

    def close(self) -> None: ...

    async def until_answered(self, count: int) -> None:
        while len(self._responses) < count:
            self._progress.clear()
            await self._progress.wait()

    def check(self) -> None:
        failed = [each for each in decode_responses(self._responses) if each.code != Code.OK]
        if failed:
            raise RuntimeError(f"the bookie rejected {len(failed)} adds; the first: {failed[0]}")


def raw_seconds(folder: Path, groups: Groups) -> float:
    """Return how long it takes to write the same bytes to a preallocated file, with one sync per
    group.

    The add path cannot be faster than this.
    """
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
    """Return how long it takes to append the same groups to a bookie's journal in one thread."""
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
    # Use the first 16 bytes of an entry as its key, because they sort in the order of (ledger id,
    # entry id).
    items = [[(entry[:16], entry) for entry in group] for group in groups]
    return peer.seconds(folder, items)


def empty(folder: Path) -> None:
    """Create the folder, or delete its contents."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
