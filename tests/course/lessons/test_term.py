"""Tests that the term plan on the teachers' page agrees with the lessons and the workshop."""

import re
from itertools import chain
from pathlib import Path

from labkit.course.lessons.build import SOURCES

DOCS = Path(__file__).parents[3] / "docs"
PLAN = re.compile(
    r"(?m)^\| \d+ \| (?P<lessons>[^|]+) \| (?P<minutes>\d+) "
    r"\| (?P<steps>[^|]*) ?\| (?P<home>\d*) ?\|$"
)


def lesson_minutes() -> dict[str, int]:
    """Return how many minutes each lesson takes.

    The workshop's notebooks are omitted, because they are homework.
    """
    found = {}
    for source in SOURCES.glob("[0-9][0-9]_*.py"):
        if "build_a_" in source.name:
            continue
        takes = re.search(r"\*\*Takes\*\* about (\d+) minutes", source.read_text(encoding="utf-8"))
        assert takes, source.name
        found[source.stem[:2]] = int(takes[1])
    return found


def step_minutes() -> dict[str, list[int]]:
    course = (DOCS / "course.md").read_text(encoding="utf-8")
    tracks = re.split(r"## Workshop: build a (\w+)\n", course)[1:]
    tables = dict(zip(tracks[::2], tracks[1::2], strict=True))
    row = r"(?m)^\| \d \|.*\| (\d+) \|$"
    return {name: [int(each) for each in re.findall(row, text)] for name, text in tables.items()}


def weeks() -> list[re.Match[str]]:
    return list(PLAN.finditer((DOCS / "teaching.md").read_text(encoding="utf-8")))


def test_the_plan_has_every_lesson_once_with_its_minutes() -> None:
    minutes = lesson_minutes()
    planned = [re.findall(r"\d\d", week["lessons"]) for week in weeks()]
    assert sorted(chain.from_iterable(planned)) == sorted(minutes)
    assert [int(week["minutes"]) for week in weeks()] == [
        sum(minutes[lesson] for lesson in each) for each in planned
    ]


def test_the_plan_has_every_step_of_the_workshop_in_order_with_its_minutes() -> None:
    left = step_minutes()
    for week in weeks():
        track, _, _ = week["steps"].partition(" ")
        for home in filter(None, [week["home"]]):
            steps = re.findall(r"\d", week["steps"])
            assert int(home) == sum(left[track].pop(0) for _ in steps), week[0]
    assert left == {"bookie": [], "client": []}
