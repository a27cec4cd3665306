"""How the benchmarks measure and what they report.

Absolute speed drifts with the machine and with what else it does; the ratio of two runs that follow
each other does not.  So whatever is compared runs in turn, a few times, and each figure is the
median of the ratios with the smallest and the largest.
"""

import gc
import os
import platform
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Figure:
    """One row of the table: what came out against what was wanted.

    `measured` are the repeats, `unit` theirs ("" for a ratio).  Of `at_least` and `at_most` one is
    the target; without both there is none.  `note` holds the absolute values behind it.
    """

    name: str
    measured: Sequence[float]
    unit: str = ""
    at_least: float | None = None
    at_most: float | None = None
    note: str = ""

    def row(self) -> tuple[str, str, str, str, str]:
        """Name, median (smallest to largest), target, whether it is met, note."""
        if not self.measured:
            return self.name, "not measured", "", "", self.note
        median = statistics.median(self.measured)
        spread = f"{_short(min(self.measured))} to {_short(max(self.measured))}"
        target, met = "", ""
        if self.at_least is not None:
            target = f"at least {_short(self.at_least)}{self.unit}"
            met = "yes" if median >= self.at_least else "**no**"
        elif self.at_most is not None:
            target = f"at most {_short(self.at_most)}{self.unit}"
            met = "yes" if median <= self.at_most else "**no**"
        return self.name, f"{_short(median)}{self.unit} ({spread})", target, met, self.note


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


def machine(folder: Path) -> str:
    """What the figures depend on: cores, other work, file system of `folder`, versions."""
    cores = len(os.sched_getaffinity(0))
    return (
        f"{cores} cores ({_cpu_model()}), {_file_system(folder)}, Linux {platform.release()},"
        f" Python {platform.python_version()}, load average {os.getloadavg()[0]:.1f} before"
    )


def _cpu_model() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":")[1].strip() for line in lines if "model name" in line), "unknown")


def _file_system(folder: Path) -> str:
    mounts = (line.split() for line in Path("/proc/mounts").read_text().splitlines())
    holding = [(point, kind) for _, point, kind, *_ in mounts if folder.is_relative_to(point)]
    return max(holding, key=lambda mount: len(mount[0]))[1]


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 20 else f"{value:.2g}" if value < 0.1 else f"{value:.2f}"
