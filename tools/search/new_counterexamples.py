"""Looks for the smallest scenario that breaks a variant's promise, and writes it to a file of
`labkit.worlds.sim.explore.counterexamples`.
"""

from pathlib import Path

from labkit.system.check import CHECKS
from labkit.worlds.sim.explore.counterexamples import file_name
from labkit.worlds.sim.explore.search import search
from labkit.worlds.sim.explore.shrink import Shrunk, shrink
from labkit.worlds.sim.variants.variants import VARIANTS

_SHRUNK_OF = 3
"""How many findings are shrunk."""


def smallest(variant: str, seed_count: int, jobs: int = 0) -> Shrunk | None:
    """Search random scenarios with seeds below `seed_count` for runs that break the variant's
    promise, shrink the first few, and return the smallest, or None.  Raises `KeyboardInterrupt`.
    """
    promise = VARIANTS[variant].breaks
    checks = [check for check in CHECKS if check.__name__ == promise]
    found = search(range(seed_count), variant=variant, checks=checks, stop_at=_SHRUNK_OF, jobs=jobs)
    if found.was_interrupted:
        raise KeyboardInterrupt
    shrunk = [shrink(finding.scenario, promise) for finding in found.found]
    return min(shrunk, key=_length, default=None)


def _length(shrunk: Shrunk) -> tuple[bool, int]:
    """Sort key of scenarios: those without the metadata store first, then the shortest."""
    text = repr(shrunk.scenario)
    return "zk" in text, len(text)


def keep(shrunk: Shrunk, folder: Path) -> Path:
    """Write the scenario under the name by which `counterexample` finds it."""
    path = folder / file_name(shrunk.scenario.variant)
    path.write_text(shrunk.scenario.to_json() + "\n", encoding="utf-8")
    return path
