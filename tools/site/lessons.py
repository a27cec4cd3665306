"""Lists the lessons, and what each lesson needs in order to run."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

from labkit.shipped_files import shipped

_NEEDS = {
    "00": "ZooKeeper and five bookies as real processes",
    "11": "ZooKeeper, bookies and brokers as real processes, and Pulsar's own client",
    "12": "a cluster of real processes and Spark",
    "13": "a cluster of real processes and Spark",
}


@dataclass(frozen=True, slots=True)
class Lesson:
    """A notebook of the course. `needs` says what the notebook needs that a browser tab cannot
    provide, or is "" if the notebook runs in a tab.
    """

    number: str
    title: str
    path: Path
    needs: str

    @property
    def in_a_tab(self) -> bool:
        return not self.needs


def lessons() -> list[Lesson]:
    return [_lesson(path) for path in sorted(shipped("notebooks").glob("[0-9][0-9]-*.ipynb"))]


def _lesson(path: Path) -> Lesson:
    number = path.name[:2]
    text = "".join(json.loads(path.read_text(encoding="utf-8"))["cells"][0]["source"])
    found = re.search(r"^# (.+)$", text, re.M)
    return Lesson(number, found[1] if found else path.stem, path, _NEEDS.get(number, ""))
