"""Item analysis, which shows what a class's answers say about each question and about the course.

difficulty      the proportion of correct answers, before and after the course
gain            Hake's normalised gain: the actual gain divided by the largest possible gain
discrimination  the correlation between this answer and the number of other right answers; below
                about 0.2, the question does not distinguish between strong and weak students
belief          the most frequent wrong answer, after the course if anybody answered then
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import StatisticsError, correlation, mean
from typing import Any

from labkit.course.inventory.questions import QUESTIONS
from labkit.course.inventory.sitting import AFTER, BEFORE, NO_ANSWER, RIGHT

Sittings = Mapping[str, Mapping[str, str]]
"""By student: the outcome of each question."""


@dataclass(frozen=True, slots=True)
class ItemStatistics:
    """The statistics of one question; a value is None if too few students have answered the
    question.

    `believers` is the number of students who hold `belief`.
    """

    name: str
    lesson: str
    before: float | None
    after: float | None
    gain: float | None
    discrimination: float | None
    belief: str
    believers: int


def sittings_of(rows: Iterable[Mapping[str, Any]], when: str) -> Sittings:
    """Return the sittings in the rows of `records.parquet`."""
    sittings: dict[str, dict[str, str]] = {}
    for row in rows:
        if row["event"] == when:
            sittings.setdefault(row["student"], {})[row["name"]] = row["predicted"]
    return sittings


def item_statistics(rows: Iterable[Mapping[str, Any]]) -> list[ItemStatistics]:
    rows = list(rows)
    before, after = sittings_of(rows, BEFORE), sittings_of(rows, AFTER)
    latest = after or before
    return [
        _statistics(question.name, question.lesson, before, after, latest)
        for question in QUESTIONS
        if latest
    ]


def class_gain(rows: Iterable[Mapping[str, Any]]) -> tuple[int, float, float, float | None]:
    """Return the number of students who took part in both sittings, their mean proportion of
    correct answers before and after the course, and their normalised gain.
    """
    rows = list(rows)
    before, after = sittings_of(rows, BEFORE), sittings_of(rows, AFTER)
    both = sorted(before.keys() & after.keys())
    if not both:
        return 0, 0.0, 0.0, None
    first, last = (
        mean(_right(sittings[student]) / len(QUESTIONS) for student in both)
        for sittings in (before, after)
    )
    return len(both), first, last, _gain(first, last)


def _statistics(
    name: str, lesson: str, before: Sittings, after: Sittings, latest: Sittings
) -> ItemStatistics:
    both = before.keys() & after.keys()
    gain = None
    if both:
        gain = _gain(*(_share(name, [own[each] for each in both]) for own in (before, after)))
    beliefs = Counter(own[name] for own in latest.values() if own[name] not in (RIGHT, NO_ANSWER))
    [(belief, believers)] = beliefs.most_common(1) or [("", 0)]
    return ItemStatistics(
        name,
        lesson,
        _share(name, before.values()) if before else None,
        _share(name, after.values()) if after else None,
        gain,
        _discrimination(name, latest),
        belief,
        believers,
    )


def _share(name: str, sittings: Iterable[Mapping[str, str]]) -> float:
    return mean(own[name] == RIGHT for own in sittings)


def _gain(before: float, after: float) -> float | None:
    return (after - before) / (1 - before) if before < 1 else None


def _right(outcomes: Mapping[str, str]) -> int:
    return sum(outcome == RIGHT for outcome in outcomes.values())


def _discrimination(name: str, sittings: Sittings) -> float | None:
    own = [outcomes[name] == RIGHT for outcomes in sittings.values()]
    others = [
        _right(outcomes) - is_right
        for outcomes, is_right in zip(sittings.values(), own, strict=True)
    ]
    try:
        return correlation(own, others)
    except StatisticsError:  # fewer than two students, or no differences between them
        return None
