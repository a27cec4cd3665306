"""The smallest scenario known in which each variant breaks its promise, kept as a file.

Each was found by search and shrunk; `labkit search --counterexamples` looks for all of them again.
Without its variant, nothing breaks in it.
"""

from importlib.resources import files
from pathlib import Path

from labkit.check import CHECKS
from labkit.sim.explore.search import search
from labkit.sim.explore.shrink import Shrunk, shrink
from labkit.sim.scenario import Scenario, from_json
from labkit.sim.variants import VARIANTS

_SHRUNK_OF = 3
"""How many findings are shrunk; the smallest is kept."""


def counterexample(variant: str) -> Scenario:
    """A scenario in which that variant breaks its promise (`VARIANTS[variant].breaks`).

    Raises `LookupError` for a variant of which none is kept.
    """
    path = files(__name__) / file_name(variant)
    if not path.is_file():
        raise LookupError(
            f"of {variant!r} no counterexample is kept; there are those of {', '.join(kept())}"
        )
    return from_json(path.read_text(encoding="utf-8"))


def kept() -> list[str]:
    """The variants of which a counterexample is kept."""
    return [name for name in VARIANTS if name and (files(__name__) / file_name(name)).is_file()]


def file_name(variant: str) -> str:
    """Where its scenario is kept."""
    return variant.replace(" ", "-").replace(",", "") + ".json"


def smallest(variant: str, seed_count: int, jobs: int = 0) -> Shrunk | None:
    """Look for the variant's promise to break in that many drawn scenarios, and shrink the first
    few of those in which it does; None if there are none.
    """
    promise = VARIANTS[variant].breaks
    checks = [check for check in CHECKS if check.__name__ == promise]
    found = search(range(seed_count), variant=variant, checks=checks, stop_at=_SHRUNK_OF, jobs=jobs)
    shrunk = [shrink(finding.scenario, promise) for finding in found.found]
    return min(shrunk, key=_length, default=None)


def _length(shrunk: Shrunk) -> tuple[bool, int]:
    """Short ones are good, and those in which the metadata store plays no part are better."""
    text = repr(shrunk.scenario)
    return "zk" in text, len(text)


def keep(shrunk: Shrunk, folder: Path) -> Path:
    """Write the scenario where `counterexample` finds it."""
    path = folder / file_name(shrunk.scenario.variant)
    path.write_text(shrunk.scenario.to_json() + "\n", encoding="utf-8")
    return path
