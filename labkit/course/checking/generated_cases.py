"""Generates test cases from a seed, and shrinks a failing one.

Each case is built from a sequence of random numbers. A `Draw` records the numbers, so the same case
can be rebuilt from these numbers, and a smaller case can be built from smaller or fewer numbers. A
recipe is a function that builds a valid case from any sequence of numbers. (Hypothesis works the
same way, but it is a compiled package that cannot be loaded in a browser, and a different version
of it would produce a different card.)
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Generic, TypeVar

T = TypeVar("T")

EDGES = (0, 1, 2, 7, 8, 9, 10, 11, 63, 64, 99, 100, 127, 128, 255, 256, 1000, 2**16)
BEYOND = (2**31 - 1, 2**31, 2**31 + 1, 2**32 - 1, 2**32, 2**32 + 1, 2**40)
"""Edge cases for 64-bit ids, namely values around the limits of 8, 16, 31 and 32 bits, and around
those of one and two digits.
"""
_IDS: list[int] = sorted({*range(300), *EDGES, *BEYOND})
_SHRINK_STEPS = 2000
_LONG_RUNS = (48, 24, 12)


class Draw:
    """A source of random numbers. If `numbers` is given, it replays these numbers, followed by
    zeros.
    """

    def __init__(self, random: Random | None = None, numbers: Sequence[int] = ()) -> None:
        self._random = random
        self._numbers = numbers
        self.used: list[int] = []

    def number(self, least: int, most: int) -> int:
        """Return a number from `least` to `most`. A failing case shrinks towards `least`."""
        if self._random is not None:
            return least + self._take(self._random.randrange(most - least + 1))
        return least + self._take(min(self._given(), most - least))

    def _given(self) -> int:
        return self._numbers[len(self.used)] if len(self.used) < len(self._numbers) else 0

    def _take(self, number: int) -> int:
        self.used.append(number)
        return number

    def one_of(self, options: Sequence[T]) -> T:
        """Return one of the options. A failing case shrinks towards the first option."""
        return options[self.number(0, len(options) - 1)]

    def chance(self, percent: int) -> bool:
        """Return whether a rare event happens. A failing case shrinks towards False."""
        return self.number(1, 100) > 100 - percent

    def some(self, options: Sequence[T]) -> list[T]:
        """Return a subset of the options in their original order, possibly empty."""
        return [each for each in options if self.number(0, 1)]

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return the items in random order. A failing case shrinks towards the original order."""
        left, mixed = list(items), []
        while left:
            mixed.append(left.pop(self.number(0, len(left) - 1)))
        return mixed

    def id(self, least: int = 0) -> int:
        """Return an id that is at least `least`; it is often small, often an edge case, and
        sometimes longer than 31 bits.
        """
        if self._random is not None:
            kinds: tuple[Sequence[int], ...] = (range(6), EDGES, range(300), BEYOND)
            chosen = self._random.choice(self._random.choice(kinds))
            return least + _IDS[self._take(_IDS.index(chosen))]
        return least + _IDS[self._take(min(self._given(), len(_IDS) - 1))]

    def ids(self, most: int, least: int = 0) -> list[int]:
        """Return up to `most` distinct ids in ascending order, with gaps."""
        return sorted({self.id(least) for _ in range(self.number(0, most))})

    def data(self, most: int) -> bytes:
        """Return up to `most` bytes, including bytes that are not valid text."""
        return bytes(
            self.one_of((0x61, 0, 0xFF, 0x80, 0x0A, 0xC3)) for _ in range(self.number(0, most))
        )


Recipe = Callable[[Draw], T]


def generated_cases(recipe: Recipe[T], count: int, seed: int = 1) -> Iterator[tuple[T, list[int]]]:
    """Yield `count` cases, each with the numbers from which it was built."""
    random = Random(seed)
    for _ in range(count):
        draw = Draw(random)
        yield recipe(draw), draw.used


def smallest_failing_case(
    recipe: Recipe[T], numbers: list[int], is_wrong: Callable[[T], bool]
) -> T:
    """Remove and decrease the numbers of a failing case as long as the resulting case still fails;
    return the smallest case.
    """
    shrinking = _Shrinking(recipe, numbers, is_wrong)
    shrinking.cut_off_end()
    size = None
    while size != (size := _size(shrinking.best)):
        shrinking.remove_numbers()
        shrinking.decrease_numbers()
    return recipe(Draw(numbers=shrinking.best))


def _size(numbers: list[int]) -> tuple[int, list[int]]:
    return len(numbers), numbers


class _Shrinking(Generic[T]):
    """Shrinks the numbers from which a failing case is built; `best` contains the smallest numbers
    found so far.
    """

    def __init__(
        self, recipe: Recipe[T], numbers: list[int], is_wrong: Callable[[T], bool]
    ) -> None:
        self.best = numbers
        self._recipe, self._is_wrong = recipe, is_wrong
        self._steps_left = _SHRINK_STEPS

    def cut_off_end(self) -> None:
        """Find, by bisection, a short prefix of the numbers whose case still fails."""
        passes = 0
        while len(self.best) - passes > 1:
            length = (passes + len(self.best)) // 2
            if not self._accepts(self.best[:length]):
                passes = length

    def remove_numbers(self) -> None:
        """Remove runs of numbers. Also try to decrease the number that precedes a run, because it
        may be the length of the run.
        """
        for length in (*_LONG_RUNS, *range(8, 0, -1)):
            start = 0
            while start + length <= len(self.best):
                best = self.best
                without = [*best[:start], *best[start + length :]]
                fewer = [*best[: start - 1], best[start - 1] - 1, *without[start:]]
                is_count = start > 0 and best[start - 1] > 0
                if not (self._accepts(without) or (is_count and self._accepts(fewer))):
                    start += max(1, length // 8)

    def decrease_numbers(self) -> None:
        """Use bisection to decrease each number as far as possible while the case still fails."""
        for at in range(len(self.best)):
            passes = -1
            while at < len(self.best) and self.best[at] - passes > 1:
                # Try zero first, because most numbers are not needed at all.
                less = 0 if passes < 0 else (passes + self.best[at]) // 2
                if not self._accepts([*self.best[:at], less, *self.best[at + 1 :]]):
                    passes = less

    def _accepts(self, numbers: list[int]) -> bool:
        """Return whether the case built from these numbers is smaller and still fails; if so, keep
        the numbers.
        """
        if self._steps_left == 0:
            return False
        self._steps_left -= 1
        draw = Draw(numbers=numbers)
        case = self._recipe(draw)
        is_better = _size(draw.used) < _size(self.best) and self._is_wrong(case)
        if is_better:
            self.best = draw.used
        return is_better
