"""Finds the smallest scenario that breaks a variant's promise, and writes it to a file.

The files belong to `labkit.worlds.sim.explore.counterexamples`.
"""

from pathlib import Path

from labkit.system.check import CHECKS
from labkit.worlds.sim.explore.counterexamples import file_name
from labkit.worlds.sim.explore.search import search
from labkit.worlds.sim.explore.shrink import Shrunk, shrink
from labkit.worlds.sim.variants.variants import VARIANTS

_SHRUNK_OF = 3
"""How many counterexamples are shrunk before the smallest one is chosen."""


def smallest(variant: str, seed_count: int) -> Shrunk | None:
    """Return the smallest scenario that breaks the variant's promise, or None if none is found.

    Searches random scenarios with seeds below `seed_count`, and shrinks the first few that break
    it. Raises `KeyboardInterrupt`.
    """
    promise = VARIANTS[variant].breaks
    checks = [check for check in CHECKS if check.__name__ == promise]
    found = search(range(seed_count), variant=variant, checks=checks, stop_at=_SHRUNK_OF)
    if found.was_interrupted:
        raise KeyboardInterrupt
    shrunk = [shrink(finding.scenario, promise) for finding in found.found]
    return min(shrunk, key=_length, default=None)


def _length(shrunk: Shrunk) -> tuple[bool, int]:
    """Return a sort key that puts scenarios without faults of the metadata store first, and then
    short ones.
    """
    text = repr(shrunk.scenario)
    return "zk" in text, len(text)


def keep(shrunk: Shrunk, folder: Path) -> Path:
    """Write the scenario to the file from which `counterexample` loads it; return the path of this
    file.
    """
    path = folder / file_name(shrunk.scenario.variant)
    path.write_text(shrunk.scenario.to_json() + "\n", encoding="utf-8")
    return path
