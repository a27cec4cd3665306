"""Chance, as a port: protocol code draws no lots of its own, so that a run can be repeated."""

from collections.abc import Callable, Sequence

Draw = Callable[[int], int]
"""A number from 0 up to, and without, the one given (at least 1)."""


def drawn(names: Sequence[str], count: int, draw: Draw) -> list[str]:
    """That many of the names, in the order in which they were drawn."""
    left = list(names)
    return [left.pop(draw(len(left))) for _ in range(count)]
