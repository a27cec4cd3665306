"""Stores the raw results of benchmarks in one JSON file per family and day.

    benchmarks/results/2026-11-22-storage.json

If a family runs twice on the same day, the second run replaces the first. The files contain no
paths and no host names, so they can be published.
"""

import json
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.measure import Figure

RESULTS = Path(__file__).parent / "results"
BUSY_LOAD = 1.0
"""From this load average on, other programs are considered to be using the processors."""


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a benchmark family.

    `versions` and `machine` describe what was measured and where; `load` is the load average before
    the run. `remark` describes any other limitations of the figures.
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
        """Whether other programs were running, which makes elapsed times unreliable."""
        return self.load >= BUSY_LOAD

    def to_json(self) -> str:
        data = asdict(self)
        data["figures"] = [
            {name: value for name, value in figure.items() if not _is_default(value)}
            for figure in data["figures"]
        ]
        return json.dumps(data, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Run":
        data = json.loads(text)
        figures = tuple(
            Figure(**figure | {"measured": tuple(figure["measured"])})
            for figure in data.pop("figures")
        )
        return cls(**data, figures=figures)


def _is_default(value: object) -> bool:
    return value is None or value is False or value in ("", {})


def store(run: Run, folder: Path = RESULTS) -> None:
    folder.mkdir(exist_ok=True)
    (folder / f"{run.day}-{run.family}.json").write_text(run.to_json(), encoding="utf-8")


def stored_runs(folder: Path = RESULTS) -> list[Run]:
    return [Run.from_json(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))]
