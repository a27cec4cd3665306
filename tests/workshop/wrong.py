"""Wrong answers to the steps: the solution with some words replaced."""

from pathlib import Path

from labkit.lessons.card import Card
from labkit.workshop import check
from labkit.workshop.step import track


def with_change(folder: Path, name: str, old: str, new: str) -> Path:
    """A learner's file: the solution with one change."""
    text = track(name).solution.read_text()
    assert text.count(old) == 1, f"{text.count(old)} times: {old}"
    file = folder / track(name).file_name
    file.write_text(text.replace(old, new))
    return file


def refused(folder: Path, name: str, number: int, old: str, new: str, seeds: int = 20) -> Card:
    """The card of the solution with one change; it must be refused."""
    card = check(name, number, with_change(folder, name, old, new), seeds=seeds, must_pass=False)
    assert not card.passed, card
    return card
