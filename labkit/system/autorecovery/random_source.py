"""The source of random numbers, passed as an argument so that simulated runs can be repeated."""

from collections.abc import Callable, Iterator, Sequence

Draw = Callable[[int], int]
"""Returns a random number in [0, n) for its argument n >= 1."""


def shuffled(names: Sequence[str], draw: Draw) -> Iterator[str]:
    left = list(names)
    while left:
        at = draw(len(left))
        left[at], left[-1] = left[-1], left[at]
        yield left.pop()
