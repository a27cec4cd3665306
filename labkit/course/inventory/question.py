"""A question of the inventory: its numbers are drawn at random, and its right answer is
computed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

LETTERS = "abcd"


@dataclass(frozen=True, slots=True)
class Item:
    """A question whose numbers have been drawn.

    right: the answer that labkit computed; wrong: for each wrong answer, the belief that leads to
    it.
    """

    text: str
    right: str
    wrong: Mapping[str, str]

    def __post_init__(self) -> None:
        if self.right in self.wrong or not 2 <= len(self.wrong) < len(LETTERS):
            raise ValueError(f"{self.right!r} must differ from 2 or 3 wrong answers: {self.wrong}")


class Option(NamedTuple):
    """An answer to choose; `belief` is the belief that leads to it, or "" if it is right."""

    text: str
    belief: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a misconception that `lesson` covers; `draw` draws its numbers."""

    name: str
    lesson: str
    draw: Callable[[Random], Item]

    def drawn(self, seed: int) -> tuple[str, tuple[Option, ...]]:
        """Return the text and the options; the same seed always gives the same ones."""
        random = Random(f"{self.name}:{seed}")
        item = self.draw(random)
        options = [Option(item.right, ""), *(Option(*each) for each in item.wrong.items())]
        random.shuffle(options)
        return item.text, tuple(options)
