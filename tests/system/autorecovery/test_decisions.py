"""The decisions of autorecovery, without any cluster."""

from dataclasses import replace
from itertools import pairwise

import pytest

from labkit.system.autorecovery.fragments import (
    Fragment,
    Underreplicated,
    entries_to_test,
    fragments_of,
    missing_places,
    with_replaced,
)
from labkit.system.autorecovery.lost_bookies import (
    bookies_missed,
    ledgers_of_bookies,
    when_to_audit,
)
from labkit.system.autorecovery.random_port import shuffled
from labkit.system.autorecovery.replicas_check import Shortage, shortage_of
from labkit.system.autorecovery.worker import lock_release_delay_ms
from labkit.system.client.striping import write_set
from labkit.system.model.errors import (
    BKBookieHandleNotAvailableException,
    BKException,
    BKMetadataVersionException,
    BKNoSuchEntryException,
)
from labkit.system.model.ledger import LedgerMetadata, LedgerState, Segment

ABC = ("a", "b", "c")
NOTHING = BKNoSuchEntryException("none")


def ledger(
    *segments: tuple[int, tuple[str, ...]], last: int | None = None, quorum: int = 2
) -> LedgerMetadata:
    parts = tuple(Segment(first, ensemble) for first, ensemble in segments)
    metadata = LedgerMetadata(len(parts[0].ensemble), quorum, quorum, parts, c_token=9)
    return metadata if last is None else replace(metadata.closed(last, 1), c_token=9)


# Which bookie is lost


def test_one_missing_bookie_has_the_delay_to_come_back() -> None:
    assert when_to_audit({"a": 100.0}, 60, 100.0) == 160.0
    assert when_to_audit({"a": 100.0}, 60, 150.0) == 160.0


def test_several_missing_bookies_are_lost_at_once() -> None:
    assert when_to_audit({"a": 100.0, "b": 130.0}, 60, 130.0) == 130.0


def test_without_delay_a_missing_bookie_is_lost_at_once() -> None:
    assert when_to_audit({"a": 100.0}, 0, 100.0) == 100.0


def test_no_audit_without_a_missing_bookie() -> None:
    assert when_to_audit({}, 60, 100.0) is None


def test_every_ensemble_of_every_ledger_counts() -> None:
    closed = ledger((0, ("a", "b")), (5, ("a", "c")), last=9)
    index = ledgers_of_bookies([(1, closed), (2, ledger((0, ("c", "d"))))])
    assert index == {"a": [1], "b": [1], "c": [1, 2], "d": [2]}
    assert bookies_missed(index, ("a", "d")) == {1: ["b", "c"], 2: ["c"]}
    assert bookies_missed(index, ("a", "b", "c", "d")) == {}


# What a ledger consists of


def test_each_segment_is_a_fragment_up_to_the_next() -> None:
    metadata = ledger((0, ABC), (5, ("a", "b", "d")), (7, ("a", "e", "d")), last=9)
    fragments = fragments_of(metadata, 9)
    assert [(f.first, f.last, f.closed) for f in fragments] == [
        (0, 4, True),
        (5, 6, True),
        (7, 9, True),
    ]


def test_earlier_fragments_of_an_open_ledger_are_closed_and_the_last_is_open() -> None:
    """Whatever is known of LastAddConfirmed: a segment begins behind what was confirmed."""
    fragments = fragments_of(ledger((0, ABC), (5, ("a", "b", "d"))), -1)
    assert [(f.first, f.last, f.closed) for f in fragments] == [(0, 4, True), (5, 4, False)]


def test_same_members_as_the_last_ensemble_do_not_make_a_fragment_open() -> None:
    fragments = fragments_of(ledger((0, ABC), (5, ("a", "b", "d")), (8, ABC)), 8)
    assert [f.closed for f in fragments] == [True, True, False]


def test_empty_closed_ledger_has_one_fragment_without_entries() -> None:
    [fragment] = fragments_of(ledger((0, ABC), last=-1), -1)
    assert (fragment.first, fragment.last, fragment.closed) == (0, -1, True)
    assert fragment.first_stored(0) is None
    assert fragment.last_stored(0) is None


@pytest.mark.parametrize("first", [0, 3, 10])
@pytest.mark.parametrize("length", [1, 2, 3, 11])
@pytest.mark.parametrize(("ensemble_size", "quorum"), [(3, 3), (3, 2), (5, 2), (4, 1)])
def test_first_and_last_stored_are_those_of_the_stripes(
    first: int, length: int, ensemble_size: int, quorum: int
) -> None:
    names = tuple("abcde"[:ensemble_size])
    fragment = Fragment(first, first + length - 1, names, quorum, True)
    for place in range(ensemble_size):
        stored = [
            entry_id
            for entry_id in range(first, first + length)
            if place in write_set(entry_id, ensemble_size, quorum)
        ]
        assert fragment.first_stored(place) == (stored[0] if stored else None)
        assert fragment.last_stored(place) == (stored[-1] if stored else None)


