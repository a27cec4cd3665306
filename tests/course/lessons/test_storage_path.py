"""Tests lesson 03: each typical wrong answer is rejected with its own explanation."""

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from labkit.course.lessons import check
from labkit.views.widgets.bookie_inside import BookieInside
from tests.course.lessons.refused import Wrong, refused


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("arrival", "The entries of ledger 8 must be contiguous; yours are in 2"),
        ("ledgers alone", "In ledger 7, entry 9 must come before"),
        (
            "entries first",
            "The entries of ledger 7 must be contiguous",
        ),
        ("backwards", "In ledger 8, entry 0 must come before"),
        ("as text", "The ledgers must be in order of their ids"),
        (lambda keys: sorted(keys)[:-1], "entry 1 of ledger 8 is not in the entry log"),
        (lambda keys: sorted(keys) * 2, "entry 0 of ledger 7 was written twice"),
        (lambda keys: sorted((e, lg) for lg, e in keys), "is not in the memtable"),
    ],
)
def test_a_wrong_order_is_refused_by_what_its_reader_would_suffer(
    wrong: Wrong, reason: str
) -> None:
    refused("storage_path.flush_order", wrong, reason)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        (
            "offset alone",
            "Entry 1 of ledger 7 is in log 1 at offset 1028; your location",
        ),
        ("31 bits", "means log 0, offset 2147484676"),
        ("halves swapped", "means log 1028, offset 0"),
        ("at the length word", "means log 0, offset 1024"),
        (lambda log_id, offset: log_id << 32, "(0 means: no such entry)"),
        (lambda log_id, offset: -offset, "A location must be between 1 and 2**63 - 1"),
    ],
)
def test_a_wrong_location_is_refused_by_where_it_leads(wrong: Wrong, reason: str) -> None:
    refused("storage_path.location", wrong, reason)


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ("bytes for slots", "byte 1 is in the middle of another location"),
        ("header in the page", "would use it for entry 128"),
        (
            "8192",
            "Entry 64: byte 512 of page 0 is out of range",
        ),
        ("swapped", "Entry 64: byte 1 is in the middle"),
        ("from 1", "would use it for entry 1"),
        ("places, not bytes", "in the middle"),
        (lambda entry, size: (8 * entry, 0, 0), "Return (page, byte within the page)"),
    ],
)
def test_a_wrong_slot_is_refused_by_what_another_bookie_would_find(
    wrong: Wrong, reason: str
) -> None:
    refused("storage_path.index_slot", wrong, reason)


def test_a_wrong_order_is_shown_inside_the_bookie() -> None:
    card = check("storage_path.flush_order", list)
    assert isinstance(card.counterexample, BookieInside)
    InteractiveShell.instance()
    with capture_output() as shown:
        card._ipython_display_()
    words, picture = (output.data for output in shown.outputs)
    assert "<img" not in words["text/html"]
    assert picture["text/plain"] == repr(card.counterexample)
