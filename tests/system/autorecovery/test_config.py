from typing import Any

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.model.errors import BKIncorrectParameterException


@pytest.mark.parametrize(
    ("value", "allowed"),
    [
        ({"auditor_periodic_check_interval_s": -1}, "at least 0"),
        ({"lost_bookie_recovery_delay_s": -5}, "at least 0"),
        ({"auditor_ledger_verification_percentage": 101}, "at most 100"),
        ({"auditor_ledger_verification_percentage": -1}, "at least 0"),
        ({"rereplication_entry_batch_size": 0}, "at least 1"),
        ({"rw_rereplicate_backoff_ms": 0}, "at least 1"),
        ({"replication_rate_by_bytes": 0}, "at least 1, or -1"),
        ({"open_ledger_rereplication_grace_period_ms": -1}, "at least 0"),
    ],
)
def test_value_out_of_range_is_refused_by_its_name(value: dict[str, Any], allowed: str) -> None:
    with pytest.raises(BKIncorrectParameterException, match=f"{next(iter(value))} is .*{allowed}"):
        AutoRecoveryConfig(**value)


def test_defaults_are_allowed_and_periodic_checks_can_be_off() -> None:
    AutoRecoveryConfig()
    AutoRecoveryConfig(auditor_periodic_check_interval_s=0, replication_rate_by_bytes=1)


def test_defaults_are_bookkeepers_and_pulsars() -> None:
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


LOWEST = {
    "rereplication_entry_batch_size": 1,
    "rw_rereplicate_backoff_ms": 1,
    "auditor_periodic_check_interval_s": 0,
    "auditor_periodic_bookie_check_interval_s": 0,
    "auditor_replicas_check_interval_s": 0,
    "auditor_ledger_verification_percentage": 0,
    "lost_bookie_recovery_delay_s": 0,
    "open_ledger_rereplication_grace_period_ms": 0,
    "lock_release_of_failed_ledger_grace_period_ms": 0,
    "min_num_racks_per_write_quorum": 0,
    "auditor_periodic_placement_policy_check_interval_s": 0,
}


@pytest.mark.parametrize(("name", "lowest"), LOWEST.items())
def test_each_setting_is_taken_down_to_its_lowest_value_and_not_below(
    name: str, lowest: int
) -> None:
    taken: dict[str, Any] = {name: lowest}
    assert getattr(AutoRecoveryConfig(**taken), name) == lowest
    refused: dict[str, Any] = {name: lowest - 1}
    with pytest.raises(BKIncorrectParameterException, match=f"{name} is {lowest - 1}; it must be"):
        AutoRecoveryConfig(**refused)


def test_percentage_is_up_to_a_hundred_and_a_rate_at_least_one_byte_or_unlimited() -> None:
    for value in (0, 100):
        AutoRecoveryConfig(auditor_ledger_verification_percentage=value)
    for value in (-1, 1):
        AutoRecoveryConfig(replication_rate_by_bytes=value)
    with pytest.raises(BKIncorrectParameterException, match="replication_rate_by_bytes is -2"):
        AutoRecoveryConfig(replication_rate_by_bytes=-2)


def test_client_keeps_to_the_racks_that_are_asked_for() -> None:
    client = AutoRecoveryConfig(
        min_num_racks_per_write_quorum=2, enforce_min_num_racks_per_write_quorum=True
    ).client
    assert client.min_num_racks_per_write_quorum == 2
    assert client.enforce_min_num_racks_per_write_quorum
    assert not AutoRecoveryConfig().client.enforce_min_num_racks_per_write_quorum
