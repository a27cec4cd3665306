"""Reads the cards that the checks of a lesson show, both for open or passed exercises and for
rejected answers.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode

OPEN, PASSED, REFUSED = "○✔✘"
_CARD = re.compile(r"[○✔✘](?= (\w+\.\w+|\w+, step \d): )")
"""The name is that of an exercise, such as "entry.pack", or of a workshop step, such as
"bookie, step 1".
"""


def cards(notebook: NotebookNode) -> Iterator[tuple[str, str]]:
    """Yield the tag of each cell that shows a card, and the symbol on the card."""
    for cell in notebook.cells:
        tags = cell.metadata.get("tags", [])
        tag = next((t for t in tags if t in ("exercise", "refused")), "")
        for output in cell.get("outputs", []):
            shown = _CARD.match(output.get("data", {}).get("text/plain", ""))
            if shown:
                yield tag, shown[0]


def check_cards(path: Path, version: str) -> None:
    """Assert that exercises are open in the learner's version and passed in the solution.

    Only cells that are tagged "refused" may reject an answer.
    """
    found = list(cards(nbformat.read(path, as_version=4)))
    expected = {"exercise": OPEN if version == "learner" else PASSED, "refused": REFUSED}
    assert [sign for _, sign in found] == [expected.get(tag, PASSED) for tag, _ in found]
    assert sum(tag == "exercise" for tag, _ in found) >= 2
