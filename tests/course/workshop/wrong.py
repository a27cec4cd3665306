"""Answers to the steps. Each answer differs from the solution, and most of the answers are
wrong.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from labkit.course.checking.card import Card
from labkit.course.workshop.step_check import card_of
from labkit.course.workshop.tracks import track

Changes = tuple[tuple[str, str], ...]
"""Texts of the solution, each with the text that replaces it."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer to a step, which is the solution with these changes.

    line: the beginning of the line of the contract that a wrong answer breaks
    """

    step: int
    line: str
    title: str
    changes: Changes

    def __str__(self) -> str:
        return f"{self.step}: {self.title}"


def answers(name: str) -> Iterator[Answer]:
    """Yield the answers in a file such as `wrong_client.diff`.

    Each heading names a step and a line of the contract, and is followed by the answers that break
    this line. The changes of an answer are separated by "@@".
    """
    step, line = "", ""
    for block in Path(__file__).with_name(f"{name}.diff").read_text().split("\n\n"):
        title, _, changes = block.strip("\n").partition("\n")
        if title.startswith("Step "):
            step, _, line = title.removeprefix("Step ").partition(". ")
        else:
            hunks = changes.split("\n@@\n")
            yield Answer(int(step), line, title.removeprefix("* "), tuple(map(_change, hunks)))


def obvious_answers(name: str) -> list[Answer]:
    """Return the first answer in the file for each line of the contracts."""
    first = dict[tuple[int, str], Answer]()
    for answer in answers(name):
        first.setdefault((answer.step, answer.line), answer)
    return [*first.values()]


def _change(hunk: str) -> tuple[str, str]:
    lines = hunk.split("\n")
    old, new = (
        "".join(f"{line[1:]}\n" for line in lines if not line.startswith(sign)) for sign in "+-"
    )
    return old, new


def with_changes(folder: Path, name: str, *changes: tuple[str, str]) -> Path:
    """Return a learner's file that contains the solution, with the first text of each pair replaced
    by the second.
    """
    text = track(name).solution.read_text()
    for old, new in changes:
        assert text.count(old) == 1, f"{text.count(old)} times: {old}"
        text = text.replace(old, new)
    file = folder / track(name).file_name
    file.write_text(text)
    return file


def refused(folder: Path, name: str, number: int, *changes: tuple[str, str]) -> Card:
    """Return the card for the solution with these changes, which must be rejected."""
    file = with_changes(folder, name, *changes)
    card = card_of(track(name), track(name).step(number), file, seeds=6)
    assert not card.passed, card
    return card
