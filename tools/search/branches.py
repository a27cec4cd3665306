"""Uses coverage.py to measure which branches of the protocol code the runs have taken.

A branch is a jump from one line to another, so an `if` has two branches. Measured runs are about
three times slower, so only a sample of a search's runs is measured, after the search.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import pyarrow as pa
from pyspark.sql.pandas.types import from_arrow_schema

import labkit.system
from labkit.worlds.sim.explore.code_version import code_version
from labkit.worlds.sim.explore.search import run_and_check
from labkit.worlds.sim.scenario.scenario import from_json

if TYPE_CHECKING:
    from coverage import Coverage
    from pyspark.sql import DataFrame, SparkSession

PACKAGES = ("autorecovery", "bookie", "client", "metadata", "storage", "topic")
"""The packages of the protocol in `labkit.system`."""

MEASURED_EVERY = 31
"""Branches are measured for only one of this many seeds, because measuring is slow. The number must
not be a multiple of 5, because every fifth seed has brokers.
"""

_SCHEMA = pa.schema(
    [
        *(("seed", pa.int64()), ("code", pa.string()), ("module", pa.string())),
        *(("line", pa.int32()), ("next_line", pa.int32())),
    ]
)
_ROOT = Path(labkit.system.__file__).parent
_T = TypeVar("_T")

Taken = Mapping[str, frozenset[tuple[int, int]]]
"""Path of a module in `labkit.system` -> the branches taken, as pairs of line numbers."""


@dataclass(frozen=True, slots=True)
class Branches:
    """The branches that were taken in the measured runs, and the number of these runs."""

    runs: int
    taken: Taken


@dataclass(frozen=True, slots=True)
class Share:
    """The number of branches in a package, and how many of them were taken."""

    package: str
    taken: int
    total: int


def measure_branches(spark: "SparkSession", runs: "DataFrame", folder: str) -> Branches:
    """Measure those sampled runs of the current code that the table in `folder` does not contain
    yet; return the branches in the whole table.
    """
    schema = from_arrow_schema(_SCHEMA)
    spark.createDataFrame([], schema).write.mode("ignore").parquet(folder)

    def measured() -> "DataFrame":
        table = spark.read.schema(schema).parquet(folder)
        return table.where(table["code"] == code_version())

    sample = runs.where(runs["code"] == code_version()).where(f"seed % {MEASURED_EVERY} = 0")
    sample = sample.select("seed", "code", "scenario").join(
        measured().select("seed").distinct(), "seed", "left_anti"
    )
    sample.mapInArrow(_branches_of, schema).repartition(1).write.mode("append").parquet(folder)
    taken: dict[str, set[tuple[int, int]]] = {}
    for row in measured().select("module", "line", "next_line").distinct().collect():
        taken.setdefault(row["module"], set()).add((row["line"], row["next_line"]))
    return Branches(
        measured().select("seed").distinct().count(),
        {module: frozenset(branches) for module, branches in taken.items()},
    )


def _branches_of(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for run in batch.to_pylist():
            _, taken = measure(partial(run_and_check, from_json(run["scenario"])))
            rows = [
                {"seed": run["seed"], "code": run["code"], "module": module}
                | {"line": line, "next_line": next_line}
                for module, branches in taken.items()
                for line, next_line in branches
            ]
            yield pa.RecordBatch.from_pylist(rows, _SCHEMA)


def modules() -> Iterator[str]:
    """Yield the path of each module of the protocol code, relative to `labkit.system`."""
    for package in PACKAGES:
        for path in sorted((_ROOT / package).rglob("*.py")):
            yield path.relative_to(_ROOT).as_posix()


def measure(call: Callable[[], _T]) -> tuple[_T, Taken]:
    cover = _coverage_of_runs()
    cover.start()
    try:
        result = call()
    finally:
        cover.stop()
        data = cover.get_data()
        taken = {
            Path(file).relative_to(_ROOT).as_posix(): frozenset(data.arcs(file) or ())
            for file in data.measured_files()
        }
        data.erase()
    return result, taken


def shares(taken: Taken) -> list[Share]:
    cover = _coverage()
    names = list(modules())
    data = cover.get_data()
    data.add_arcs({str(_ROOT / name): taken.get(name, frozenset()) for name in names})
    found = []
    for package in PACKAGES:
        mine = [name for name in names if name.startswith(f"{package}/")]
        stats = [each for name in mine for each in cover.branch_stats(str(_ROOT / name)).values()]
        found.append(
            Share(package, sum(taken for _, taken in stats), sum(total for total, _ in stats))
        )
    return found


@cache
def _coverage_of_runs() -> "Coverage":
    # Use the same object for all runs, because Python keeps every coverage object that has ever
    # been started.
    return _coverage()


def _coverage() -> "Coverage":
    from coverage import Coverage  # noqa: PLC0415 - not available for Python in a browser

    include = [str(_ROOT / package / "*") for package in PACKAGES]
    return Coverage(data_file=None, branch=True, config_file=False, include=include)
