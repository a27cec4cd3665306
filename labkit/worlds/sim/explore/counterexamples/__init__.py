"""Contains, for each variant, a file with the smallest known scenario that breaks the variant's
promise.

Each scenario was found by a search and then shrunk. To search for all of them again, run
`python -m tools.search --counterexamples FOLDER`. The correct system keeps every promise in all of
these scenarios.
"""

from importlib.resources import files

from labkit.worlds.sim.scenario.scenario import Scenario, from_json
from labkit.worlds.sim.variants.variants import VARIANTS


def counterexample(variant: str) -> Scenario:
    """Return a scenario that breaks the promise of this variant. Raises `LookupError`."""
    path = files(__name__) / file_name(variant)
    if not path.is_file():
        raise LookupError(f"no counterexample for {variant!r}; available: {', '.join(kept())}")
    return from_json(path.read_text(encoding="utf-8"))


def kept() -> list[str]:
    return [name for name in VARIANTS if name and (files(__name__) / file_name(name)).is_file()]


def file_name(variant: str) -> str:
    return variant.replace(" ", "-").replace(",", "") + ".json"
