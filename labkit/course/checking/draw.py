"""Draw: what a generated case is made of, from a seed, and how it becomes smaller.

A case is drawn number by number.  A draw remembers its numbers, so that the same case can be made
again from them, and a smaller one from smaller numbers or fewer of them: whatever a draw makes is a
case that can happen, the smallest one too.  (Hypothesis works like this as well.  It is compiled,
which a browser's Python cannot load, and a learner's card would change with its version.)
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import TypeVar

T = TypeVar("T")

EDGES = (0, 1, 2, 7, 8, 9, 10, 11, 63, 64, 99, 100, 127, 128, 255, 256, 1000, 2**16)
BEYOND = (2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32, 2**32 + 1, 2**40)
"""Ids have 64 bits: where 8, 16, 31 or 32 bits, one digit or two end."""
_IDS: list[int] = sorted({*range(300), *EDGES, *BEYOND})
_SHRINK_STEPS = 2000


class Draw:
    """Numbers from a seed; or, with `numbers`, those again, and 0 when there are no more."""

    def __init__(self, random: Random | None = None, numbers: Sequence[int] = ()) -> None:
        self._random = random
        self._numbers = numbers
        self.taken: list[int] = []

    def number(self, least: int, most: int) -> int:
        """A number from `least` to `most`, which shrinks to `least`."""
        if self._random is not None:
            return least + self._take(self._random.randrange(most - least + 1))
        return least + self._take(min(self._given(), most - least))

    def _given(self) -> int:
        return self._numbers[len(self.taken)] if len(self.taken) < len(self._numbers) else 0

    def _take(self, number: int) -> int:
        self.taken.append(number)
        return number

    def one_of(self, options: Sequence[T]) -> T:
        """One of these; it shrinks to the first."""
        return options[self.number(0, len(options) - 1)]

    def chance(self, percent: int) -> bool:
        """Whether something rare happens; it shrinks to no."""
        return self.number(1, 100) > 100 - percent

    def some(self, options: Sequence[T]) -> list[T]:
        """Some of these in their order, perhaps none."""
        return [each for each in options if self.number(0, 1)]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """These in any order; it shrinks to their own."""
        left, mixed = list(items), []
        while left:
            mixed.append(left.pop(self.number(0, len(left) - 1)))
        return mixed

    def id(self, least: int = 0) -> int:
        """An id from `least` on: often small, often at an edge, sometimes of more than 31 bits."""
        if self._random is not None:
            kinds: tuple[Sequence[int], ...] = (range(6), EDGES, range(300), BEYOND)
            chosen = self._random.choice(self._random.choice(kinds))
            return least + _IDS[self._take(_IDS.index(chosen))]
        return least + _IDS[self._take(min(self._given(), len(_IDS) - 1))]

    def ids(self, most: int, least: int = 0) -> list[int]:
        """Up to `most` different ids, ascending, with gaps."""
        return sorted({self.id(least) for _ in range(self.number(0, most))})

    def data(self, most: int) -> bytes:
        """Up to `most` bytes of all values, as no text has them."""
        return bytes(
            self.one_of((0x61, 0, 0xFF, 0x80, 0x0A, 0xC3)) for _ in range(self.number(0, most))
        )


Recipe = Callable[[Draw], T]


def drawn(recipe: Recipe[T], count: int, seed: int = 1) -> Iterator[tuple[T, list[int]]]:
    """That many cases, and the numbers that each was made of."""
    random = Random(seed)
    for _ in range(count):
        draw = Draw(random)
        yield recipe(draw), draw.taken


def smallest(recipe: Recipe[T], numbers: list[int], is_wrong: Callable[[T], bool]) -> T:
    """A case that is wrong too and that no single step makes smaller, made of these numbers."""
    best, steps = numbers, 0
    while steps < _SHRINK_STEPS:
        for candidate in _smaller(best):
            steps += 1
            draw = Draw(numbers=candidate)
            case = recipe(draw)
            if _size(draw.taken) < _size(best) and is_wrong(case):
                best = draw.taken
                break
        else:
            break
    return recipe(Draw(numbers=best))


def _size(numbers: list[int]) -> tuple[int, list[int]]:
    return len(numbers), numbers


def _smaller(numbers: list[int]) -> Iterator[list[int]]:
    """Without some numbers, then with one of them smaller, then with a pair of changes: one fewer
    of something that a number in front of it counts.
    """
    for length in (8, 4, 3, 2, 1):
        for start in range(len(numbers) - length + 1):
            without = [*numbers[:start], *numbers[start + length :]]
            yield without
            if start and numbers[start - 1]:
                yield [*numbers[: start - 1], numbers[start - 1] - 1, *without[start:]]
    for at, value in enumerate(numbers):
        for less in dict.fromkeys((0, value // 2, value - 1)):
            if 0 <= less < value:
                yield [*numbers[:at], less, *numbers[at + 1 :]]
