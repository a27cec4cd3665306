"""The source of random numbers. It is an argument, so that a simulated run can be repeated."""

from collections.abc import Callable, Iterator, Sequence

Draw = Callable[[int], int]
"""Returns a random number in [0, n) for its argument n >= 1."""


def shuffled(names: Sequence[str], draw: Draw) -> Iterator[str]:
    left = list(names)
    while left:
        at = draw(len(left))
        left[at], left[-1] = left[-1], left[at]
        yield left.pop()
