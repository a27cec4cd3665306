"""Bookies, clients and autorecovery with other settings than the usual ones."""

from collections.abc import Callable
from dataclasses import replace

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.storage.config import StorageConfig
from labkit.worlds.sim.explore.scenarios.scenario_random import Lots
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.workload.steps import Write

_SHARE = 1 / 4


def with_other_settings(scenario: Scenario, lots: Lots) -> Scenario:
    """The scenario, or, for one in four, the same with other settings of one part."""
    if not lots.chance(_SHARE):
        return scenario
    parts: tuple[Callable[[Scenario, Lots], Scenario], ...] = (_of_storage,)
    if any(isinstance(step, Write) for step in scenario.workload):
        parts = *parts, _of_writers
    if scenario.cluster.autorecovery is not None:
        parts = *parts, _of_autorecovery
    return lots.one_of(*parts)(scenario, lots)


def _of_storage(scenario: Scenario, lots: Lots) -> Scenario:
    usual = scenario.cluster.storage
    others: tuple[StorageConfig, ...] = (
        replace(
            usual,
            journal_flush_when_queue_empty=False,
            journal_max_group_wait_ms=lots.one_of(1, 2, 20),
            journal_buffered_entries_threshold=lots.one_of(0, 3),
        ),
        replace(
            usual,
            journal_format_version_to_write=lots.one_of(4, 5),
            file_info_format_version_to_write=0,
        ),
        replace(usual, journal_max_backups=lots.one_of(1, 5)),
        replace(
            usual,
            entry_log_per_ledger_enabled=True,
            maximum_number_of_active_entry_logs=lots.one_of(1, 500),
        ),
        replace(usual, page_size=lots.one_of(8, 64), page_limit=lots.one_of(1, 3)),
        replace(usual, open_file_limit=1),
        replace(usual, skip_list_size_limit=lots.one_of(100, 1000)),
    )
    storage = lots.one_of(*others)
    return replace(scenario, cluster=replace(scenario.cluster, storage=storage))


def _of_writers(scenario: Scenario, lots: Lots) -> Scenario:
    steps = (
        _patient_or_impatient(step, lots) if isinstance(step, Write) else step
        for step in scenario.workload
    )
    return replace(scenario, workload=tuple(steps))


def _patient_or_impatient(write: Write, lots: Lots) -> Write:
    return lots.one_of(
        replace(write, delay_ensemble_change=True),
        replace(write, quorum_timeout_ms=lots.one_of(8, 40, 400)),
        replace(write, max_allowed_ensemble_changes=lots.one_of(0, 1, 2)),
    )


def _of_autorecovery(scenario: Scenario, lots: Lots) -> Scenario:
    """The auditor also asks for entries, of some or all ledgers; workers copy few at a time."""
    config = scenario.cluster.autorecovery
    assert isinstance(config, AutoRecoveryConfig)
    config = replace(
        config,
        auditor_replicas_check_interval_s=lots.one_of(0, 1, 3),
        auditor_ledger_verification_percentage=lots.one_of(0, 50, 100),
        rereplication_entry_batch_size=lots.one_of(1, 3, 100),
    )
    return replace(scenario, cluster=replace(scenario.cluster, autorecovery=config))
