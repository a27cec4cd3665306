"""record: what a learner predicts and which hints help, saved if the learner says so.

It is saved in one file beside the notebook, a JSON object in each line, and nowhere else.  The file
itself is the consent: the switch that `record` shows makes and deletes it, nothing is written while
there is none, and deleting it by hand withdraws the consent as well.  A learner may hand it in:
`labkit grade` then counts wrong predictions and hints.

    {"event": "consent"}
    {"event": "predicted", "name": "padding", "predicted": "12"}
    {"event": "compared", "name": "padding", "predicted": "12", "truth": "8", "is_right": false}
    {"event": "hint", "name": "journal.padding", "hint": 1}
"""

import json
from pathlib import Path

from ipywidgets import Checkbox

FILE = "my-record.jsonl"
LABEL = f"Save my predictions and hints in {FILE}, beside this notebook"


class Switch(Checkbox):  # type: ignore[misc]
    """On while the file is there; turning it off deletes the file."""

    def __init__(self) -> None:
        super().__init__(
            value=Path(FILE).exists(),
            description=LABEL,
            indent=False,
            layout={"width": "auto"},
        )
        self.observe(self._turned, "value")

    def _turned(self, change: dict[str, object]) -> None:
        if not change["new"]:
            Path(FILE).unlink(missing_ok=True)
        elif not Path(FILE).exists():
            Path(FILE).write_text(_line(event="consent"), encoding="utf-8")

    def __repr__(self) -> str:
        return f"{'☑' if self.value else '☐'} {LABEL}"


def record() -> Switch:
    """A switch that saves predictions and hints from now on; it is off at first."""
    return Switch()


def keep(**noted: object) -> None:
    """Append a line, if the learner turned the switch on.  Raises OSError."""
    if Path(FILE).exists():
        with Path(FILE).open("a", encoding="utf-8") as file:
            file.write(_line(**noted))


def _line(**noted: object) -> str:
    return json.dumps(noted, ensure_ascii=False) + "\n"
