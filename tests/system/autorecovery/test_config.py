from typing import Any

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.model.errors import BKIncorrectParameterException


def test_defaults_are_those_of_bookkeeper_and_pulsar() -> None:
    day_s = 24 * 60 * 60
    config = AutoRecoveryConfig()
    assert {name: getattr(config, name) for name in config.__slots__} == {
        "auditor_periodic_check_interval_s": 7 * day_s,
        "auditor_periodic_bookie_check_interval_s": day_s,
        "auditor_replicas_check_interval_s": 0,
        "auditor_ledger_verification_percentage": 0,
        "lost_bookie_recovery_delay_s": 0,
        "open_ledger_rereplication_grace_period_ms": 30_000,
        "rw_rereplicate_backoff_ms": 5_000,
        "lock_release_of_failed_ledger_grace_period_ms": 300_000,
        "rereplication_entry_batch_size": 100,
        "replication_rate_by_bytes": -1,
        "min_num_racks_per_write_quorum": 0,
        "enforce_min_num_racks_per_write_quorum": False,
        "auditor_periodic_placement_policy_check_interval_s": 0,
        "repaired_placement_policy_not_adhering_bookie_enabled": False,
    }


@pytest.mark.parametrize(
    ("name", "allowed", "refused", "limit"),
    [
        ("rereplication_entry_batch_size", 1, 0, "at least 1"),
        ("rw_rereplicate_backoff_ms", 1, 0, "at least 1"),
        ("auditor_periodic_check_interval_s", 0, -1, "at least 0"),
        ("auditor_periodic_bookie_check_interval_s", 0, -1, "at least 0"),
        ("auditor_replicas_check_interval_s", 0, -1, "at least 0"),
        ("auditor_ledger_verification_percentage", 0, -1, "at least 0"),
        ("auditor_ledger_verification_percentage", 100, 101, "at most 100"),
        ("lost_bookie_recovery_delay_s", 0, -1, "at least 0"),
        ("open_ledger_rereplication_grace_period_ms", 0, -1, "at least 0"),
        ("lock_release_of_failed_ledger_grace_period_ms", 0, -1, "at least 0"),
        ("min_num_racks_per_write_quorum", 0, -1, "at least 0"),
        ("auditor_periodic_placement_policy_check_interval_s", 0, -1, "at least 0"),
        ("replication_rate_by_bytes", 1, 0, "at least 1, or -1"),
        ("replication_rate_by_bytes", -1, -2, "at least 1, or -1"),
    ],
)
def test_an_error_about_a_value_out_of_range_names_the_setting(
    name: str, allowed: int, refused: int, limit: str
) -> None:
    configs: dict[int, dict[str, Any]] = {value: {name: value} for value in (allowed, refused)}
    assert getattr(AutoRecoveryConfig(**configs[allowed]), name) == allowed
    with pytest.raises(BKIncorrectParameterException, match=f"{name} is {refused}; .*{limit}"):
        AutoRecoveryConfig(**configs[refused])


def test_the_client_uses_the_configured_rack_policy() -> None:
    client = AutoRecoveryConfig(
        min_num_racks_per_write_quorum=2, enforce_min_num_racks_per_write_quorum=True
    ).client_config
    assert client.min_num_racks_per_write_quorum == 2
    assert client.enforce_min_num_racks_per_write_quorum
    assert not AutoRecoveryConfig().client_config.enforce_min_num_racks_per_write_quorum
