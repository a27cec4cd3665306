"""Words that a reader stumbles over: none of them is in code, tests, documents or lessons.

Each pattern stands with the words that say it better.  A pattern is here only if it is never right.
"""

import re
from functools import cache
from pathlib import Path

import pytest

from tests.tidy.test_style import ROOT, committed

BETTER = {
    r"\banew\b": "again",
    r"\bbe it\b": "even if it is",
    r"\b(?:to|can|could) be had\b": "available",
    r"\bmend(?:s|ed|ing)?\b": "fix, repair",
    r"\bby lot\b": "at random",
    r"\bis none of\b": "is not one of",
    r"\b(?:is|are|was|were|be|been|being) told\b(?! apart)": "learns, gets; is reported",
    r"\btold (?:by|of)\b": "reported",
    r"\bso many\b(?! as| that)": "the number, or the parameter's name",
    r"\bso long\b(?! as)": "the time, or the parameter's name",
    r"\bwhoever\b": "the noun: a client that, a bookie that",
    r"\bbears\b": "tolerates",
    r"\bof (?:its|their|his) own\b": "separate",
    r"\b(?:he|him|his)\b": "it, or the noun: bookies and clients are things",
    r"(?<!here )\b(?:is|are|was|were) no (?!longer\b|more\b|less\b|slower\b|faster\b)": "is not a",
    r"\blets? go of\b": "releases, removes",
    r"\bif need be\b": "if necessary",
    r"\bseldom\b": "rarely",
    r"\b(?:thereupon|whereupon|thereof|whence|hither)\b": "say it in today's words",
    r"\bbut for\b": "except, without",
}
BETTER_FOR_READERS = {
    r"\b(?:no|any|some|every)body\b": "the noun: no client, another broker, a reader",
}
"""In what users and maintainers read, for which tests may make up bookies and users."""
BETTER_IN_CODE = {
    r"\b(?:is|are|was|were) to (?:be|get|have|hold)\b(?!\[| next)": "must, should, will",
}
"""In code, tests and documents; lessons and a trace's sentences are in the outputs of notebooks."""
BETTER_IN_NAMES = {
    r"^who\b|\b(?:first|one|two) who\b": "a client that, two clients that",
    r"(?<!there )\b(?:is|are) none\b": "is invalid, is absent",
    r"\bno more$|\bany more\b": "no longer",
    r"\btells? of\b": "announces, has",
}
"""In a test's name, which states a rule of the system."""
SUFFIXES = (".py", ".md", ".js", ".mjs", ".txt", ".toml")
HERE = Path(__file__).relative_to(ROOT)


@cache
def texts() -> tuple[tuple[Path, str], ...]:
    """What people write and read, without what protoc writes and without the licence's words."""
    files = [
        file
        for file in committed()
        if file.suffix in SUFFIXES and not file.stem.endswith("_pb2") and file != HERE
    ]
    return tuple((file, (ROOT / file).read_text(encoding="utf-8")) for file in files)


def places(pattern: str, but: str = "") -> list[str]:
    """Where it is found, file and line, except below the folder `but`."""
    found = re.compile(pattern, re.IGNORECASE)
    return [
        f"{file}:{text.count(chr(10), 0, match.start()) + 1}: {match[0]}"
        for file, text in texts()
        if not but or but not in file.parts
        for match in found.finditer(text)
    ]


@pytest.mark.parametrize("pattern", BETTER)
def test_a_word_that_reads_badly_is_not_used(pattern: str) -> None:
    assert places(pattern) == [], f"better: {BETTER[pattern]}"


@pytest.mark.parametrize("pattern", BETTER_FOR_READERS)
def test_a_word_that_hides_the_subject_is_not_used(pattern: str) -> None:
    assert places(pattern, but="tests") == [], f"better: {BETTER_FOR_READERS[pattern]}"


@pytest.mark.parametrize("pattern", BETTER_IN_CODE)
def test_a_phrase_that_reads_badly_is_not_used(pattern: str) -> None:
    assert places(pattern, but="lessons") == [], f"better: {BETTER_IN_CODE[pattern]}"


@cache
def names_of_tests() -> tuple[str, ...]:
    """The tests' names as sentences, such as `an entry survives`."""
    tests = "\n".join(text for file, text in texts() if file.parts[0] == "tests")
    return tuple(
        name.replace("_", " ") for name in re.findall(r"^(?:async )?def test_(\w+)", tests, re.M)
    )


@pytest.mark.parametrize("pattern", BETTER | BETTER_FOR_READERS | BETTER_IN_NAMES)
def test_the_name_of_a_test_is_plain_english(pattern: str) -> None:
    found = [name for name in names_of_tests() if re.search(pattern, name)]
    better = BETTER | BETTER_FOR_READERS | BETTER_IN_NAMES
    assert found == [], f"better: {better[pattern]}"


@pytest.mark.parametrize(
    "sentence",
    [
        "The ledger is opened anew.",
        "It waits for so many acknowledgements.",
        "The auditor is told of the loss.",
        "This is no MessageID.",
        "Whoever reads it asks again.",
        "A copy that nobody will look for.",
        "All journals but for the last.",
        "The bookie is to have a copy.",
        "who recovers fences the ledger",
        "a closed writer takes no more",
    ],
)
def test_a_bad_sentence_is_recognised(sentence: str) -> None:
    patterns = BETTER | BETTER_FOR_READERS | BETTER_IN_CODE | BETTER_IN_NAMES
    assert any(re.search(pattern, sentence, re.IGNORECASE) for pattern in patterns)


@pytest.mark.parametrize(
    "sentence",
    [
        "There is no such ledger.",
        "The session is no longer alive.",
        "No ledger and no entry are told apart.",
        "As long as it lasts, so long as nothing fails.",
        "There are so many that the queue is full.",
        "The aim is to begin at once, and no more than two are sent.",
    ],
)
def test_a_good_sentence_passes(sentence: str) -> None:
    patterns = BETTER | BETTER_IN_CODE | BETTER_IN_NAMES
    assert not any(re.search(pattern, sentence, re.IGNORECASE) for pattern in patterns)
