"""Tests for a client's settings."""

from typing import Any

import pytest

from labkit.system.client.context import ClientConfig
from labkit.system.model.errors import BKIncorrectParameterException


def test_defaults_are_bookkeepers() -> None:
    config = ClientConfig()
    assert {name: getattr(config, name) for name in config.__slots__} == {
        "request_timeout_s": 5.0,
        "speculative_read_timeout_ms": 2000,
        "delay_ensemble_change": False,
        "max_pending_adds": 5000,
        "bookie_error_threshold": 5,
        "bookie_error_interval_s": 60.0,
        "bookie_quarantine_time_s": 1800.0,
        "explicit_lac_interval_ms": 0,
        "add_entry_quorum_timeout_s": -1.0,
        "max_allowed_ensemble_changes": 2**31 - 1,
        "min_num_racks_per_write_quorum": 0,
        "enforce_min_num_racks_per_write_quorum": False,
    }


@pytest.mark.parametrize(
    ("name", "lowest"),
    [
        ("request_timeout_s", 0.001),
        ("speculative_read_timeout_ms", 0),
        ("max_pending_adds", 1),
        ("explicit_lac_interval_ms", 0),
        ("bookie_error_threshold", 1),
        ("add_entry_quorum_timeout_s", -1),
        ("max_allowed_ensemble_changes", 0),
        ("min_num_racks_per_write_quorum", 0),
    ],
)
def test_each_setting_has_a_lowest_value(name: str, lowest: float) -> None:
    taken: dict[str, Any] = {name: lowest}
    ClientConfig(**taken)
    refused: dict[str, Any] = {name: lowest / 2 if lowest == 0.001 else lowest - 1}
    with pytest.raises(BKIncorrectParameterException, match=f"{name} is .*at least {lowest}"):
        ClientConfig(**refused)
