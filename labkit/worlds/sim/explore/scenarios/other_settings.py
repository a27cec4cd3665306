"""Bookies, clients, autorecovery and brokers with other settings than the usual ones."""

from collections.abc import Callable
from dataclasses import replace

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.storage.config import StorageConfig
from labkit.worlds.sim.explore.scenarios.scenario_random import ScenarioRandom
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.workload.steps import Write


def with_other_settings(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """Other settings of the storage, the writers or autorecovery."""
    parts: tuple[Callable[[Scenario, ScenarioRandom], Scenario], ...] = (_of_storage,)
    if any(isinstance(step, Write) for step in scenario.workload):
        parts = *parts, _of_writers
    if scenario.cluster.autorecovery is not None:
        parts = *parts, _of_autorecovery
    return draw.one_of(*parts)(scenario, draw)


def _of_storage(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    usual = scenario.cluster.storage
    others: tuple[StorageConfig, ...] = (
        replace(
            usual,
            journal_flush_when_queue_empty=False,
            journal_max_group_wait_ms=draw.one_of(1, 2, 20),
            journal_buffered_entries_threshold=draw.one_of(0, 3),
        ),
        replace(
            usual,
            journal_format_version_to_write=draw.one_of(4, 5),
            file_info_format_version_to_write=0,
        ),
        replace(usual, journal_max_backups=draw.one_of(1, 5)),
        replace(
            usual,
            entry_log_per_ledger_enabled=True,
            maximum_number_of_active_entry_logs=draw.one_of(1, 500),
        ),
        replace(usual, page_size=draw.one_of(8, 64), page_limit=draw.one_of(1, 3)),
        replace(usual, open_file_limit=1),
        replace(usual, skip_list_size_limit=draw.one_of(100, 1000)),
    )
    storage = draw.one_of(*others)
    return replace(scenario, cluster=replace(scenario.cluster, storage=storage))


def _of_writers(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    steps = (
        _with_other_patience(step, draw) if isinstance(step, Write) else step
        for step in scenario.workload
    )
    return replace(scenario, workload=tuple(steps))


def _with_other_patience(write: Write, draw: ScenarioRandom) -> Write:
    return draw.one_of(
        replace(write, delay_ensemble_change=True),
        replace(write, quorum_timeout_ms=draw.one_of(8, 40, 400)),
        replace(write, max_allowed_ensemble_changes=draw.one_of(0, 1, 2)),
    )


def _of_autorecovery(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """The auditor also asks for entries, of some or all ledgers; workers copy few at a time."""
    config = scenario.cluster.autorecovery
    assert isinstance(config, AutoRecoveryConfig)
    config = replace(
        config,
        auditor_replicas_check_interval_s=draw.one_of(0, 1, 3),
        auditor_ledger_verification_percentage=draw.one_of(0, 50, 100),
        rereplication_entry_batch_size=draw.one_of(1, 3, 100),
    )
    return replace(scenario, cluster=replace(scenario.cluster, autorecovery=config))


def with_overreplication_checks(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """Bookies look for copies that they need not keep, as often as for deleted ledgers or less."""
    wait_ms = scenario.cluster.gc_wait_time_ms * draw.one_of(1, 4)
    cluster = replace(scenario.cluster, gc_overreplicated_ledger_wait_time_ms=wait_ms)
    return replace(scenario, cluster=cluster)


def with_two_journals(scenario: Scenario, _: ScenarioRandom) -> Scenario:
    """Each bookie has two journals."""
    return replace(scenario, cluster=replace(scenario.cluster, journal_directories=2))


def with_topic_upkeep(scenario: Scenario, draw: ScenarioRandom) -> Scenario:
    """Brokers trim ledgers that all subscriptions have passed, and often store cursors in short
    ledgers.
    """
    broker = scenario.cluster.broker
    managed_ledger = replace(
        broker.managed_ledger,
        retention_time_ms=draw.one_of(0, 0, 100),
        retention_size_bytes=draw.one_of(0, -1, 300),
        check_interval_ms=draw.one_of(20, 200),
        max_entries_per_cursor_ledger=draw.one_of(2, 50_000),
        max_ranges_in_node=draw.one_of(1, 1000),
        entry_cache_size_bytes=draw.one_of(0, 100, 16 * 1024 * 1024),
    )
    # Deduplication has a cursor, which passes a ledger only with its next snapshot.
    is_deduplicated = draw.chance(0.3)
    broker = replace(
        broker, managed_ledger=managed_ledger, broker_deduplication_enabled=is_deduplicated
    )
    return replace(scenario, cluster=replace(scenario.cluster, broker=broker))
