"""Measures how the cost of a unit of work grows with the numbers of ledgers, bookies, entries and
clients, and with the entry size.

    python -m benchmarks.growth [--quick] [--minutes 12]

It measures processor time, memory, and the number of bytes and write calls, because other load on
the machine hardly affects these. Each point of the storage series is measured in a process of its
own. To avoid waiting for a disk, set `TMPDIR` to an in-memory file system.
"""

import asyncio
import multiprocessing
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from time import monotonic, process_time

import psutil

from benchmarks.add_path import cpu_us_of_an_add
from benchmarks.family import benchmark_parser, measuring
from benchmarks.measure import Figure, cpu_s_of, with_descendants
from benchmarks.store_growth import AN_ENTRY, Shape, store_costs
from labkit.worlds.live.processes.cluster import LocalCluster
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.workload.steps import Write

_LEDGERS = (1, 10, 100, 1000, 10_000, 100_000)
_MANY_LEDGERS = 1000
"""With fewer ledgers, the cost per ledger is negligible compared with that of the entries."""
_ENTRIES = (100_000, 1_000_000, 10_000_000)
"""The smallest number must fill a memtable; otherwise, memory would still grow with the number."""
_SIZES = (100, 1024, 10 * 1024, 100 * 1024, 1024 * 1024)
_CLIENTS = (1, 4, 16, 64)
_SIMULATED_BOOKIES = (3, 10, 30)
_LIVE_BOOKIES = (3, 6, 9)
_QUICK = 3
"""Number of points in each series of a quick run."""
_SIMULATED_ADDS, _LIVE_ADDS, _WINDOW = 500, 20_000, 1000
_PAYLOAD = bytes(1024)
_BYTES_OF_A_SIZE = 64 * 1024 * 1024


Measured = Iterable[Figure]


def main() -> None:
    options = benchmark_parser(
        __doc__, quick="only the first points of each series", minutes=12.0
    ).parse_args()
    with measuring("growth", only_print=options.quick) as found:
        until = monotonic() + 60 * options.minutes
        for point, measure in _points(found.folder, _QUICK if options.quick else None):
            if monotonic() > until:
                found.left_out.append(point)
                continue
            for figure in measure():
                sys.stderr.write(f"{point}: {figure.name}: {figure.seen}\n")
                found.figures.append(figure)


def _points(folder: Path, most: int | None) -> Iterator[tuple[str, Callable[[], Measured]]]:
    """Yield the name of each point with a function that measures it, the shortest measurements
    first.
    """
    for count in _SIMULATED_BOOKIES[:most]:
        yield f"{count} simulated bookies", partial(_simulated, count)
    for count in _CLIENTS[:most]:
        yield f"{count} clients", partial(_clients, folder, count)
    with_one = dict[str, float]()
    for count in _LEDGERS[:4][:most]:
        yield f"{count:,} ledgers", partial(_ledgers, folder, count, with_one)
    for size in _SIZES[:most]:
        shape = Shape(1, min(20_000, _BYTES_OF_A_SIZE // size), size)
        yield f"{size:,} bytes", partial(_size_figures, folder, shape)
    for count in _ENTRIES[:most]:
        shape = Shape(ledgers=1, entries=count, payload_size=100)
        where = {"entries of a ledger": count}
        yield f"{count:,} entries", partial(_store_figures, folder, shape, where)
    for count in _LIVE_BOOKIES[:most]:
        yield f"{count} live bookies", partial(_live_figures, folder / f"live-{count}", count)
    for count in _LEDGERS[4:][:most]:
        yield f"{count:,} ledgers", partial(_ledgers, folder, count, with_one)


def _ledgers(folder: Path, count: int, with_one: dict[str, float]) -> Iterator[Figure]:
    """Measure the cost per entry, including a share of the cost of its ledger, and the cost per
    ledger.

    The cost of the ledgers is the extra cost compared to storing the same entries in a single
    ledger. The first point measures a single ledger and stores its costs in `with_one`.
    """
    entries, where = max(20_000, count), {"ledgers": count}
    for name, (value, unit) in _costs(folder, Shape(count, entries, payload_size=100)).items():
        yield _work(name, value, unit, where)
        rest = value - with_one.setdefault(name, value)
        if count < _MANY_LEDGERS:
            continue
        if unit == " MB":
            yield _work(f"{name}: a ledger's", rest * 1024 / count, " KB a ledger", where)
        elif unit.endswith(AN_ENTRY):
            of_a_ledger = unit.replace(AN_ENTRY, " a ledger")
            yield _work(f"{name}: a ledger's", rest * entries / count, of_a_ledger, where)


def _clients(folder: Path, count: int) -> Measured:
    cost = cpu_us_of_an_add(folder / "clients", count)
    yield _work("adds of a bookie", cost, " µs", {"clients": count})


def _live_figures(folder: Path, count: int) -> Measured:
    yield asyncio.run(_live(folder, count))


def _work(name: str, value: float, unit: str, where: Mapping[str, float]) -> Figure:
    return Figure(name, (value,), unit, is_work=True, conditions=where)


def _store_figures(folder: Path, shape: Shape, where: Mapping[str, float]) -> Iterator[Figure]:
    for name, (value, unit) in _costs(folder, shape).items():
        yield _work(name, value, unit, where)


def _size_figures(folder: Path, shape: Shape) -> Iterator[Figure]:
    """Measure the cost per KiB, because the cost per entry inevitably grows with its size."""
    kib = shape.payload_size / 1024
    for name, (value, unit) in _costs(folder, shape).items():
        if unit == " µs an entry":
            where = {"bytes of an entry": shape.payload_size}
            yield _work(f"{name}, of a KiB", value / kib, " µs a KiB", where)


def _costs(folder: Path, shape: Shape) -> dict[str, tuple[float, str]]:
    context = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory(dir=folder) as name,
        ProcessPoolExecutor(1, mp_context=context) as pool,
    ):
        return pool.submit(partial(store_costs, Path(name), shape)).result()


def _simulated(bookies: int) -> Iterator[Figure]:
    """Measure the cost of adds.

    The cost of starting the bookies, measured by a run with a single add, is subtracted.
    """
    idle, adding = (_costs_of_run(bookies, adds) for adds in (1, 1 + _SIMULATED_ADDS))
    for name, unit in (
        ("processor time", " µs"),
        ("steps of the world", " steps"),
        ("messages", " messages"),
    ):
        cost = (adding[name] - idle[name]) / _SIMULATED_ADDS
        yield _work(f"adds, in {name}", cost, unit, {"simulated bookies": bookies})


def _costs_of_run(bookies: int, adds: int) -> dict[str, float]:
    scenario = Scenario(Cluster(bookies), (Write(entries=adds, window=10),))
    started = process_time()
    trace = run(scenario)
    return {
        "processor time": (process_time() - started) * 1e6,
        "steps of the world": trace.step_count,
        "messages": len(trace.parcels),
    }


async def _live(folder: Path, bookies: int) -> Figure:
    async with LocalCluster(bookies, folder=folder, traced=False) as cluster:
        writer = await (await cluster.connect()).create_ledger(3, 3, 2)
        before = cpu_s_of(*with_descendants(psutil.Process()))
        for number in range(_LIVE_ADDS):
            added = writer.add(_PAYLOAD)
            if number % _WINDOW == 0:
                await added
        await added
        after = cpu_s_of(*with_descendants(psutil.Process()))
        cost = (after - before) * 1e6 / _LIVE_ADDS
        await writer.close()
    return _work("adds, client and all servers", cost, " µs", {"live bookies": bookies})


if __name__ == "__main__":
    main()
