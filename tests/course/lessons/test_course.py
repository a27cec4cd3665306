"""Tests the course map and the glossary, and that learners soon have something to do."""

import re
from pathlib import Path

import pytest

from labkit.course.lessons.build import SOURCES, parse
from tools.site.lessons import lessons

LESSONS = {source.name[:2]: source for source in sorted(SOURCES.glob("[0-9][0-9]_*.py"))}
COURSE = (Path(__file__).parents[3] / "docs" / "course.md").read_text(encoding="utf-8")
MAP = re.findall(r"(?m)^\| \[(\d\d)\]\(\S+\) \| (.+) \| (\d+) \| (.+) \|$", COURSE)
GLOSSARY = re.findall(r"(?m)^\| \*\*(.+?)\*\*.* \| .+ \| (\d\d) \|$", COURSE)
MOST_WORDS = 300


@pytest.mark.parametrize("number", LESSONS)
def test_a_lesson_says_how_long_it_takes_and_what_it_needs(number: str) -> None:
    text = LESSONS[number].read_text(encoding="utf-8")
    said = re.findall(r"(?m)^# \*\*Takes\*\* about (\d+) minutes\. \*\*Needs\*\* (.+?)\.", text)
    in_a_tab = {each.number: each.in_a_tab for each in lessons()}
    assert len(said) == 1
    minutes, needs = said[0]
    assert ("in a browser tab" in needs) == in_a_tab[number]
    title = re.search(r"(?m)^# # \d\d · (.+)$", text)
    assert title is not None
    assert [(n, t, m) for n, t, m, _ in MAP if n == number] == [(number, title[1], minutes)]


def test_a_term_is_used_in_the_lesson_that_says_it() -> None:
    said = [(term, number) for number, *_, terms in MAP for term in terms.split(", ")]
    assert len(GLOSSARY) > 30
    for term, number in (*GLOSSARY, *said):
        text = LESSONS[number].read_text(encoding="utf-8").lower()
        assert term.lower() in text, f"lesson {number} does not use the term {term!r}"
    terms = [term.lower() for term, _ in GLOSSARY]
    assert terms == sorted(terms)


@pytest.mark.parametrize("number", LESSONS)
def test_a_lesson_says_that_its_exercises_have_hints(number: str) -> None:
    text = LESSONS[number].read_text(encoding="utf-8")
    assert re.search(r'(?m)^# .*`hint\(".+\)`', text)


@pytest.mark.parametrize("number", LESSONS)
def test_there_is_always_something_to_do_within_300_words(number: str) -> None:
    """An activity is a cell to run, a prediction, or a question whose answer is folded."""
    cells = parse(LESSONS[number].read_text(encoding="utf-8"), "p", "learner").cells
    texts = ["<do>" if cell.cell_type == "code" else cell.source for cell in cells]
    done = re.sub(r"<details>.*?</details>|\*\*Predict\.\*\*", "<do>", "\n".join(texts), flags=re.S)
    assert max(len(stretch.split()) for stretch in done.split("<do>")) <= MOST_WORDS


@pytest.mark.parametrize("number", LESSONS)
def test_a_code_block_begins_and_ends_on_lines_of_its_own(number: str) -> None:
    """Otherwise, its commands are shown as running text."""
    text = LESSONS[number].read_text(encoding="utf-8")
    fences = [line for line in text.splitlines() if line.startswith("#") and "```" in line]
    assert not [line for line in fences if not re.fullmatch(r"# ```\w*", line)]
    assert len(fences) % 2 == 0
