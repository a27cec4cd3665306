"""Test which bookies are chosen for an ensemble, and which ones replace failed bookies."""

from collections.abc import Sequence

import pytest

from labkit.system.client.ensemble import with_ensemble
from labkit.system.client.placement.placement import (
    choose_ensemble,
    choose_replacements,
    in_name_order,
)
from labkit.system.model.errors import BKNotEnoughBookiesException
from labkit.system.model.ledger import LedgerMetadata, Segment

B1, B2, B3, B4, B5 = "b1", "b2", "b3", "b4", "b5"


def test_by_name_the_first_ones_are_taken_whatever_their_order() -> None:
    assert in_name_order([B3, B1, B2], 2) == [B1, B2]


@pytest.mark.parametrize(
    ("quarantined", "chosen"),
    [
        ((), (B1, B2, B3)),
        ((B1,), (B2, B3, B4)),
        # Too few bookies remain, so the quarantine is ignored.
        ((B1, B4), (B1, B2, B3)),
        ((B1, B2, B3, B4), (B1, B2, B3)),
    ],
)
def test_bookies_in_quarantine_are_taken_only_if_there_are_not_enough_others(
    quarantined: tuple[str, ...], chosen: tuple[str, ...]
) -> None:
    assert choose_ensemble(in_name_order, [B1, B2, B3, B4], 3, quarantined) == chosen


def test_an_ensemble_may_need_all_bookies_that_take_writes() -> None:
    assert choose_ensemble(in_name_order, [B1, B2], 2) == (B1, B2)
    with pytest.raises(
        BKNotEnoughBookiesException,
        match=r"needs 3 writable bookies, but there are only 2 \(b1, b2\)",
    ):
        choose_ensemble(in_name_order, [B1, B2], 3)
    with pytest.raises(BKNotEnoughBookiesException, match=r"there are only 0 \(none\)"):
        choose_ensemble(in_name_order, [], 1)


def test_a_rule_of_the_placement_counts_more_than_a_quarantine() -> None:
    asked: list[list[str]] = []

    def needs_b1(bookies: Sequence[str], count: int) -> Sequence[str]:
        asked.append([*bookies])
        return bookies[:count] if B1 in bookies else []

    assert choose_ensemble(needs_b1, [B1, B2, B3], 2, (B1,)) == (B1, B2)
    assert asked == [[B2, B3], [B1, B2, B3]]
    with pytest.raises(
        BKNotEnoughBookiesException, match=r"of the 2 writable bookies .* spans enough racks"
    ):
        choose_ensemble(needs_b1, [B2, B3], 2)


@pytest.mark.parametrize(
    ("writable", "quarantined", "replacements"),
    [
        ((B1, B2, B3, B4, B5), (), {0: B4, 2: B5}),
        ((B2, B4, B5), (B4,), {0: B5, 2: B4}),
        ((B2, B4), (), {0: B4}),
        ((B2, B4), (B4,), {0: B4}),
        ((B1, B2, B3), (), {}),
    ],
)
def test_failed_bookies_are_replaced_from_outside_the_ensemble_as_far_as_there_are_others(
    writable: tuple[str, ...], quarantined: tuple[str, ...], replacements: dict[int, str]
) -> None:
    failed = {2: B3, 0: B1}
    chosen = choose_replacements(in_name_order, writable, (B1, B2, B3), failed, quarantined)
    assert chosen == replacements


def test_of_many_candidates_only_as_many_as_failed_are_taken() -> None:
    writable = [f"b{number}" for number in range(1, 10)]
    chosen = choose_replacements(in_name_order, writable, (B1, B2, B3), {1: B2}, (B4, B5))
    assert chosen == {1: "b6"}


def test_a_segment_that_begins_where_the_new_one_does_is_replaced_and_the_token_dropped() -> None:
    metadata = LedgerMetadata(2, 2, 2, (Segment(0, (B1, B2)),), c_token=7)
    changed = with_ensemble(metadata, 5, (B1, B3))
    assert changed.segments == (Segment(0, (B1, B2)), Segment(5, (B1, B3)))
    assert changed.c_token == 0
    again = with_ensemble(changed, 5, [B4, B3])
    assert again.segments == (Segment(0, (B1, B2)), Segment(5, (B4, B3)))
    with pytest.raises(AssertionError, match="starts at entry 4, before the last one"):
        with_ensemble(again, 4, (B1, B2))
