"""Tests for acknowledged ranges, compared with a set of positions as the model."""

from bisect import bisect_right
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from labkit.system.topic.chain.ledger_chain import LedgerChain, LedgerInfo, Position
from labkit.system.topic.cursors.acknowledged import Acknowledged, CursorState, Range
from labkit.system.topic.cursors.formats import decode_position, encode_position

CHAIN = LedgerChain([LedgerInfo(3, 5, 1, 1), LedgerInfo(4, 1, 1, 1), LedgerInfo(9, 7, 1, 1)])
ENTRIES = [
    (link.ledger_id, entry) for link in CHAIN.stored_ledgers for entry in range(link.entry_count)
]
BATCH_SIZE = 5
ALL_OF_IT = (1 << BATCH_SIZE) - 1

POSITIONS = st.sampled_from(ENTRIES)
PLACES = st.sampled_from([*ENTRIES, (3, -1), (4, -1), (9, -1)])


class Acknowledging(RuleBasedStateMachine):
    """Compares the ranges with a set for random sequences of calls."""

    @initialize()
    def begin(self) -> None:
        self.acknowledged = Acknowledged(CursorState(CHAIN.start), CHAIN.next_position)
        self.model: set[Position] = set()
        self.left: dict[Position, int] = {}

    @rule(position=POSITIONS)
    def one(self, position: Position) -> None:
        self.acknowledged.add(position)
        self.model.add(position)

    @rule(position=POSITIONS, left=st.integers(0, ALL_OF_IT))
    def part_of_a_batch(self, position: Position, left: int) -> None:
        self.acknowledged.add_batch(position, BATCH_SIZE, left)
        self.left[position] = self.left.get(position, ALL_OF_IT) & left
        if not self.left[position]:
            self.model.add(position)

    @rule(position=PLACES)
    def up_to(self, position: Position) -> None:
        self.acknowledged.add_up_to(position)
        self.model.update(entry for entry in ENTRIES if entry <= position)

    @rule(position=PLACES)
    def seek(self, position: Position) -> None:
        self.acknowledged.reset(CHAIN.last_before(position) or CHAIN.start)
        self.model = {entry for entry in ENTRIES if entry < position}
        self.left.clear()

    @rule()
    def owner_changes(self) -> None:
        state = CursorState(
            self.acknowledged.mark_delete, self.acknowledged.ranges, self.acknowledged.batches
        )
        [entry] = encode_position(state)
        stored = decode_position(entry)
        assert stored == state
        self.acknowledged = Acknowledged(stored, CHAIN.next_position)

    @invariant()
    def same_entries(self) -> None:
        found = {entry for entry in ENTRIES if self.acknowledged.contains(entry)}
        assert found == self.model

    @invariant()
    def same_batches(self) -> None:
        open_ones = {each: left for each, left in self.left.items() if each not in self.model}
        assert dict(self.acknowledged.batches) == open_ones

    @invariant()
    def mark_delete_is_as_far_as_it_can_be(self) -> None:
        first_open = next((entry for entry in ENTRIES if entry not in self.model), None)
        behind = CHAIN.next_position(self.acknowledged.mark_delete)
        assert behind == (first_open or (9, 7))

    @invariant()
    def ranges_ascend_and_do_not_touch(self) -> None:
        ranges = self.acknowledged.ranges
        for each in ranges:
            assert self.acknowledged.mark_delete <= each.lower < each.upper
            assert each.lower[0] == each.upper[0]
        for before, after in pairwise(ranges):
            assert before.upper < after.lower or before.upper[0] < after.lower[0]


TestAcknowledging = Acknowledging.TestCase
TestAcknowledging.settings = settings(max_examples=60, stateful_step_count=30)


def begun(mark_delete: Position = (3, -1)) -> Acknowledged:
    return Acknowledged(CursorState(mark_delete), CHAIN.next_position)


def test_cumulative_acknowledgement_in_front_of_a_ledger_acknowledges_nothing_of_it() -> None:
    acknowledged = begun()
    acknowledged.add_up_to((4, -1))
    assert [e for e in ENTRIES if acknowledged.contains(e)] == [(3, n) for n in range(5)]
    assert not acknowledged.contains((4, 0))
    acknowledged.add_up_to((9, -1))
    assert acknowledged.contains((4, 0))
    assert not acknowledged.contains((9, 0))


def test_batch_is_acknowledged_when_its_last_message_is() -> None:
    acknowledged = begun()
    acknowledged.add_batch((3, 0), 3, 0b110)
    assert acknowledged.unacknowledged_in_batch((3, 0)) == 0b110
    # A later acknowledgement contains only its own bits, not those already acknowledged.
    acknowledged.add_batch((3, 0), 3, 0b101)
    assert acknowledged.unacknowledged_in_batch((3, 0)) == 0b100
    acknowledged.add_batch((3, 0), 3, 0b011)
    assert acknowledged.unacknowledged_in_batch((3, 0)) is None
    assert acknowledged.mark_delete == (3, 0)


def test_a_batch_is_whole_once_all_up_to_it_is_acknowledged() -> None:
    acknowledged = begun()
    for entry_id in (1, 2, 3):
        acknowledged.add_batch((3, entry_id), 3, 0b110)
    acknowledged.add_up_to((3, 2))
    assert acknowledged.batches == (((3, 3), 0b110),)


def test_bits_beyond_a_batchs_size_do_not_count() -> None:
    acknowledged = begun()
    acknowledged.add_batch((3, 0), 3, 0b11001)
    assert (acknowledged.unacknowledged_in_batch((3, 0)), acknowledged.batch_count) == (0b001, 1)
    acknowledged.add_batch((3, 1), 1, 0b10)
    assert acknowledged.contains((3, 1))
    acknowledged.add_batch((3, 0), 3, 0b11000)
    assert acknowledged.contains((3, 0))
    assert acknowledged.batch_count == 0


@given(st.lists(POSITIONS, max_size=20), POSITIONS)
def test_ranges_that_are_not_stored_come_again_and_nothing_else_is_lost(
    positions: list[Position], mark_delete: Position
) -> None:
    acknowledged = begun(mark_delete)
    for position in positions:
        acknowledged.add(position)
    for kept in range(len(acknowledged.ranges) + 1):
        state = CursorState(acknowledged.mark_delete, acknowledged.ranges[:kept])
        again = Acknowledged(state, CHAIN.next_position)
        assert all(acknowledged.contains(e) for e in ENTRIES if again.contains(e))


def test_ranges_of_a_ledger_that_was_trimmed_are_swallowed() -> None:
    state = CursorState((3, 1), (Range((3, 2), (3, 3)), Range((9, -1), (9, 1))))
    trimmed = LedgerChain([LedgerInfo(9, 7, 1, 1)])
    acknowledged = Acknowledged(state, trimmed.next_position)
    assert (acknowledged.mark_delete, acknowledged.ranges) == ((9, 1), ())


@pytest.mark.parametrize("seed", range(3))
def test_ten_thousand_holes_are_kept_and_closed(seed: int) -> None:
    chain = LedgerChain([LedgerInfo(1, 30_000, 1, 1)])
    acknowledged = Acknowledged(CursorState((1, -1)), chain.next_position)
    odd = [(1, (entry * 7919 + seed) % 15_000 * 2 + 1) for entry in range(10_000)]
    for position in odd:
        acknowledged.add(position)
    assert len(acknowledged.ranges) == 10_000
    last = sorted(odd)[bisect_right(sorted(odd), (1, 20_000)) - 1]
    acknowledged.add_up_to((1, 20_000))
    assert acknowledged.mark_delete in ((1, 20_000), (1, 20_001), last)
