"""Tests lesson 03: each typical wrong answer is rejected with its own explanation."""

from collections.abc import Callable

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from labkit.course.exercises.storage_path import Key, flush_order, slot_of
from labkit.course.lessons import check
from labkit.system.storage.entry_log import location_of
from labkit.views.widgets.bookie_inside import BookieInside


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (list, "The entries of ledger 8 must be contiguous; yours are in 2"),
        (lambda keys: sorted(keys, key=lambda k: k[0]), "In ledger 7, entry 9 must come before"),
        (
            lambda keys: sorted(keys, key=lambda k: k[::-1]),
            "The entries of ledger 7 must be contiguous",
        ),
        (lambda keys: sorted(keys, reverse=True), "In ledger 8, entry 0 must come before"),
        (lambda keys: sorted(keys, key=str), "The ledgers must be in order of their ids"),
        (lambda keys: sorted(keys)[:-1], "entry 1 of ledger 8 is not in the entry log"),
        (lambda keys: sorted(keys) * 2, "entry 0 of ledger 7 was written twice"),
        (lambda keys: sorted((e, lg) for lg, e in keys), "is not in the memtable"),
    ],
)
def test_a_wrong_order_is_refused_by_what_its_reader_would_suffer(
    answer: Callable[[list[Key]], list[Key]], reason: str
) -> None:
    card = check("storage_path.flush_order", answer)
    assert not card.passed
    assert reason in card.message


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (
            lambda log_id, offset: offset,
            "Entry 1 of ledger 7 is in log 1 at offset 1028; your location",
        ),
        (lambda log_id, offset: log_id << 31 | offset, "means log 0, offset 2147484676"),
        (lambda log_id, offset: offset << 32 | log_id, "means log 1028, offset 0"),
        (lambda log_id, offset: log_id << 32 | offset - 4, "means log 0, offset 1024"),
        (lambda log_id, offset: log_id << 32, "(0 means: no such entry)"),
        (lambda log_id, offset: -offset, "A location must be between 1 and 2**63 - 1"),
    ],
)
def test_a_wrong_location_is_refused_by_where_it_leads(
    answer: Callable[[int, int], int], reason: str
) -> None:
    card = check("storage_path.location", answer)
    assert not card.passed
    assert reason in card.message


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (divmod, "byte 1 is in the middle of another location"),
        (lambda entry, size: divmod(8 * entry + 1024, size), "would use it for entry 128"),
        (
            lambda entry, size: divmod(8 * entry, 8192),
            "Entry 64: byte 512 of page 0 is out of range",
        ),
        (lambda entry, size: divmod(8 * entry, size)[::-1], "Entry 64: byte 1 is in the middle"),
        (lambda entry, size: divmod(8 * entry + 8, size), "would use it for entry 1"),
        (lambda entry, size: (entry // (size // 8), entry % (size // 8)), "in the middle"),
        (lambda entry, size: (8 * entry, 0, 0), "Return (page, byte within the page)"),
    ],
)
def test_a_wrong_slot_is_refused_by_what_another_bookie_would_find(
    answer: Callable[[int, int], tuple[int, int]], reason: str
) -> None:
    card = check("storage_path.index_slot", answer)
    assert not card.passed
    assert reason in card.message


def test_the_real_functions_pass() -> None:
    assert check("storage_path.flush_order", flush_order).passed
    assert check("storage_path.location", location_of).passed
    assert check("storage_path.index_slot", slot_of).passed


def test_a_wrong_order_is_shown_inside_the_bookie() -> None:
    card = check("storage_path.flush_order", list)
    assert isinstance(card.counterexample, BookieInside)
    InteractiveShell.instance()
    with capture_output() as shown:
        card._ipython_display_()
    words, picture = (output.data for output in shown.outputs)
    assert "<img" not in words["text/html"]
    assert picture["text/plain"] == repr(card.counterexample)
