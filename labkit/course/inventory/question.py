"""A question of the inventory, whose numbers are drawn at random and whose right answer is
computed.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

LETTERS = "abcd"


@dataclass(frozen=True, slots=True)
class Item:
    """A question with the numbers that have been drawn for it.

    right: the answer that labkit computed; wrong: a mapping from each wrong answer to the belief
    that leads to it.
    """

    text: str
    right: str
    wrong: Mapping[str, str]

    def __post_init__(self) -> None:
        if self.right in self.wrong or not 2 <= len(self.wrong) < len(LETTERS):
            raise ValueError(f"{self.right!r} must differ from 2 or 3 wrong answers: {self.wrong}")


class Option(NamedTuple):
    """An answer that a student can choose; `belief` is the belief that leads to this answer, or ""
    if the answer is right.
    """

    text: str
    belief: str


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a misconception that `lesson` covers; `draw` draws its numbers."""

    name: str
    lesson: str
    draw: Callable[[Random], Item]

    def drawn(self, seed: int) -> tuple[str, tuple[Option, ...]]:
        """Return the question's text and options; the same seed always produces the same text and
        options.
        """
        random = Random(f"{self.name}:{seed}")
        item = self.draw(random)
        options = [Option(item.right, ""), *(Option(*each) for each in item.wrong.items())]
        random.shuffle(options)
        return item.text, tuple(options)
