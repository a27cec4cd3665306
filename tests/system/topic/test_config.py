"""Tests for the defaults and the allowed values of a managed ledger's settings."""

import pytest

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.system.topic.config import PULSAR_DEFAULTS, UNLIMITED, ManagedLedgerConfig

HOUR_MS = 60 * 60 * 1000
DEFAULTS = {
    "ensemble_size": 3,
    "write_quorum": 3,
    "ack_quorum": 2,
    "max_entries_per_ledger": 50_000,
    "max_ledger_size_bytes": 2 * 1024**3,
    "max_ledger_age_ms": 4 * HOUR_MS,
    "min_ledger_age_ms": 0,
    "retention_time_ms": -1,
    "retention_size_bytes": -1,
    "check_interval_ms": 120_000,
    "cursor_persist_interval_ms": 1000,
    "max_entries_per_cursor_ledger": 50_000,
    "max_cursor_ledger_age_ms": 4 * HOUR_MS,
    "max_ranges_stored": 10_000,
    "max_ranges_in_node": 1000,
    "entry_cache_size_bytes": 16 * 1024**2,
}
LOWEST = {
    "max_entries_per_ledger": 1,
    "max_ledger_size_bytes": 1,
    "max_ledger_age_ms": 1,
    "min_ledger_age_ms": 0,
    "retention_time_ms": UNLIMITED,
    "retention_size_bytes": UNLIMITED,
    "check_interval_ms": 1,
    "cursor_persist_interval_ms": 0,
    "max_entries_per_cursor_ledger": 1,
    "max_cursor_ledger_age_ms": 1,
    "max_ranges_stored": 1,
    "max_ranges_in_node": 1,
    "entry_cache_size_bytes": 0,
}


def values(config: ManagedLedgerConfig) -> dict[str, int]:
    return {name: getattr(config, name) for name in config.__slots__}


def test_defaults_keep_what_was_written() -> None:
    assert values(ManagedLedgerConfig()) == DEFAULTS


def test_defaults_of_a_broker_are_pulsars() -> None:
    assert values(PULSAR_DEFAULTS) == {
        **DEFAULTS,
        **{"ensemble_size": 2, "write_quorum": 2, "ack_quorum": 2},
        "min_ledger_age_ms": 600_000,
        "retention_time_ms": 0,
        "retention_size_bytes": 0,
    }


@pytest.mark.parametrize(("name", "lowest"), LOWEST.items())
def test_each_setting_has_a_lowest_value_that_is_accepted(name: str, lowest: int) -> None:
    assert getattr(ManagedLedgerConfig(**{name: lowest}), name) == lowest
    with pytest.raises(BKIncorrectParameterException, match=f"{name} is .* at least {lowest}$"):
        ManagedLedgerConfig(**{name: lowest - 1})


@pytest.mark.parametrize("sizes", [(2, 3, 2), (3, 2, 3), (3, 3, 0), (0, 0, 0)])
def test_quorums_that_do_not_fit_together_are_rejected(sizes: tuple[int, int, int]) -> None:
    with pytest.raises(BKIncorrectParameterException):
        ManagedLedgerConfig(*sizes)
