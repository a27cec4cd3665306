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
    SYNC,
    AskExisting,
    ListStored,
)
from labkit.course.lessons import check
from labkit.course.runs.trial import CrashCounterexample
from labkit.system.metadata.store import MetadataError
from labkit.system.storage.garbage import EntryLogMetadata
from tests.course.lessons.refused import Wrong, refused
from tests.repeat import repeated_cases

DROPPED, WORTH, COMPACTION = "garbage.dropped", "garbage.worth", "garbage.compaction"


def error_means_nothing_exists(list_stored: ListStored, ask_existing: AskExisting) -> list[int]:
    stored, existing = list_stored(), set[int]()
    with suppress(MetadataError):
        existing = ask_existing()
    return [i for i in stored if i not in existing]


def no_ids(list_stored: ListStored, ask_existing: AskExisting) -> list[int]:
    return [str(i) for i in list_stored()]  # type: ignore[misc]


@pytest.mark.parametrize(
    ("wrong", "reason", "shown"),
    [
        (
            "asks the other way",
            "created between your two queries must be kept",
            "entry 0 of ledger 7 is lost",
        ),
        (
            error_means_nothing_exists,
            "Drop no ledgers if the metadata store cannot",
            "yours drops [5, 6, 7]",
        ),
        ("what exists", "that is in the metadata must be kept", "entry 0 of ledger 5 is lost"),
        ("nothing", "must be dropped, or the disk will remain full", "yours drops []"),
    ],
)
def test_dropping_the_wrong_ledgers_is_refused(wrong: Wrong, reason: str, shown: str) -> None:
    refused(DROPPED, wrong, reason, shown)


def test_what_is_not_a_list_of_ids_is_refused() -> None:
    for name, answer in ((DROPPED, no_ids), (WORTH, lambda logs, threshold: logs)):
        assert "must return list[int]" in check(name, answer).message


def test_the_race_is_printed_in_the_order_in_which_it_happened() -> None:
    card = refused(DROPPED, "asks the other way", "must be kept")
    story = str(card.counterexample).splitlines()
    asked, created, added, listed = (
        next(i for i, line in enumerate(story) if line.startswith(start))
        for start in ("ask_existing()", "a client creates", "its entry 0", "list_stored()")
    )
    assert asked < created < added < listed


def chosen(logs: list[EntryLogMetadata], keep: Callable[[float], bool]) -> list[int]:
    kept = [log for log in logs if keep(log.usage)]
    return [log.log_id for log in sorted(kept, key=lambda log: log.usage)]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("empty ones too", "without live entries needs no compaction"),
        ("up to the threshold", "at or above the threshold"),
        (lambda logs, threshold: chosen(logs, lambda u: u > threshold), "is worth compacting"),
        (
            lambda logs, threshold: chosen(logs, lambda u: 0 < u < threshold or u == 1),
            "A log without garbage must be left alone",
        ),
        (lambda logs, threshold: chosen(logs, lambda u: 0 < u < 0.2), "is worth compacting"),
        ("fullest first", "in order of its live share"),
        (
            lambda logs, threshold: 2 * chosen(logs, lambda u: 0 < u < threshold),
            "Return each log once",
        ),
        (lambda logs, threshold: [99], "ids of existing logs"),
    ],
)
def test_a_wrong_choice_of_logs_is_refused(wrong: Wrong, reason: str) -> None:
    card = refused(WORTH, wrong, reason)
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
