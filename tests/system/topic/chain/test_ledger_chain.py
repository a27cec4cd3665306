"""Tests for positions in a chain of ledgers, compared with a list of all entries as the model."""

from hypothesis import given
from hypothesis import strategies as st

from labkit.system.topic.chain.ledger_chain import NOWHERE, LedgerChain, LedgerInfo, Position


@st.composite
def chains(draw: st.DrawFn) -> LedgerChain:
    """Generate chains of up to five ledgers, some of them empty and the last one open."""
    ids = sorted(draw(st.sets(st.integers(0, 12), max_size=5)))
    counts = [draw(st.integers(0, 3)) for _ in ids]
    links = [LedgerInfo(i, count, count * 10, 5) for i, count in zip(ids, counts, strict=True)]
    if links:
        links[-1] = LedgerInfo(ids[-1])
    chain = LedgerChain(links)
    if links:
        chain.open_entry_count = counts[-1]
    return chain


def entries_of(chain: LedgerChain) -> list[Position]:
    return [(link.ledger_id, entry) for link in chain.ledgers for entry in range(link.entry_count)]


POSITIONS = st.tuples(st.integers(-1, 13), st.integers(-1, 4))


@given(chains(), POSITIONS)
def test_first_from_a_position_and_last_before(chain: LedgerChain, position: Position) -> None:
    entries = entries_of(chain)
    assert chain.first_from(position) == next((e for e in entries if e >= position), None)
    assert chain.last_before(position) == next((e for e in entries[::-1] if e < position), None)


@given(chains(), POSITIONS)
def test_next_position_is_an_entry_or_the_end(chain: LedgerChain, position: Position) -> None:
    behind = [entry for entry in entries_of(chain) if entry > position]
    place_to_come = (
        (chain.stored_ledgers[-1].ledger_id, chain.open_entry_count)
        if chain.stored_ledgers
        else NOWHERE
    )
    assert chain.next_position(position) == (behind[0] if behind else place_to_come)


@given(chains(), POSITIONS, st.integers(1, 12))
def test_nth_entry_after_a_position(chain: LedgerChain, position: Position, count: int) -> None:
    behind = [entry for entry in entries_of(chain) if entry > position]
    assert chain.nth_after(position, count) == (behind[count - 1] if count <= len(behind) else None)


@given(chains(), POSITIONS, POSITIONS)
def test_entries_between_two_positions_are_counted(
    chain: LedgerChain, after: Position, up_to: Position
) -> None:
    between = [entry for entry in entries_of(chain) if after < entry <= up_to]
    assert chain.entry_count(after, up_to) == len(between)


@given(chains())
def test_end_is_the_last_confirmed_entry_or_the_place_before_the_first(chain: LedgerChain) -> None:
    entries = entries_of(chain)
    in_front = (chain.stored_ledgers[-1].ledger_id, -1) if chain.stored_ledgers else NOWHERE
    assert chain.end == (entries[-1] if entries else in_front)


def test_in_front_of_a_ledgers_first_entry_is_minus_1_and_not_0() -> None:
    chain = LedgerChain([LedgerInfo(3, 2, 1, 1), LedgerInfo(5, 0, 0, 1), LedgerInfo(8, 4, 1, 1)])
    assert chain.previous_position((8, 0)) == (8, -1)
    assert chain.previous_position((8, -1)) == (3, 1)
    assert chain.previous_position((3, -1)) == (3, -1)


def test_what_is_confirmed_of_the_open_ledger_outlives_a_change_of_the_others() -> None:
    chain = LedgerChain([LedgerInfo(1, 2, 9, 9), LedgerInfo(2)])
    chain.open_entry_count = 3
    chain.replace([LedgerInfo(2)])
    assert chain.end == (2, 2)
    chain.replace([LedgerInfo(2, 3, 9, 9), LedgerInfo(4)])
    assert (chain.end, chain.open_entry_count) == ((2, 2), 0)


def test_ledger_that_is_not_in_the_chain_has_no_entry() -> None:
    chain = LedgerChain([LedgerInfo(3, 5, 1, 1)])
    assert [chain.entry_count_of(ledger_id) for ledger_id in (2, 3, 4)] == [0, 5, 0]
