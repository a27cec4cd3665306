"""The cards of a lesson's checks: open exercises, passed ones, and answers that are refused."""

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

OPEN, PASSED, REFUSED = "○✔✘"
_CARD = re.compile(r"[○✔✘](?= (\w+\.\w+|\w+, step \d): )")
"""Of an exercise, "journal.padding", or of a step of the workshop, "bookie, step 1"."""


def cards(notebook: NotebookNode) -> Iterator[tuple[str, str]]:
    """The tag of each cell that shows a card, and the card's sign."""
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        tag = next((t for t in tags if t in ("exercise", "refused")), "")
        for output in cell.get("outputs", []):
            shown = _CARD.match(output.get("data", {}).get("text/plain", ""))
            if shown:
                yield tag, shown[0]


def check_cards(path: Path, version: str) -> None:
    """Exercises are open for the learner and passed in the solution; nothing else is red."""
    found = list(cards(nbformat.read(path, as_version=4)))
    expected = {"exercise": OPEN if version == "learner" else PASSED, "refused": REFUSED}
    assert [sign for _, sign in found] == [expected.get(tag, PASSED) for tag, _ in found]
    assert sum(tag == "exercise" for tag, _ in found) >= 2
