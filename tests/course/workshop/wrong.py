"""Wrong answers to the steps: the solution with parts of its text replaced."""

from pathlib import Path

from labkit.course.checking.card import Card
from labkit.course.workshop import check
from labkit.course.workshop.step import track


def with_changes(folder: Path, name: str, *changes: tuple[str, str]) -> Path:
    """Return a learner's file: the solution, with the first text of each pair replaced by the
    second.
    """
    text = track(name).solution.read_text()
    for old, new in changes:
        assert text.count(old) == 1, f"{text.count(old)} times: {old}"
        text = text.replace(old, new)
    file = folder / track(name).file_name
    file.write_text(text)
    return file


def refused(folder: Path, name: str, number: int, *changes: tuple[str, str]) -> Card:
    """Return the card for the solution with these changes, which must be refused."""
    card = check(name, number, with_changes(folder, name, *changes), seeds=6, must_pass=False)
    assert not card.passed, card
    return card
