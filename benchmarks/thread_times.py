"""Measures the processor time of each stage of an add in running processes of both systems.

    python -m benchmarks.thread_times [--quick]

The load is the same as in `benchmarks.replication`. Apache BookKeeper has a thread for each stage,
so the kernel's thread times show the stages. labkit does most of its work in one thread, so
`py-spy` samples 200 times per second which module is running, and the thread's time is divided
among the modules accordingly.
"""

import asyncio
import sys
from asyncio.subprocess import DEVNULL, Process
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path

import psutil

from benchmarks.family import benchmark_parser, measuring
from benchmarks.measure import Figure
from benchmarks.systems import BOOKKEEPER, LABKIT, System, get_apache, start_system
from tests.interop.apache import NotToBeHad

_WINDOW = 1000
_SAMPLES_PER_S = 200
_OTHER = "other"

_SOCKETS = "sockets, frames, requests and answers"
_MEMORY = "ledger, memtable, the journal's queue"
_JOURNAL = "journal: groups, write and sync"
_FLUSH = "flush: entry log and index"
_RUNTIME = "compiler and garbage collector"
_CALLER = "the program that adds"
_CLIENT = "entries, digests, quorums"

# Prefixes of thread names and modules; the kernel truncates thread names to 15 characters.
_JAVA_THREADS = {
    "bookie-io": _SOCKETS,
    "bookkeeper-io": _SOCKETS,
    "BookieWriteThre": _MEMORY,
    "BookieJournal": _JOURNAL,
    "ForceWriteThrea": _JOURNAL,
    "SortedLedgerSto": _FLUSH,
    "java": _CALLER,
    "BookKeeperClien": _CLIENT,
    "C1 ": _RUNTIME,
    "C2 ": _RUNTIME,
    "G1 ": _RUNTIME,
    "GC ": _RUNTIME,
    "VM ": _RUNTIME,
}
_MODULES = {
    "load.py": _CALLER,
    "labkit/system/client/protocol/protocol_v2.py": _SOCKETS,
    "labkit/system/client/protocol/per_channel_bookie_client.py": _SOCKETS,
    "labkit/system/client/": _CLIENT,
    "labkit/system/model/entry.py": _CLIENT,
    "labkit/system/model/": _SOCKETS,
    "labkit/system/bookie/commit.py": _JOURNAL,
    "labkit/system/bookie/": _SOCKETS,
    "labkit/worlds/live/disk": _JOURNAL,
    "labkit/worlds/live/": _SOCKETS,
    "labkit/system/storage/": _MEMORY,
    "asyncio/": _SOCKETS,
    "selectors.py": _SOCKETS,
}
_THREADS = {"journal": _JOURNAL, "flush": _FLUSH}


def main() -> None:
    quick = benchmark_parser(__doc__, quick="a shorter load").parse_args().quick
    warm_up_s, seconds = (4.0, 4.0) if quick else (24.0, 12.0)
    with measuring("thread-times", only_print=quick) as found:
        found.figures += asyncio.run(_measure(found.folder, warm_up_s, seconds))


async def _measure(folder: Path, warm_up_s: float, seconds: float) -> list[Figure]:
    figures = list[Figure]()
    for name in (BOOKKEEPER, LABKIT):
        folder_of_system = folder / name
        (folder_of_system / "classes").mkdir(parents=True)
        try:
            apache = get_apache(folder_of_system / "classes") if name == BOOKKEEPER else None
        except NotToBeHad as missing:
            sys.stderr.write(f"skipping {BOOKKEEPER}: {missing}\n")
            continue
        system = await start_system(folder_of_system, apache)
        try:
            await system.do("open", 1)
            await system.do("add", warm_up_s, _WINDOW, 0)
            figures += await _figures(system, seconds)
        finally:
            await system.stop()
    return figures


async def _figures(system: System, seconds: float) -> list[Figure]:
    processes = {"client": system.client.pid, "bookie": system.bookies[0].process.pid}
    spies = {}
    if system.name == LABKIT:
        for process, pid in processes.items():
            spies[process] = await _spy(pid, system.folder / process, seconds)
    before = {process: _thread_times(pid) for process, pid in processes.items()}
    added = await system.do("add", seconds, _WINDOW, 0)
    after = {process: _thread_times(pid) for process, pid in processes.items()}
    figures = []
    for process in processes:
        spent = {
            thread: (name, us - before[process].get(thread, (name, 0.0))[1])
            for thread, (name, us) in after[process].items()
        }
        if process in spies:
            if await spies[process].wait():
                sys.exit(f"py-spy could not sample labkit's {process}; see its message above")
            stages = _of_labkit(spent, _samples(system.folder / process))
        else:
            stages = _of_bookkeeper(spent)
        where = {"kind": system.name, "process": process}
        figures += [
            Figure(stage, (us / added["count"],), " µs", is_work=True, conditions=where)
            for stage, us in sorted(stages.items(), key=lambda each: -each[1])
            if us > 0
        ]
    return figures


async def _spy(pid: int, file: Path, seconds: float) -> Process:
    options = ("--threads", "--nonblocking", "--nolineno", "--format", "raw")
    rate = ("--rate", str(_SAMPLES_PER_S), "--duration", str(int(seconds)))
    spy = Path(sys.executable).with_name("py-spy")
    if not spy.exists():
        sys.exit("py-spy is not installed: run `pip install -c constraints.txt -e '.[bench]'`")
    return await asyncio.create_subprocess_exec(
        spy, "record", *options, *rate, "--output", file, "--pid", str(pid), stdout=DEVNULL
    )


_Times = Mapping[str, tuple[str, float]]
"""Thread id -> thread name, and user and system time in microseconds."""


def _thread_times(pid: int) -> _Times:
    found = {}
    for thread in psutil.Process(pid).threads():
        name = Path(f"/proc/{pid}/task/{thread.id}/comm").read_text().rstrip("\n")
        found[str(thread.id)] = name, (thread.user_time + thread.system_time) * 1e6
    return found


def _of_bookkeeper(times: _Times) -> dict[str, float]:
    stages = defaultdict[str, float](float)
    for name, us in times.values():
        stages[_match(_JAVA_THREADS, name)] += us
    return stages


def _of_labkit(times: _Times, samples: Mapping[str, tuple[str, Counter[str]]]) -> dict[str, float]:
    stages = defaultdict[str, float](float)
    for thread, (_, us) in times.items():
        name, modules = samples.get(thread, ("", Counter({"": 1})))
        for module, count in modules.items():
            stage = _THREADS.get(name) or _match(_MODULES, module)
            stages[stage] += us * count / modules.total()
    return stages


def _samples(file: Path) -> dict[str, tuple[str, Counter[str]]]:
    """Return the name of each thread, and its number of samples by innermost known module."""
    found: dict[str, tuple[str, Counter[str]]] = {}
    for line in file.read_text().splitlines():
        stack, count = line.rsplit(" ", 1)
        head, *frames = stack.split(";")
        thread, name = head.removeprefix("thread (").split("): ", 1)
        modules = [frame.rpartition("(")[2].rstrip(")") for frame in frames]
        known = (each for each in reversed(modules) if _match(_MODULES, each) != _OTHER)
        found.setdefault(thread, (name, Counter()))[1][next(known, "")] += int(count)
    return found


def _match(stages: Mapping[str, str], name: str) -> str:
    return next((stage for begin, stage in stages.items() if name.startswith(begin)), _OTHER)


if __name__ == "__main__":
    main()
