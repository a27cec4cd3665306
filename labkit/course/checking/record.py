"""Saves a learner's predictions and hints if the learner agrees.

Predictions and hints are saved in a single file next to the notebook, with one JSON object per
line. The existence of the file is the learner's consent: the switch shown by `record` creates and
deletes the file, nothing is written unless the file exists, and deleting the file by hand also
withdraws consent. If a learner hands in the file, `labkit grade` counts the wrong predictions and
the hints in it.

    {"event": "consent"}
    {"event": "predicted", "name": "padding", "predicted": "12"}
    {"event": "compared", "name": "padding", "predicted": "12", "truth": "8", "is_right": false}
    {"event": "hint", "name": "entry.pack", "hint": 1}
"""

import json
from pathlib import Path

from ipywidgets import Checkbox

FILE = "my-record.jsonl"
LABEL = f"Save my predictions and hints in {FILE}, beside this notebook"


class Switch(Checkbox):  # type: ignore[misc]
    """A switch that is on while the file exists; turning it off deletes the file."""

    def __init__(self) -> None:
        super().__init__(
            value=Path(FILE).exists(),
            description=LABEL,
            indent=False,
            layout={"width": "auto"},
        )
        self.observe(self._on_switch, "value")

    def _on_switch(self, change: dict[str, object]) -> None:
        if not change["new"]:
            Path(FILE).unlink(missing_ok=True)
        elif not Path(FILE).exists():
            Path(FILE).write_text(_line(event="consent"), encoding="utf-8")

    def __repr__(self) -> str:
        return f"{'☑' if self.value else '☐'} {LABEL}"


def record() -> Switch:
    """Return a switch that turns the saving of predictions and hints on or off."""
    return Switch()


def append_record(**noted: object) -> None:
    """Append a line to the record if the learner has turned recording on.

    Raises `OSError` if the file cannot be written.
    """
    if Path(FILE).exists():
        with Path(FILE).open("a", encoding="utf-8") as file:
            file.write(_line(**noted))


def _line(**noted: object) -> str:
    return json.dumps(noted, ensure_ascii=False) + "\n"
