"""For each variant, the smallest known scenario that breaks its promise, kept as a file.

Each was found by search and shrunk; `python -m tools.search --counterexamples FOLDER` looks for all
of them again.  Without the variant nothing breaks in its scenario.
"""

from importlib.resources import files

from labkit.worlds.sim.scenario.scenario import Scenario, from_json
from labkit.worlds.sim.variants.variants import VARIANTS


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
