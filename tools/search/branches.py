"""Uses coverage.py to measure which branches of the protocol code the runs have taken.

A branch is a jump from one line to another, so an `if` has two branches. Measured runs are about
three times slower, so a search measures only a sample of its runs.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import labkit.system

if TYPE_CHECKING:
    from coverage import Coverage

PACKAGES = ("autorecovery", "bookie", "client", "metadata", "storage", "topic")
"""The packages of the protocol in `labkit.system`."""

_ROOT = Path(labkit.system.__file__).parent
_T = TypeVar("_T")

Taken = Mapping[str, frozenset[tuple[int, int]]]
"""Path of a module in `labkit.system` -> the branches taken, as pairs of line numbers."""


@dataclass(frozen=True, slots=True)
class Share:
    """The number of branches in a package, and how many of them were taken."""

    package: str
    taken: int
    total: int


def modules() -> Iterator[str]:
    """Yield the path of each module of the protocol, relative to `labkit.system`."""
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
    # Use the same object for all runs, because Python keeps every coverage object that was ever
    # started.
    return _coverage()


def _coverage() -> "Coverage":
    from coverage import Coverage  # noqa: PLC0415 - not available for Python in a browser

    include = [str(_ROOT / package / "*") for package in PACKAGES]
    return Coverage(data_file=None, branch=True, config_file=False, include=include)
