"""Checks an exercise with a wrong answer, given either by its title or as a function."""

from collections.abc import Callable
from typing import Any

from labkit.course.lessons import check
from tests.course.lessons.wrong_cluster import WRONG as CLUSTER
from tests.course.lessons.wrong_storage import WRONG as STORAGE
from tests.course.lessons.wrong_topics import WRONG as TOPICS
from tests.course.lessons.wrong_uses import WRONG as USES

Wrong = str | Callable[..., Any]
"""The title of a wrong answer, or the answer itself."""
WRONG = STORAGE | CLUSTER | TOPICS | USES


def refused(exercise: str, wrong: Wrong, reason: str, shown: str = "") -> Any:
    """Check that the answer is rejected for this reason, with a card that contains `shown`, and
    return the card.
    """
    card = check(exercise, WRONG[exercise][wrong] if isinstance(wrong, str) else wrong)
    assert not card.passed
    assert reason in card.message
    assert shown in f"{card.message}\n{card.counterexample}\n{card.counterexample!r}"
    return card
