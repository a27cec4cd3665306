"""Chooses less common settings for bookies, clients, autorecovery and brokers."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from labkit.worlds.sim.explore.scenarios.scenario_random import ScenarioRandom
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.workload.steps import Write


def with_other_settings(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    parts: tuple[Callable[[Scenario, ScenarioRandom], Scenario], ...] = (_other_storage,)
    if any(isinstance(step, Write) for step in scenario.workload):
        parts = *parts, _other_writers
    if scenario.cluster.autorecovery is not None:
        parts = *parts, _other_autorecovery
    return draw.one_of(*parts)(scenario, draw)


def _other_storage(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    default = scenario.cluster.storage
    storage = draw.one_of(
        replace(
            default,
            journal_flush_when_queue_empty=False,
            journal_max_group_wait_ms=draw.one_of(1, 2, 20),
            journal_buffered_entries_threshold=draw.one_of(0, 3),
        ),
        replace(
            default,
            journal_format_version_to_write=draw.one_of(4, 5),
            file_info_format_version_to_write=0,
        ),
        replace(default, journal_max_backups=draw.one_of(1, 5)),
        replace(
            default,
            entry_log_per_ledger_enabled=True,
            maximum_number_of_active_entry_logs=draw.one_of(1, 500),
        ),
        replace(default, page_size=draw.one_of(8, 64), page_limit=draw.one_of(1, 3)),
        replace(default, open_file_limit=1),
        replace(default, skip_list_size_limit=draw.one_of(100, 1000)),
    )
    return scenario.with_cluster(storage=storage)


def _other_writers(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    steps = (
        _other_writer(step, draw) if isinstance(step, Write) else step for step in scenario.workload
    )
    return replace(scenario, workload=tuple(steps))


def _other_writer(write: Write, draw: ScenarioRandom) -> Write:
    return draw.one_of(
        replace(write, delay_ensemble_change=True),
        replace(write, quorum_timeout_ms=draw.one_of(8, 40, 400)),
        replace(write, max_allowed_ensemble_changes=draw.one_of(0, 1, 2)),
    )


def _other_autorecovery(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """Let auditors read some or all of the ledgers, and let workers copy only a few entries at a
    time.
    """
    config = scenario.cluster.autorecovery
    assert config is not None
    config = replace(
        config,
        auditor_replicas_check_interval_s=draw.one_of(0, 1, 3),
        auditor_ledger_verification_percentage=draw.one_of(0, 50, 100),
        rereplication_entry_batch_size=draw.one_of(1, 3, 100),
    )
    return scenario.with_cluster(autorecovery=config)


def with_overreplication_checks(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """Let bookies look for unneeded copies as often as they look for deleted ledgers, or less
    often.
    """
    wait_ms = scenario.cluster.gc_wait_time_ms * draw.one_of(1, 4)
    return scenario.with_cluster(gc_overreplicated_ledger_wait_time_ms=wait_ms)


def with_two_journals(scenario: Scenario, _: ScenarioRandom) -> Scenario:
    return scenario.with_cluster(journal_directories=2)


def with_topic_upkeep(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """Let brokers trim consumed ledgers, and often store cursors in short ledgers."""
    scenario = with_managed_ledger(
        scenario,
        retention_time_ms=draw.one_of(0, 0, 100),
        retention_size_bytes=draw.one_of(0, -1, 300),
        check_interval_ms=draw.one_of(20, 200),
        max_entries_per_cursor_ledger=draw.one_of(2, 50_000),
        max_ranges_in_node=draw.one_of(1, 1000),
        entry_cache_size_bytes=draw.one_of(0, 100, 16 * 1024 * 1024),
    )
    # Usually disable deduplication. It delays trimming, because its cursor advances past a ledger
    # only when the next snapshot is stored.
    broker = replace(scenario.cluster.broker, broker_deduplication_enabled=draw.chance(0.3))
    return scenario.with_cluster(broker=broker)


def with_managed_ledger(scenario: Scenario, **settings: Any) -> Scenario:
    """Change the settings of the brokers' managed ledgers."""
    broker = scenario.cluster.broker
    managed_ledger = replace(broker.managed_ledger, **settings)
    return scenario.with_cluster(broker=replace(broker, managed_ledger=managed_ledger))
