"""Measurement and reporting functions that all benchmarks share.

Absolute speed depends on the machine and its other load, but the ratio of two consecutive runs
hardly varies. Therefore, the systems being compared take turns several times. A figure is the
median of the ratios, and is reported together with the smallest and the largest ratio.
"""

import gc
import math
import os
import platform
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Times = tuple[float, float]
"""Elapsed time and processor time, in seconds."""


@dataclass(frozen=True, slots=True)
class Figure:
    """A row of results: the measured values and the goal.

    `measured` contains the values of all repeats, in `unit` ("" for a ratio). The goal, if any, is
    either `at_least` or `at_most`. `note` contains the absolute values behind a ratio. `is_work` is
    true for processor times, bytes and counts, which other load on the machine hardly affects.
    `conditions` identifies a point of a series, such as {"ledgers": 1000}. Figures with conditions
    appear in a plot, and all others in a table.
    """

    name: str
    measured: Sequence[float]
    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None
    note: str = ""
    is_work: bool = False
    conditions: Mapping[str, float | str] = field(default_factory=dict)

    @property
    def median(self) -> float:
        """The median of the repeats; there must be at least one repeat."""
        return statistics.median(self.measured)

    @property
    def seen(self) -> str:
        """The median and the range as text, in the form "median (smallest to largest)"."""
        if not self.measured:
            return "not measured"
        spread = f"{short(min(self.measured))} to {short(max(self.measured))}"
        return f"{short(self.median)}{self.unit} ({spread})"

    @property
    def goal(self) -> str:
        if self.at_least is not None:
            return f"at least {short(self.at_least)}{self.unit}"
        return "" if self.at_most is None else f"at most {short(self.at_most)}{self.unit}"

    @property
    def is_met(self) -> bool:
        """Whether the median meets the goal; False if nothing was measured."""
        if not self.measured:
            return False
        least = -math.inf if self.at_least is None else self.at_least
        most = math.inf if self.at_most is None else self.at_most
        return least <= self.median <= most

    def row(self) -> tuple[str, str, str, str, str]:
        met = ("yes" if self.is_met else "**no**") if self.goal and self.measured else ""
        return self.name, self.seen, self.goal if self.measured else "", met, self.note

    def rounded(self) -> "Figure":
        return replace(self, measured=tuple(float(f"{each:.5g}") for each in self.measured))


@dataclass(frozen=True, slots=True)
class Machine:
    """A description of the machine, and its load average before the run."""

    words: str
    load: float

    def __str__(self) -> str:
        return f"{self.words}, load average {self.load:.1f} before"


def in_turn(
    runs: Mapping[str, Callable[[], float]], repeat_count: int
) -> dict[str, tuple[float, ...]]:
    """Run all functions one after another, `repeat_count` times; return how many seconds each run
    took.
    """
    rounds = []
    for _ in range(repeat_count):
        seconds = {}
        for name, run in runs.items():
            gc.collect()
            seconds[name] = run()
        rounds.append(seconds)
    return {name: tuple(seconds[name] for seconds in rounds) for name in runs}


def ratios(over: Sequence[float], under: Sequence[float]) -> list[float]:
    return [a / b for a, b in zip(over, under, strict=True)]


def per_second(count: int, seconds: Sequence[float]) -> str:
    return f"{count / statistics.median(seconds):,.0f}/s"


def timed(work: Callable[[], object], cpu_s: Callable[[], float]) -> Times:
    """Return how long `work` takes; `cpu_s` returns the processor time used so far."""
    started, cpu_before = perf_counter(), cpu_s()
    work()
    return perf_counter() - started, cpu_s() - cpu_before


def cpu_s_of(*processes: psutil.Process) -> float:
    """Return the processor time that these processes have used so far, in seconds."""
    seconds = 0.0
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # The process has just exited.
            seconds += sum(process.cpu_times()[:2])
    return seconds


def with_descendants(process: psutil.Process) -> list[psutil.Process]:
    return [process, *process.children(recursive=True)]


def jvm_of(spark: "SparkSession") -> psutil.Process:
    assert spark._jvm is not None
    return psutil.Process(spark._jvm.java.lang.ProcessHandle.current().pid())


def proc_field(pid: int | str, file: str, field: str) -> int:
    """Return a field of a file in /proc/PID, such as VmHWM in `status`, which is in KiB."""
    lines = Path(f"/proc/{pid}/{file}").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def drop_from_cache(*paths: Path) -> None:
    """Drop the files from the page cache, so that the next read accesses the device."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def table(figures: Sequence[Figure]) -> str:
    head = ("figure", "median (smallest to largest)", "target", "met", "absolute values")
    return markdown_table(head, [figure.row() for figure in figures])


def markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(row)} |\n" for row in (head, ("---",) * len(head), *rows))


def machine(folder: Path) -> Machine:
    """Describe the machine: cores, file system of `folder`, versions and load average."""
    cores = len(os.sched_getaffinity(0))
    words = (
        f"{cores} cores ({_cpu_model()}), {_file_system(folder)}, Linux {platform.release()},"
        f" Python {platform.python_version()}"
    )
    return Machine(words, os.getloadavg()[0])


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if "model name" in line), "unknown")


def _file_system(folder: Path) -> str:
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    holding = [(point, kind) for _, point, kind, *_ in mounts if folder.is_relative_to(point)]
    return max(holding, key=lambda mount: len(mount[0]))[1]


def short(value: float) -> str:
    """Format a number with two or three digits, which is enough to compare values."""
    return f"{value:.0f}" if value >= 20 else f"{value:.2g}" if value < 0.1 else f"{value:.2f}"