# Which copies to test, and which are missing


def test_first_and_last_copy_are_always_tested() -> None:
    fragment = Fragment(0, 99, ABC, 2, True)
    # place 1 has the entries 0, 1, 3, 4, 6, 7, ... 99
    assert entries_to_test(fragment, 1, 0, lambda n: 0) == [0, 99]
    assert entries_to_test(fragment, 2, 0, lambda n: 0) == [1, 98]


def test_one_copy_is_tested_once_and_no_copy_not_at_all() -> None:
    fragment = Fragment(3, 3, ABC, 2, True)
    assert entries_to_test(fragment, 0, 0, lambda n: 0) == [3]
    assert entries_to_test(fragment, 2, 0, lambda n: 0) == []


def test_a_hundred_percent_is_every_copy() -> None:
    fragment = Fragment(0, 9, ABC, 2, True)
    assert entries_to_test(fragment, 0, 100, lambda n: 0) == [0, 2, 3, 5, 6, 8, 9]


def test_a_percentage_is_spread_over_the_fragment() -> None:
    fragment = Fragment(0, 999, ABC, 3, True)
    tested = entries_to_test(fragment, 0, 10, lambda n: n - 1)
    assert tested[0] == 0
    assert tested[-1] == 999
    assert 95 <= len(tested) <= 102
    assert max(b - a for a, b in pairwise(tested)) <= 20


def test_a_bookie_misses_its_copies_if_it_is_gone_or_does_not_give_one() -> None:
    fragment = Fragment(0, 9, ("a", "b", "c", "d"), 2, True)
    no_answer = BKBookieHandleNotAvailableException("no answer")
    failures: dict[int, list[BKException]] = {0: [], 1: [NOTHING], 3: [no_answer]}
    assert missing_places(fragment, ("a", "b", "d"), failures) == (1, 2, 3)


def test_a_bookie_that_is_gone_is_replaced_even_where_it_has_nothing() -> None:
    empty = Fragment(0, -1, ABC, 2, True)
    assert missing_places(empty, ("a", "c"), {0: [], 2: []}) == (1,)


def test_good_copies_are_asked_for_first() -> None:
    fragment = Fragment(0, 9, ABC, 3, True)
    assert Underreplicated(fragment, (1,)).sources(1) == ["c", "a", "b"]
    assert Underreplicated(fragment, (0, 2)).sources(0) == ["b", "a", "c"]


# What the metadata becomes


def test_only_the_replaced_bookies_of_that_segment_change() -> None:
    metadata = ledger((0, ABC), (5, ("a", "b", "d")), last=9)
    updated = with_replaced(metadata, 0, {"b": "e"})
    assert updated == replace(
        metadata, segments=(Segment(0, ("a", "e", "c")), metadata.segments[1]), c_token=0
    )


def test_nothing_is_changed_where_the_old_bookie_is_gone_already() -> None:
    metadata = ledger((0, ABC), last=9)
    assert with_replaced(metadata, 0, {"x": "e"}) is None
    assert with_replaced(metadata, 3, {"a": "e"}) is None


def test_an_ensemble_never_has_a_bookie_twice() -> None:
    with pytest.raises(BKMetadataVersionException, match="by another client"):
        with_replaced(ledger((0, ABC), last=9), 0, {"b": "c"})


def test_state_and_end_of_a_ledger_stay_as_they_are() -> None:
    updated = with_replaced(ledger((0, ABC), last=9), 0, {"b": "e"})
    assert updated is not None
    assert (updated.state, updated.last_entry_id) == (LedgerState.CLOSED, 9)


# How long to wait, and what to report


def test_a_ledger_that_fails_again_stays_locked_longer_up_to_the_grace_period() -> None:
    delays = [lock_release_delay_ms(failures, 300_000) for failures in range(1, 9)]
    assert delays == [9375, 18750, 37500, 75000, 150_000, 300_000, 300_000, 300_000]


def test_a_random_order_has_each_bookie_once() -> None:
    assert list(shuffled(["a", "b", "c"], lambda n: n - 1)) == ["c", "b", "a"]
    assert sorted(shuffled(["a", "b", "c"], lambda n: 0)) == ["a", "b", "c"]
    assert list(shuffled([], lambda n: 0)) == []


def test_replicas_are_counted_in_three_classes() -> None:
    assert shortage_of({0: 3, 1: 2, 2: 1, 3: 1}, 3, 2) == Shortage(1, 1, 2)


def test_entry_that_misses_no_copy_is_in_no_class() -> None:
    assert shortage_of({0: 0, 1: 1}, 3, 2) == Shortage(0, 0, 1)
