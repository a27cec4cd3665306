"""The branches of the protocol's code that runs have taken, measured by coverage.py.  A branch is
one of several ways on from a line: an `if` has two.  Watching makes a run about three times as
slow, so a search watches only a sample.
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
"""The protocol's packages, in `labkit.system`."""

_ROOT = Path(labkit.system.__file__).parent
_T = TypeVar("_T")

Taken = Mapping[str, frozenset[tuple[int, int]]]
"""A module's path in `labkit.system` -> the branches taken, each from a line to a line."""


@dataclass(frozen=True, slots=True)
class Share:
    """The number of branches in a package, and of those that were taken."""

    package: str
    taken: int
    total: int


def modules() -> Iterator[str]:
    """The protocol's modules, each as its path in `labkit.system`."""
    for package in PACKAGES:
        for path in sorted((_ROOT / package).rglob("*.py")):
            yield path.relative_to(_ROOT).as_posix()


def watched(call: Callable[[], _T]) -> tuple[_T, Taken]:
    """The result of the call, and the branches that it took."""
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
    """The branches taken, package by package."""
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
    """One for all runs: Python keeps each that was ever started until the process ends."""
    return _coverage()


def _coverage() -> "Coverage":
    from coverage import Coverage  # noqa: PLC0415 - a browser's Python has no wheel of it

    include = [str(_ROOT / package / "*") for package in PACKAGES]
    return Coverage(data_file=None, branch=True, config_file=False, include=include)
