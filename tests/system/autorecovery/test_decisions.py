"""Unit tests of autorecovery's decisions, which need no cluster."""

from dataclasses import replace

import pytest

from labkit.system.autorecovery.audit_rules import (
    lost_bookies_by_ledger,
    when_to_audit,
)
from labkit.system.autorecovery.fragments import (
    Fragment,
    UnderreplicatedFragment,
    fragments_of,
    replace_bookies,
    underreplicated_indexes,
)
from labkit.system.autorecovery.random_source import shuffled
from labkit.system.autorecovery.worker import lock_release_delay_ms
from labkit.system.client.striping import write_set
from labkit.system.model.errors import (
    BKBookieHandleNotAvailableException,
    BKException,
    BKMetadataVersionException,
    BKNoSuchEntryException,
)
from labkit.system.model.ledger import LedgerMetadata, Segment

ABC = ("a", "b", "c")
NOTHING = BKNoSuchEntryException("none")


def ledger(
    *segments: tuple[int, tuple[str, ...]], last: int | None = None, quorum: int = 2
) -> LedgerMetadata:
    parts = tuple(Segment(first, ensemble) for first, ensemble in segments)
    metadata = LedgerMetadata(len(parts[0].ensemble), quorum, quorum, parts, c_token=9)
    return metadata if last is None else replace(metadata.closed(last, 1), c_token=9)


@pytest.mark.parametrize(
    ("missing", "delay_s", "now_s", "due_s"),
    [
        ({"a": 100.0}, 60, 100.0, 160.0),
        ({"a": 100.0}, 60, 150.0, 160.0),
        ({"a": 100.0, "b": 130.0}, 60, 130.0, 130.0),
        ({"a": 100.0}, 0, 100.0, 100.0),
        ({}, 60, 100.0, None),
    ],
)
def test_one_missing_bookie_has_the_delay_to_return_and_several_are_lost_at_once(
    missing: dict[str, float], delay_s: float, now_s: float, due_s: float | None
) -> None:
    assert when_to_audit(missing, delay_s, now_s) == due_s


def test_every_ensemble_of_every_ledger_counts() -> None:
    closed = ledger((0, ("a", "b")), (5, ("a", "c")), last=9)
    ledgers = [(1, closed), (2, ledger((0, ("c", "d"))))]
    assert lost_bookies_by_ledger(ledgers, ("a", "d")) == {1: ["b", "c"], 2: ["c"]}
    assert lost_bookies_by_ledger(ledgers, ("a", "b", "c", "d")) == {}


@pytest.mark.parametrize(
    ("starts", "last", "is_closed", "expected"),
    [
        ([0, 5, 7], 9, True, [(0, 4, True), (5, 6, True), (7, 9, True)]),
        # All fragments of an open ledger except the last one are closed, no matter what bookies
        # report, because a segment starts after the last confirmed entry.
        ([0, 5], -1, False, [(0, 4, True), (5, 4, False)]),
        ([0], -1, True, [(0, -1, True)]),
    ],
)
def test_each_segment_is_a_fragment_up_to_the_next(
    starts: list[int], last: int, is_closed: bool, expected: list[tuple[int, int, bool]]
) -> None:
    metadata = ledger(*((start, ABC) for start in starts), last=last if is_closed else None)
    assert [(f.first, f.last, f.closed) for f in fragments_of(metadata, last)] == expected


def test_empty_fragment_has_no_first_and_no_last_copy() -> None:
    fragment = Fragment(0, -1, ABC, 2, closed=True)
    assert (fragment.first_entry(0), fragment.last_entry(0)) == (None, None)


@pytest.mark.parametrize("first", [0, 3, 10])
@pytest.mark.parametrize("length", [1, 2, 3, 11])
@pytest.mark.parametrize(("ensemble_size", "quorum"), [(3, 3), (3, 2), (5, 2), (4, 1)])
def test_the_first_and_last_copy_of_a_bookie_follow_from_the_striping(
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
        assert fragment.first_entry(place) == (stored[0] if stored else None)
        assert fragment.last_entry(place) == (stored[-1] if stored else None)


def test_copies_are_missing_if_the_bookie_is_unregistered_or_a_read_fails() -> None:
    fragment = Fragment(0, 9, ("a", "b", "c", "d"), 2, True)
    no_answer = BKBookieHandleNotAvailableException("no answer")
    failures: dict[int, list[BKException]] = {0: [], 1: [NOTHING], 3: [no_answer]}
    assert underreplicated_indexes(fragment, ("a", "b", "d"), failures) == (1, 2, 3)


def test_an_unregistered_bookie_is_replaced_even_in_an_empty_fragment() -> None:
    empty = Fragment(0, -1, ABC, 2, True)
    assert underreplicated_indexes(empty, ("a", "c"), {0: [], 2: []}) == (1,)


def test_bookies_without_missing_copies_are_read_first() -> None:
    fragment = Fragment(0, 9, ABC, 3, True)
    assert UnderreplicatedFragment(fragment, (1,)).sources(1) == ["c", "a", "b"]
    assert UnderreplicatedFragment(fragment, (0, 2)).sources(0) == ["b", "a", "c"]


def test_only_the_replaced_bookies_of_the_segment_change() -> None:
    metadata = ledger((0, ABC), (5, ("a", "b", "d")), last=9)
    updated = replace_bookies(metadata, 0, {"b": "e"})
    assert updated == replace(
        metadata, segments=(Segment(0, ("a", "e", "c")), metadata.segments[1]), c_token=0
    )


def test_nothing_changes_if_the_segment_no_longer_lists_the_old_bookie() -> None:
    metadata = ledger((0, ABC), last=9)
    assert replace_bookies(metadata, 0, {"x": "e"}) is None
    assert replace_bookies(metadata, 3, {"a": "e"}) is None


def test_an_ensemble_never_has_a_bookie_twice() -> None:
    with pytest.raises(BKMetadataVersionException, match="another client has changed"):
        replace_bookies(ledger((0, ABC), last=9), 0, {"b": "c"})


@pytest.mark.promise(
    "A failed repair waits longer each time; with too few bookies, everything that can be "
    "repaired is repaired"
)
def test_a_ledger_that_fails_again_stays_locked_longer_up_to_the_grace_period() -> None:
    delays = [lock_release_delay_ms(failures, 300_000) for failures in range(1, 9)]
    assert delays == [9375, 18750, 37500, 75000, 150_000, 300_000, 300_000, 300_000]


def test_a_random_order_contains_each_bookie_once() -> None:
    assert list(shuffled(["a", "b", "c"], lambda n: n - 1)) == ["c", "b", "a"]
    assert sorted(shuffled(["a", "b", "c"], lambda n: 0)) == ["a", "b", "c"]
    assert list(shuffled([], lambda n: 0)) == []
