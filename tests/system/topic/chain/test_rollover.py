"""Tests for the rule that decides when a ledger is full."""

import pytest

from labkit.system.topic.chain.rollover import Rollover, rollover_reason
from labkit.system.topic.config import ManagedLedgerConfig


@pytest.mark.parametrize(
    ("entry_count", "size_bytes", "age_ms", "rollover"),
    [
        (10, 0, 99, None),
        (10, 0, 100, None),
        (9, 0, 101, None),
        (10, 0, 101, Rollover("entries", "10 entries")),
        (9, 500, 101, Rollover("size", "500 bytes")),
        (9, 499, 999, None),
        (9, 0, 1000, Rollover("age", "1000 ms old")),
        (0, 0, 1000, None),
    ],
)
def test_ledger_is_full_by_entries_bytes_or_age_and_only_above_its_minimum_age(
    entry_count: int, size_bytes: int, age_ms: int, rollover: Rollover | None
) -> None:
    config = ManagedLedgerConfig(
        max_entries_per_ledger=10,
        max_ledger_size_bytes=500,
        max_ledger_age_ms=1000,
        min_ledger_age_ms=100,
    )
    assert rollover_reason(entry_count, size_bytes, age_ms, config) == rollover


def test_without_a_minimum_age_a_ledger_may_be_full_at_once() -> None:
    config = ManagedLedgerConfig(max_entries_per_ledger=5)
    assert rollover_reason(5, 0, 0, config) == Rollover("entries", "5 entries")
