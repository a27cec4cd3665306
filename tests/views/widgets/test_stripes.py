"""Tests the striping view: its rules match the client's, and the picture shows them."""

from itertools import combinations

import pytest

from labkit.system.client.quorum import is_covered
from labkit.system.client.striping import write_set
from labkit.views.widgets.stripes import Stripes
from labkit.views.widgets.stripes.rules import Striping
from tests.views.widgets.films import words_in

SIZES = [(e, qw, qa) for e in range(1, 6) for qw in range(1, e + 1) for qa in range(1, qw + 1)]


@pytest.mark.parametrize("sizes", SIZES)
def test_the_rules_are_the_clients(sizes: tuple[int, int, int]) -> None:
    size, write_quorum, ack_quorum = sizes
    for count in range(size + 1):
        for failed in combinations(range(size), count):
            striping = Striping(*sizes, failed)
            known = set(range(size)) - set(failed)
            assert striping.is_covered == is_covered(known, *sizes)
            for entry in range(2 * size):
                places = write_set(entry, size, write_quorum)
                assert striping.write_set(entry) == tuple(striping.cells(entry)) == places
                answering = [place for place in places if place in known]
                assert striping.can_be_added(entry) == (len(answering) >= ack_quorum)
                enough = [p for p, look in striping.cells(entry).items() if look == "enough"]
                assert enough == answering[:ack_quorum]


@pytest.mark.parametrize("sizes", SIZES)
def test_what_is_said_to_hold_holds_whichever_fail_and_no_more_can_be_said(
    sizes: tuple[int, int, int],
) -> None:
    size, write_quorum, _ = sizes
    holds = (
        lambda striping: striping.is_covered,
        lambda striping: striping.blocked is None,
        lambda striping: all(striping.failed_in(e) < write_quorum for e in range(size)),
    )
    for (most, _words), is_well in zip(Striping(*sizes).tolerances(), holds, strict=True):
        for count in range(size + 1):
            stripings = [Striping(*sizes, gone) for gone in combinations(range(size), count)]
            assert all(map(is_well, stripings)) == (count <= most)


@pytest.mark.parametrize(
    ("failed", "fate"), [((), "safe"), ((1,), "safe"), ((1, 2), "perhaps"), ((0, 1, 2), "lost")]
)
def test_a_confirmed_entry_is_safe_while_fewer_than_qa_of_its_bookies_fail(
    failed: tuple[int, ...], fate: str
) -> None:
    assert Striping(5, 3, 2, failed).fate(0) == fate


def test_the_picture_tells_what_is_lost_and_what_stops() -> None:
    view = Stripes(5, 3, 2, entries=8, failed=(2, 1))
    assert view.striping.failed == (1, 2)
    words = words_in(view.svg()).replace("\n", " ")
    for line in (
        "b1 ✕",
        "b2 ✕",
        "No: of 8 entries, 4 may be lost.",
        "No: entry 0 needs 2 acknowledgements, but only 1 of its bookies can respond.",
        "No: an entry may have been confirmed by the failed bookies alone.",
        "any 1 every confirmed entry is safe, and recovery finds the end",
    ):
        assert line in words
    assert repr(view).startswith("Stripes: E=5 Qw=3 Qa=2, 8 entries; failed: b1, b2;")


@pytest.mark.parametrize("sizes", [(2, 3, 1), (3, 2, 3), (10, 3, 2), (3, 2, 0)])
def test_numbers_that_no_ledger_can_have_are_refused(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="E >= Qw >= Qa"):
        Stripes(*sizes)
