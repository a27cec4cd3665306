"""Tests lesson 10: each typical wrong answer is rejected with its own explanation."""

from collections.abc import Callable, Sequence
from contextlib import suppress

import pytest

from labkit.course.checking.cases import WrongAnswer
from labkit.course.exercises.garbage import (
    COPY,
    FLUSH,
    POINT,
    REMOVE,
    STEPS,
    SYNC,
    AskExisting,
    ListStored,
    ledgers_to_drop,
)
from labkit.course.lessons import check
from labkit.course.runs.trial import CrashCounterexample
from labkit.system.metadata.store import MetadataError
from labkit.system.storage.garbage import EntryLogMetadata, logs_to_compact
from tests.repeat import repeated_cases

DROPPED, WORTH, COMPACTION = "garbage.dropped", "garbage.worth", "garbage.compaction"


def test_the_real_functions_and_the_real_order_pass() -> None:
    assert check(DROPPED, ledgers_to_drop).passed
    assert check(WORTH, logs_to_compact).passed
    assert check(COMPACTION, list(STEPS)).passed


def asks_first(list_stored: ListStored, ask_existing: AskExisting) -> list[int]:
    existing = ask_existing()
    return [i for i in list_stored() if i not in existing]


def error_means_nothing_exists(list_stored: ListStored, ask_existing: AskExisting) -> list[int]:
    stored, existing = list_stored(), set[int]()
    with suppress(MetadataError):
        existing = ask_existing()
    return [i for i in stored if i not in existing]


def what_exists(list_stored: ListStored, ask_existing: AskExisting) -> list[int]:
    stored, existing = list_stored(), ask_existing()
    return [i for i in stored if i in existing]


def never_any(list_stored: ListStored, ask_existing: AskExisting) -> list[int]:
    return []


def no_ids(list_stored: ListStored, ask_existing: AskExisting) -> list[int]:
    return [str(i) for i in list_stored()]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("answer", "reason", "shown"),
    [
        (
            asks_first,
            "created between your two queries must be kept",
            "entry 0 of ledger 7 is lost",
        ),
        (
            error_means_nothing_exists,
            "Drop no ledgers if the metadata store cannot",
            "yours drops [5, 6, 7]",
        ),
        (what_exists, "that is in the metadata must be kept", "entry 0 of ledger 5 is lost"),
        (never_any, "must be dropped, or the disk will remain full", "yours drops []"),
    ],
)
def test_dropping_the_wrong_ledgers_is_refused(
    answer: Callable[[ListStored, AskExisting], list[int]], reason: str, shown: str
) -> None:
    card = check(DROPPED, answer)
    assert not card.passed
    assert reason in card.message
    assert shown in str(card.counterexample)


def test_what_is_not_a_list_of_ids_is_refused() -> None:
    for name, answer in ((DROPPED, no_ids), (WORTH, lambda logs, threshold: logs)):
        assert "must return list[int]" in check(name, answer).message


def test_the_race_is_printed_in_the_order_in_which_it_happened() -> None:
    story = str(check(DROPPED, asks_first).counterexample).splitlines()
    asked, created, added, listed = (
        next(i for i, line in enumerate(story) if line.startswith(start))
        for start in ("ask_existing()", "a client creates", "its entry 0", "list_stored()")
    )
    assert asked < created < added < listed


def chosen(logs: list[EntryLogMetadata], keep: Callable[[float], bool], sign: int = 1) -> list[int]:
    kept = [log for log in logs if keep(log.usage)]
    return [log.log_id for log in sorted(kept, key=lambda log: sign * log.usage)]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            lambda logs, threshold: chosen(logs, lambda u: u < threshold),
            "without live entries needs no compaction",
        ),
        (
            lambda logs, threshold: chosen(logs, lambda u: 0 < u <= threshold),
            "at or above the threshold",
        ),
        (lambda logs, threshold: chosen(logs, lambda u: u > threshold), "is worth compacting"),
        (
            lambda logs, threshold: chosen(logs, lambda u: 0 < u < threshold or u == 1),
            "A log without garbage must be left alone",
        ),
        (lambda logs, threshold: chosen(logs, lambda u: 0 < u < 0.2), "is worth compacting"),
        (
            lambda logs, threshold: chosen(logs, lambda u: 0 < u < threshold, -1),
            "in order of its live share",
        ),
        (
            lambda logs, threshold: 2 * chosen(logs, lambda u: 0 < u < threshold),
            "Return each log once",
        ),
        (lambda logs, threshold: [99], "ids of existing logs"),
    ],
    ids=[
        *("empty ones too", "up to the threshold", "the fullest", "full ones too"),
        *("minor only", "fullest first", "twice", "no such log"),
    ],
)
def test_a_wrong_choice_of_logs_is_refused(
    answer: Callable[[list[EntryLogMetadata], float], list[int]], reason: str
) -> None:
    card = check(WORTH, answer)
    assert not card.passed
    assert reason in card.message
    assert isinstance(card.counterexample, WrongAnswer)
    assert "<img" in card._repr_html_()


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("order", "reason"),
    repeated_cases(
        [
            (
                (COPY, POINT, FLUSH, REMOVE, SYNC),
                "The copies must be synced before the old log is deleted",
            ),
            ((COPY, SYNC, POINT, REMOVE, FLUSH), "only if no index on disk points to it"),
            ((COPY, SYNC, REMOVE, POINT, FLUSH), "only if no index on disk points to it"),
            ((COPY, POINT, FLUSH, SYNC, REMOVE), "bytes that a crash can still destroy"),
            ((COPY, SYNC, FLUSH, POINT, REMOVE), "must be changed before it is synced"),
            ((REMOVE, COPY, SYNC, POINT, FLUSH), "must be copied before the old log is deleted"),
            (
                (SYNC, COPY, POINT, FLUSH, REMOVE),
                "must be copied before the copies can be synced",
            ),
        ],
        once=3,
    ),
)
def test_a_wrong_order_loses_something_in_some_crash(order: Sequence[str], reason: str) -> None:
    card = check(COMPACTION, list(order))
    assert not card.passed
    assert reason in card.message
    assert isinstance(card.counterexample, CrashCounterexample)
    assert "acknowledged but lost: entry" in str(card.counterexample)


def test_pointing_to_unwritten_bytes_loses_nothing_and_is_still_refused() -> None:
    card = check(COMPACTION, [COPY, POINT, SYNC, FLUSH, REMOVE])
    assert not card.passed
    assert card.message.startswith("Every entry must be readable at all times")
    assert POINT in str(card.counterexample)


@pytest.mark.parametrize("answer", [STEPS[:4], "copy", [*STEPS, COPY], 5])
def test_an_order_that_has_not_each_step_once_is_refused(answer: object) -> None:
    assert "each of the 5 steps exactly once" in check(COMPACTION, answer).message
