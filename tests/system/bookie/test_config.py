"""Tests for the allowed values and the defaults of a bookie's settings."""

from dataclasses import asdict
from typing import Any

import pytest

from labkit.system.bookie.disk_monitor import DiskConfig
from labkit.system.bookie.garbage_collection import GarbageConfig
from labkit.system.model.errors import BKIncorrectParameterException

DISK_DEFAULTS = {
    "disk_usage_threshold": 0.95,
    "disk_usage_warn_threshold": 0.90,
    "disk_usage_lwm_threshold": None,
    "disk_check_interval_ms": 10_000,
    "read_only_mode_enabled": True,
    "read_only_mode_on_any_disk_full_enabled": False,
    "force_read_only_bookie": False,
}
GARBAGE_DEFAULTS = {
    "gc_wait_time_ms": 600_000,
    "gc_overreplicated_ledger_wait_time_ms": 86_400_000,
    "minor_compaction_threshold": 0.2,
    "minor_compaction_interval_s": 3600,
    "major_compaction_threshold": 0.8,
    "major_compaction_interval_s": 86_400,
    "is_throttle_by_bytes": False,
    "compaction_rate_by_entries": 1000,
    "compaction_rate_by_bytes": 1_000_000,
    "is_force_gc_allow_when_no_space": False,
}


def test_settings_that_are_not_given_are_those_of_bookkeeper() -> None:
    assert asdict(DiskConfig()) == DISK_DEFAULTS
    assert asdict(GarbageConfig()) == GARBAGE_DEFAULTS


@pytest.mark.parametrize(
    "settings",
    [
        {"disk_usage_threshold": 1.0},
        {"disk_usage_threshold": 0.9, "disk_usage_warn_threshold": 0.9},
        {"disk_usage_threshold": 0.95, "disk_usage_lwm_threshold": 0.95},
        {"disk_usage_threshold": 0.001, "disk_usage_warn_threshold": 0.001},
        {"disk_check_interval_ms": 1},
        {"force_read_only_bookie": True},
        {"read_only_mode_enabled": False},
    ],
)
def test_a_disk_setting_may_lie_on_its_limit(settings: dict[str, Any]) -> None:
    assert asdict(DiskConfig(**settings)) == DISK_DEFAULTS | settings


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"disk_usage_threshold": 1.001}, "disk_usage_threshold is 1.001"),
        ({"disk_usage_warn_threshold": 0.951}, "disk_usage_warn_threshold is 0.951"),
        ({"disk_usage_lwm_threshold": 0.951}, "disk_usage_lwm_threshold is 0.951"),
        ({"disk_usage_lwm_threshold": 0.0}, "disk_usage_lwm_threshold is 0.0"),
        ({"disk_usage_warn_threshold": -0.1}, "disk_usage_warn_threshold is -0.1"),
        ({"disk_check_interval_ms": 0}, "disk_check_interval_ms is 0"),
        (
            {"force_read_only_bookie": True, "read_only_mode_enabled": False},
            "requires read_only_mode_enabled",
        ),
    ],
)
def test_a_disk_setting_beyond_its_limit_is_named(settings: dict[str, Any], told: str) -> None:
    with pytest.raises(BKIncorrectParameterException, match=told):
        DiskConfig(**settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"minor_compaction_threshold": 0.001},
        {"major_compaction_threshold": 1},
        {"gc_wait_time_ms": 1},
        {"gc_wait_time_ms": 3_600_000},
        {"minor_compaction_interval_s": 600, "major_compaction_interval_s": 600},
        {"minor_compaction_interval_s": 0, "major_compaction_interval_s": 0},
        {"compaction_rate_by_entries": 1},
        {"compaction_rate_by_bytes": 1},
        {"gc_overreplicated_ledger_wait_time_ms": 0},
    ],
)
def test_a_setting_of_garbage_may_lie_on_its_limit(settings: dict[str, Any]) -> None:
    assert asdict(GarbageConfig(**settings)) == GARBAGE_DEFAULTS | settings


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"gc_wait_time_ms": 0}, "gc_wait_time_ms is 0; it must be at least 1"),
        ({"gc_wait_time_ms": 3_600_001}, "minor_compaction_interval_s is 3600, which is shorter"),
        ({"minor_compaction_interval_s": 599}, "minor_compaction_interval_s is 599"),
        ({"major_compaction_interval_s": 599}, "major_compaction_interval_s is 599"),
        ({"minor_compaction_threshold": 0}, "0 < minor < major <= 1"),
        ({"minor_compaction_threshold": 0.8}, "0 < minor < major <= 1"),
        ({"major_compaction_threshold": 1.1}, "0 < minor < major <= 1"),
        (
            {"gc_overreplicated_ledger_wait_time_ms": -1},
            "gc_overreplicated_ledger_wait_time_ms is -1",
        ),
        ({"compaction_rate_by_entries": 0}, "compaction_rate_by_entries is 0"),
        ({"compaction_rate_by_bytes": 0}, "compaction_rate_by_bytes is 0"),
    ],
)
def test_a_setting_of_garbage_beyond_its_limit_is_named(
    settings: dict[str, Any], told: str
) -> None:
    with pytest.raises(BKIncorrectParameterException, match=told):
        GarbageConfig(**settings)
