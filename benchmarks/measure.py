"""How the benchmarks measure and what they report.

Absolute speed drifts with the machine and with what else it does; the ratio of two runs that follow
each other does not.  So whatever is compared runs in turn, a few times, and each figure is the
median of the ratios with the smallest and the largest.
"""

import gc
import math
import os
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Figure:
    """One row: what was measured against what is wanted.

    `measured` are the repeats, `unit` theirs ("" for a ratio).  Of `at_least` and `at_most` one is
    the goal; without both there is none.  `note` holds the absolute values behind it.  `is_work`
    marks processor time, bytes and counts: other programs on the machine disturb them little.
    `conditions` say at which point of a series the figure was taken, such as {"ledgers": 1000}; a
    figure with conditions belongs into a plot, and one without into a table.
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
        """The middle one of the repeats, of which there is at least one."""
        return statistics.median(self.measured)

    @property
    def seen(self) -> str:
        """Median (smallest to largest)."""
        if not self.measured:
            return "not measured"
        spread = f"{short(min(self.measured))} to {short(max(self.measured))}"
        return f"{short(self.median)}{self.unit} ({spread})"

    @property
    def goal(self) -> str:
        """The goal in words; empty without one."""
        if self.at_least is not None:
            return f"at least {short(self.at_least)}{self.unit}"
        return "" if self.at_most is None else f"at most {short(self.at_most)}{self.unit}"

    @property
    def is_met(self) -> bool:
        """Whether the median keeps the goal; false for a figure that was not measured."""
        if not self.measured:
            return False
        least = -math.inf if self.at_least is None else self.at_least
        most = math.inf if self.at_most is None else self.at_most
        return least <= self.median <= most

    def row(self) -> tuple[str, str, str, str, str]:
        """Name, median (smallest to largest), goal, whether it is met, note."""
        met = ("yes" if self.is_met else "**no**") if self.goal and self.measured else ""
        return self.name, self.seen, self.goal if self.measured else "", met, self.note

    def rounded(self) -> "Figure":
        """The same with five significant digits."""
        return replace(self, measured=tuple(float(f"{each:.5g}") for each in self.measured))


@dataclass(frozen=True, slots=True)
class Machine:
    """What the figures depend on, in words, and the load average before the run."""

    words: str
    load: float

    def __str__(self) -> str:
        return f"{self.words}, load average {self.load:.1f} before"


def in_turn(
    runs: Mapping[str, Callable[[], float]], repeat_count: int
) -> dict[str, tuple[float, ...]]:
    """What each run returns (seconds), all runs one after the other, `repeat_count` times."""
    rounds = []
    for _ in range(repeat_count):
        seconds = {}
        for name, run in runs.items():
            gc.collect()
            seconds[name] = run()
        rounds.append(seconds)
    return {name: tuple(seconds[name] for seconds in rounds) for name in runs}


def ratios(over: Sequence[float], under: Sequence[float]) -> list[float]:
    """The ratio of each repeat of one to the same repeat of the other."""
    return [a / b for a, b in zip(over, under, strict=True)]


def per_second(count: int, seconds: Sequence[float]) -> str:
    """A rate in words, from the median."""
    return f"{count / statistics.median(seconds):,.0f}/s"


def drop_from_cache(*paths: Path) -> None:
    """Make the next read of these files come from the device, as far as this machine decides."""
    for path in paths:
        fd = os.open(path, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def table(figures: Sequence[Figure]) -> str:
    """The figures as a Markdown table."""
    rows = [
        ("figure", "median (smallest to largest)", "target", "met", "absolute values"),
        ("---",) * 5,
        *(figure.row() for figure in figures),
    ]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def machine(folder: Path) -> Machine:
    """Cores, file system of `folder`, versions; and how much other work there is."""
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
    """Two or three digits: what a reader can compare."""
    return f"{value:.0f}" if value >= 20 else f"{value:.2g}" if value < 0.1 else f"{value:.2f}"
