"""Compares Spark, DuckDB and Polars on one machine, with the three jobs of lesson 12.

    python -m benchmarks.spark_scale [--quick] [--minutes 45]

The files contain 5 and 50 million MessageIDs; in the two skewed files, one of the eight partitions
has 90 % of them. The engines take turns, each time in a new process with two threads. Spark and
DuckDB are set to use less than 4 GB; Polars has no such setting. The time covers everything from
opening the file to obtaining the rows of all three jobs, but not the start of the engine. All
engines must return the same rows.

"Temporary files" counts all bytes that the engine writes while running the jobs. Spark always
writes shuffled rows to disk; DuckDB and Polars write only what does not fit into memory. "Memory"
is the largest resident set of each of the engine's processes.
"""

import multiprocessing
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, perf_counter

import psutil

from benchmarks.family import benchmark_parser, measuring
from benchmarks.measure import Figure, cpu_s_of, proc_field, ratios
from benchmarks.message_ids import PARTITIONS, write_messages
from benchmarks.scale_engines import ENGINES, Engine, Found

_LIMIT_MB = 4096
_ROUNDS = 3
_EVEN, _SKEWED = 1 / PARTITIONS, 0.9


@dataclass(frozen=True, slots=True)
class Shape:
    id_count: int
    share_of_first: float
    """The first partition's share of the messages."""

    def __str__(self) -> str:
        ids = f"{self.id_count / 1e6:g} million ids"
        return ids if self.share_of_first == _EVEN else f"{ids}, skewed"


_SHAPES = [Shape(millions * 10**6, share) for millions in (5, 50) for share in (_EVEN, _SKEWED)]


@dataclass(frozen=True, slots=True)
class Outcome:
    found: Found
    seconds: float
    cpu_seconds: float
    written_mb: float
    peak_mb: float


def main() -> None:
    options = benchmark_parser(
        __doc__, quick="half a million ids", minutes=45.0, what="file or round"
    ).parse_args()
    shapes = [Shape(500_000, share) for share in (_EVEN, _SKEWED)] if options.quick else _SHAPES
    with measuring("spark-scale", only_print=options.quick) as found:
        until = monotonic() + 60 * options.minutes
        for shape in shapes:
            if monotonic() > until:
                found.left_out.append(str(shape))
            else:
                found.figures += _figures(found.folder, shape, until)


def _figures(folder: Path, shape: Shape, until: float) -> Iterator[Figure]:
    path = folder / "ids.parquet"
    write_messages(path, shape.id_count, share_of_first=shape.share_of_first)
    rounds = list[dict[str, Outcome]]()
    while len(rounds) < _ROUNDS and (not rounds or monotonic() < until):
        rounds.append({engine.__name__: _outcome(engine, path, folder) for engine in ENGINES})
        for name, outcome in rounds[-1].items():
            sys.stderr.write(f"{shape}, {name}: {outcome.seconds:.1f} s\n")
    outcomes = {name: [each[name] for each in rounds] for name in rounds[0]}
    found = _common(outcomes)
    for other in ("DuckDB", "Polars"):
        yield Figure(
            f"{shape}: time, times {other}'s",
            ratios(*([each.seconds for each in outcomes[name]] for name in ("Spark", other))),
            note=f"every engine: {found}",
        )
        yield Figure(
            f"{shape}: processor time, times {other}'s",
            ratios(*([each.cpu_seconds for each in outcomes[name]] for name in ("Spark", other))),
            is_work=True,
        )
    for name, each in outcomes.items():
        peaks = [outcome.peak_mb for outcome in each]
        yield Figure(f"{shape}: memory of {name}", peaks, " MB", at_most=_LIMIT_MB, is_work=True)
        for title, unit, values in (
            ("time", " s", [outcome.seconds for outcome in each]),
            ("processor time", " s", [outcome.cpu_seconds for outcome in each]),
            ("temporary files", " MB", [outcome.written_mb for outcome in each]),
        ):
            yield Figure(f"{shape}: {title}", values, unit, conditions={"system": name})


def _common(outcomes: Mapping[str, Sequence[Outcome]]) -> Found:
    """Return the rows that all engines found, or exit if they differ."""
    found = {outcome.found for each in outcomes.values() for outcome in each}
    if len(found) != 1:
        raise SystemExit(f"the engines found different rows: {outcomes}")
    return found.pop()


def _outcome(engine: type[Engine], path: Path, folder: Path) -> Outcome:
    context = multiprocessing.get_context("spawn")
    with (
        tempfile.TemporaryDirectory(dir=folder) as scratch,
        ProcessPoolExecutor(1, mp_context=context) as pool,
    ):
        return pool.submit(_run, engine, path, Path(scratch)).result()


def _run(engine: type[Engine], path: Path, scratch: Path) -> Outcome:
    started = engine(scratch)
    processes = [psutil.Process(), *_jvms()]
    written, cpu, began = _written_bytes(processes), cpu_s_of(*processes), perf_counter()
    found = started.run(path)
    return Outcome(
        found,
        perf_counter() - began,
        cpu_s_of(*processes) - cpu,
        (_written_bytes(processes) - written) / 2**20,
        sum(proc_field(process.pid, "status", "VmHWM") / 1024 for process in processes),
    )


def _jvms() -> list[psutil.Process]:
    # Other children are commands that Spark runs while it starts; they soon exit.
    children = psutil.Process().children(recursive=True)
    return [process for process in children if process.name() == "java"]


def _written_bytes(processes: Sequence[psutil.Process]) -> int:
    return sum(process.io_counters().write_chars for process in processes)


if __name__ == "__main__":
    main()
