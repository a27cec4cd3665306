"""Parametrize a test so that all cases but the first ones run only in `make test-long`."""

from collections.abc import Iterable

import pytest

Parameters = list[object]


def repeated(values: Iterable[object], once: int = 1) -> Parameters:
    """Return values for `pytest.mark.parametrize`, marking all but the first `once` as `long`."""
    listed = list(values)
    return [*listed[:once], *(pytest.param(v, marks=pytest.mark.long) for v in listed[once:])]


def repeated_cases(cases: Iterable[tuple[object, ...]], once: int) -> Parameters:
    """Like `repeated`, but each case has values for several parameters."""
    listed = list(cases)
    return [*listed[:once], *(pytest.param(*c, marks=pytest.mark.long) for c in listed[once:])]
