"""Tests that no return value of a learner's function makes a trial run out of time or memory."""

import pkgutil
from collections.abc import Iterator
from functools import partial
from inspect import signature
from types import UnionType
from typing import Any, get_args, get_origin, get_type_hints

import pytest

from labkit.course import exercises
from labkit.course.checking.check import card_of
from labkit.course.checking.exercise import Exercise, all_exercises, load_lesson
from labkit.course.checking.forked_check import in_forked_copy

_WALL_S = 30.0
"""Much longer than a trial takes on a busy machine; it ends a trial that hangs."""
_OF_KIND: dict[Any, tuple[Any, ...]] = {
    int: (2**62, -(2**62), 3 * 10**10, 10**6, 10**400),
    float: (1e300, -1e300, 5e-324),
    str: ("x" * 60_000, "x" * 10**7),
    bytes: (bytes(60_000), bytes(10**7)),
}


def _asked() -> list[Exercise]:
    for lesson in pkgutil.iter_modules(exercises.__path__):
        load_lesson(lesson.name)
    return [
        each
        for each in all_exercises()
        if each.like is not None
        and not each.needs_spark
        and next(_extremes(get_type_hints(each.like)["return"]), None) is not None
    ]


def _extremes(hint: Any) -> Iterator[Any]:
    """Yield values of this type that are as large as possible; none for booleans."""
    kind, inside = get_origin(hint) or hint, get_args(hint)
    if isinstance(hint, UnionType):
        for each in inside:
            yield from _extremes(each)
    elif kind is dict:
        yield {"k": 2**62}
        yield {str(number): number for number in range(1000)}
        yield {str(number): number for number in range(10**6)}
    elif kind is list or inside[1:] == (...,):
        for each in _extremes(inside[0]):
            yield kind([each])
        largest = next(_extremes(inside[0]))
        yield kind([largest] * (1000 if isinstance(largest, int) else 10))
        yield kind(range(1000))
        yield kind(range(10**6))
    elif kind is tuple:
        yield from zip(*(_extremes(each) for each in inside), strict=False)
        yield (0,) * 10**6
    else:
        yield from _OF_KIND.get(kind, ())


@pytest.mark.slow
@pytest.mark.parametrize("exercise", _asked(), ids=lambda each: each.name)
def test_a_trial_refuses_extreme_values_with_little_time_and_memory(exercise: Exercise) -> None:
    assert exercise.like is not None
    names = ", ".join(signature(exercise.like).parameters)
    for extreme in _extremes(get_type_hints(exercise.like)["return"]):
        answer = eval(f"lambda {names}: extreme", {"extreme": extreme, "__name__": "__main__"})
        told = in_forked_copy(partial(_outcome, exercise), answer, _WALL_S, wall_s=_WALL_S)
        assert told == "refused", (told, repr(extreme)[:60])


def _outcome(exercise: Exercise, learner: Any) -> str:
    return card_of(exercise, learner).outcome.name.lower()
