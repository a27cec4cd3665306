"""Parameters that repeat a promise: the first in `make test`, the others in `make test-long`."""

from collections.abc import Iterable

import pytest

Parameters = list[object]


def repeated(values: Iterable[object], once: int = 1) -> Parameters:
    """All values for `pytest.mark.parametrize`; those behind the first `once` are marked `long`."""
    listed = list(values)
    return [*listed[:once], *(pytest.param(v, marks=pytest.mark.long) for v in listed[once:])]


def repeated_cases(cases: Iterable[tuple[object, ...]], once: int) -> Parameters:
    """As `repeated`, for several parameters: each case has a value for each of them."""
    listed = list(cases)
    return [*listed[:once], *(pytest.param(*c, marks=pytest.mark.long) for c in listed[once:])]
