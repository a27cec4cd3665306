"""Raw results: what each run of a benchmark measured, one JSON file for a family and a day.

    benchmarks/results/2026-11-22-storage.json

A second run of the same family on the same day replaces the first.  A file holds no path and no
name of a host, so that it can be published as it is.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path

from benchmarks.measure import Figure, Machine

RESULTS = Path(__file__).parent / "results"
BUSY_LOAD = 1.0
"""From this load average on, other programs took part of the processors."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a family of benchmarks.

    `machine` and `versions` say what was measured on what; `load` is the machine's load average
    before the run.  `remark` says what else limits the figures.
    """

    family: str
    day: str
    machine: str
    load: float
    figures: tuple[Figure, ...]
    versions: str = ""
    remark: str = ""

    @property
    def is_busy(self) -> bool:
        """Whether other programs were at work, so that figures from the clock do not count."""
        return self.load >= BUSY_LOAD

    def to_json(self) -> str:
        """The file's text, with the figures in the order of their measurement."""
        kept = asdict(self)
        kept["figures"] = [
            {name: value for name, value in figure.items() if not _is_default(value)}
            for figure in kept["figures"]
        ]
        return json.dumps(kept, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Run":
        """The run that a file holds."""
        kept = json.loads(text)
        figures = tuple(
            Figure(**figure | {"measured": tuple(figure["measured"])})
            for figure in kept.pop("figures")
        )
        return cls(**kept, figures=figures)


def _is_default(value: object) -> bool:
    return value is None or value is False or value in ("", {})


def make_run(
    family: str,
    machine: Machine,
    figures: Sequence[Figure],
    versions: str = "",
    remark: str = "",
) -> Run:
    """Today's run.  Values keep five significant digits: no figure is more precise than that."""
    rounded = tuple(figure.rounded() for figure in figures)
    today = date.today().isoformat()
    return Run(family, today, machine.words, round(machine.load, 1), rounded, versions, remark)


def store(run: Run, folder: Path = RESULTS) -> None:
    """Keep the run as a file."""
    folder.mkdir(exist_ok=True)
    (folder / f"{run.day}-{run.family}.json").write_text(run.to_json(), encoding="utf-8")


def stored_runs(folder: Path = RESULTS) -> list[Run]:
    """All runs that are kept, oldest first."""
    return [Run.from_json(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))]
