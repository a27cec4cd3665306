"""For each variant, the smallest known scenario that breaks its promise, kept as a file.

Each was found by search and shrunk; `labkit search --counterexamples` looks for all of them again.
Without the variant nothing breaks in its scenario.
"""

from importlib.resources import files
from pathlib import Path

from labkit.system.check import CHECKS
from labkit.worlds.sim.explore.search import search
from labkit.worlds.sim.explore.shrink import Shrunk, shrink
from labkit.worlds.sim.scenario.scenario import Scenario, from_json
from labkit.worlds.sim.variants.variants import VARIANTS

_SHRUNK_OF = 3
"""How many findings are shrunk; the smallest is kept."""


def counterexample(variant: str) -> Scenario:
    """A scenario in which the variant breaks its promise (`VARIANTS[variant].breaks`).

    Raises `LookupError` for a variant without one.
    """
    path = files(__name__) / file_name(variant)
    if not path.is_file():
        raise LookupError(
            f"of {variant!r} no counterexample is kept; there are those of {', '.join(kept())}"
        )
    return from_json(path.read_text(encoding="utf-8"))


def kept() -> list[str]:
    """The variants that have a counterexample."""
    return [name for name in VARIANTS if name and (files(__name__) / file_name(name)).is_file()]


def file_name(variant: str) -> str:
    """The name of the variant's file."""
    return variant.replace(" ", "-").replace(",", "") + ".json"


def smallest(variant: str, seed_count: int, jobs: int = 0) -> Shrunk | None:
    """Search `seed_count` drawn scenarios for ones that break the variant's promise, and shrink the
    first few; None if there are none.  Raises KeyboardInterrupt at Ctrl-C.
    """
    promise = VARIANTS[variant].breaks
    checks = [check for check in CHECKS if check.__name__ == promise]
    found = search(range(seed_count), variant=variant, checks=checks, stop_at=_SHRUNK_OF, jobs=jobs)
    if found.was_interrupted:
        raise KeyboardInterrupt
    shrunk = [shrink(finding.scenario, promise) for finding in found.found]
    return min(shrunk, key=_length, default=None)


def _length(shrunk: Shrunk) -> tuple[bool, int]:
    """The order of scenarios: short ones are better, most of all without the metadata store."""
    text = repr(shrunk.scenario)
    return "zk" in text, len(text)


def keep(shrunk: Shrunk, folder: Path) -> Path:
    """Write the scenario where `counterexample` finds it."""
    path = folder / file_name(shrunk.scenario.variant)
    path.write_text(shrunk.scenario.to_json() + "\n", encoding="utf-8")
    return path
