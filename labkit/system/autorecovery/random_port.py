"""Chance, as a port: protocol code gets its random numbers here, so that a run can be repeated."""

from collections.abc import Callable, Iterator, Sequence

Draw = Callable[[int], int]
"""Returns a random number from 0 to below the one given (at least 1)."""


def shuffled(names: Sequence[str], draw: Draw) -> Iterator[str]:
    """The names, one after the other, in a random order."""
    left = list(names)
    while left:
        at = draw(len(left))
        left[at], left[-1] = left[-1], left[at]
        yield left.pop()
