"""Measures the start-up time and the memory of a bookie process.

The bookie starts with an empty folder. When it reports that it is serving, its memory is measured.
It then receives enough adds over loopback to fill and flush several memtables, and its peak memory
is measured.
"""

import asyncio
import json
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter

from benchmarks.measure import Figure, proc_field
from benchmarks.workload import MASTER_KEY, entries_of
from labkit.system.model.wire import Code, decode_responses, encode_add
from labkit.system.storage.config import StorageConfig
from labkit.worlds.live.host.guard import guarded
from labkit.worlds.live.host.ports import LOOPBACK
from labkit.worlds.live.net import TcpNetwork
from labkit.worlds.live.zookeeper.server import EmbeddedZooKeeper

_KIB = 1024
_MIB = 1024 * 1024
_WINDOW = 1024
_BATCH = 256
_MEMTABLE_MIB = StorageConfig().skip_list_size_limit // _MIB
_LARGEST_MB = 100


async def process_figures(folder: Path, load_mib: int, repeat_count: int) -> list[Figure]:
    """Measure the start-up time and the memory of bookies, which run one after another with the
    same ZooKeeper.
    """
    starts, at_rest, peaks, shares = [], [], [], []
    async with EmbeddedZooKeeper(folder / "zookeeper") as zookeeper:
        for number in range(repeat_count):
            name = f"b{number}"
            options = ["--id", name, "--data", str(folder / name), "--zookeeper", zookeeper.address]
            command = guarded([sys.executable, "-m", "labkit", "bookie", *options])
            started = perf_counter()
            process = await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE)
            ready = await _first_line(process)
            starts.append(perf_counter() - started)
            at_rest.append(proc_field(ready["pid"], "status", "VmRSS") / _KIB)
            shares.append(proc_field(ready["pid"], "smaps_rollup", "Pss") / _KIB)
            await _load(ready["port"], load_mib * _MIB // len(entries_of(1)[0]))
            peaks.append(proc_field(ready["pid"], "status", "VmHWM") / _KIB)
            process.terminate()
            await process.wait()
    proportional = f"proportional share {min(shares):.0f} to {max(shares):.0f} MB"
    return [
        Figure("process start to serving", starts, " s", at_most=0.5, note="registration included"),
        Figure(
            "memory of a bookie at rest",
            at_rest,
            " MB",
            at_most=60,
            note=proportional,
            is_work=True,
        ),
        Figure(
            f"memory under load of {load_mib} MiB of adds, at its largest",
            peaks,
            " MB",
            at_most=_LARGEST_MB,
            is_work=True,
            note=f"memtable: {_MEMTABLE_MIB} MiB, and one as large while it is flushed",
        ),
    ]


async def _first_line(process: Process) -> dict[str, int]:
    assert process.stdout is not None
    line = await process.stdout.readline()
    if not line:
        raise RuntimeError("the bookie exited before it was serving")
    ready: dict[str, int] = json.loads(line)
    return ready


async def _load(port: int, entry_count: int) -> None:
    """Add entries, with at most `_WINDOW` of them unacknowledged."""
    acknowledged = 0
    progress = asyncio.Event()

    def on_bodies(bodies: Sequence[bytes]) -> None:
        nonlocal acknowledged
        failed = [response for response in decode_responses(bodies) if response.code != Code.OK]
        if failed:
            raise RuntimeError(f"the bookie rejected an add: {failed[0]}")
        acknowledged += len(bodies)
        progress.set()

    connection = await TcpNetwork().connect(LOOPBACK, port, on_bodies, progress.set)
    for first in range(0, entry_count, _BATCH):
        entries = entries_of(min(_BATCH, entry_count - first), first)
        connection.send([encode_add(MASTER_KEY, entry) for entry in entries])
        while acknowledged < first + len(entries) - _WINDOW:
            progress.clear()
            await progress.wait()
    while acknowledged < entry_count:
        progress.clear()
        await progress.wait()
    connection.close()
