"""Test when a ledger rolls over and when it may be deleted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.system.topic.chain.ledger_chain import LedgerInfo, Position
from labkit.system.topic.chain.retention import ledgers_to_delete
from labkit.system.topic.config import ManagedLedgerConfig

MINUTE_MS = 60_000
NOW_MS = 100 * MINUTE_MS

LINKS = (
    LedgerInfo(1, 10, 100, NOW_MS - 30 * MINUTE_MS),
    LedgerInfo(4, 10, 100, NOW_MS - 20 * MINUTE_MS),
    LedgerInfo(6, 10, 100, NOW_MS - 10 * MINUTE_MS),
    LedgerInfo(7),
)


@pytest.mark.parametrize(
    ("slowest", "time_ms", "size_bytes", "going"),
    [
        # With Pulsar's defaults, nothing is retained after it has been consumed.
        ((7, -1), 0, 0, [1, 4, 6]),
        (None, 0, 0, [1, 4, 6]),
        # The ledger of the slowest cursor is kept until all of its entries are acknowledged.
        ((4, 3), 0, 0, [1]),
        ((4, 8), 0, 0, [1]),
        ((4, 9), 0, 0, [1, 4]),
        ((6, -1), 0, 0, [1, 4]),
        ((1, 5), 0, 0, []),
        ((1, -1), 0, 0, []),
        # A ledger is deleted as soon as either the time limit or the size limit allows it.
        (None, 15 * MINUTE_MS, -1, [1, 4]),
        (None, 20 * MINUTE_MS, -1, [1]),
        (None, -1, 100, [1, 4]),
        (None, -1, 150, [1]),
        (None, -1, 1000, []),
        (None, 25 * MINUTE_MS, 100, [1, 4]),
        (None, 15 * MINUTE_MS, 1000, [1, 4]),
        (None, -1, -1, []),
        ((4, 3), 5 * MINUTE_MS, 0, [1]),
        # The current ledger is never deleted.
        ((7, 5), 0, 0, [1, 4, 6]),
    ],
)
def test_consumed_ledgers_go_when_time_or_size_lets_them(
    slowest: Position | None, time_ms: int, size_bytes: int, going: list[int]
) -> None:
    config = ManagedLedgerConfig(retention_time_ms=time_ms, retention_size_bytes=size_bytes)
    assert ledgers_to_delete(LINKS, slowest, NOW_MS, config) == going


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 99), st.integers(1, 99)), max_size=6),
    st.one_of(st.none(), st.tuples(st.integers(0, 7), st.integers(-1, 9))),
    st.integers(-1, 99),
    st.integers(-1, 500),
)
def test_what_goes_is_the_beginning_and_never_what_a_cursor_needs(
    sizes: list[tuple[int, int, int]], slowest: Position | None, time_ms: int, size_bytes: int
) -> None:
    links = [LedgerInfo(at, *size) for at, size in enumerate(sizes)]
    config = ManagedLedgerConfig(retention_time_ms=time_ms, retention_size_bytes=size_bytes)
    going = ledgers_to_delete(links, slowest, 100, config)
    assert going == list(range(len(going)))
    assert len(going) < max(len(links), 1)
    for link in links[: len(going)]:
        assert slowest is None or slowest >= (link.ledger_id, link.entry_count - 1)
    if size_bytes >= 0 and time_ms < 0:
        assert not going or sum(link.size_bytes for link in links[len(going) :]) >= size_bytes
