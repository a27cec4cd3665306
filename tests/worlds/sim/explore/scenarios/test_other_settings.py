"""Bookies, writers and auditors in random scenarios also have unusual settings, which reveal other
bugs.
"""

from dataclasses import replace

import pytest

from labkit.system.check import broken, check_all
from labkit.system.check.promises.durability import EveryCopyIsDurable
from labkit.system.storage.disk import File
from labkit.system.storage.entry_log import EntryLogger, OpenLog
from labkit.worlds.sim.explore.scenarios.random_scenarios import random_scenario
from labkit.worlds.sim.explore.search import search
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash, Fault
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.bookie_script import CONFIG
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Write
from tests.worlds.sim.test_run import ends, of

LOG_PER_LEDGER = 3661
"""A seed for which every ledger has its own entry log and a bookie writes to several of them."""
DRAWN = [random_scenario(seed) for seed in range(300)]
LOST = Crash("b0", "kept", when=On("add.acked", 2))
LOST_TOO = Crash("b1", "kept", when=On("add.acked", 8))


def test_settings_of_each_part_are_drawn() -> None:
    storages = {each.cluster.storage for each in DRAWN} - {CONFIG}
    for name in ("journal_flush_when_queue_empty", "entry_log_per_ledger_enabled", "page_limit"):
        assert {getattr(each, name) for each in storages} > {getattr(CONFIG, name)}
    writes = [step for each in DRAWN for step in each.workload if isinstance(step, Write)]
    for name in ("delay_ensemble_change", "quorum_timeout_ms", "max_allowed_ensemble_changes"):
        assert {getattr(each, name) for each in writes} > {getattr(Write(), name)}
    auditors = [each.cluster.autorecovery for each in DRAWN if each.cluster.autorecovery]
    assert {each.auditor_replicas_check_interval_s for each in auditors} > {0}


class SyncedIfNewest(OpenLog):
    """A log that ignores syncs once its bookie has started another log."""

    is_newest = True

    def sync(self) -> None:
        if self.is_newest:
            super().sync()


def test_each_of_several_open_logs_must_be_synced(monkeypatch: pytest.MonkeyPatch) -> None:
    newest: dict[EntryLogger, SyncedIfNewest] = {}

    def open_log(logger: EntryLogger, file: File, log_id: int) -> OpenLog:
        if logger in newest:
            newest[logger].is_newest = False
        newest[logger] = SyncedIfNewest(log_id, file)
        return newest[logger]

    assert random_scenario(LOG_PER_LEDGER).cluster.storage.entry_log_per_ledger_enabled
    assert search([LOG_PER_LEDGER], jobs=1).found == ()
    monkeypatch.setattr(EntryLogger, "open_log", open_log)
    assert search([LOG_PER_LEDGER], checks=[EveryCopyIsDurable], jobs=1).first is not None


def written(write: Write, *faults: Fault) -> Trace:
    trace = run(Scenario(Cluster(5), (replace(write, entries=10, every_ms=5),), faults))
    assert broken(check_all(trace)) == []
    return trace


def test_a_patient_writer_goes_on_without_a_bookie_that_failed() -> None:
    assert len(of(written(Write(), LOST), "ensemble.set", node="w")) == 2
    trace = written(Write(delay_ensemble_change=True), LOST)
    assert len(of(trace, "ensemble.set", node="w")) == 1
    assert ends(trace) == ["done"]


def test_a_patient_writer_replaces_both_bookies_once_the_other_is_not_enough() -> None:
    trace = written(Write(delay_ensemble_change=True), LOST, LOST_TOO)
    ensembles = [event.ensemble for event in of(trace, "ensemble.set", node="w")]
    assert ensembles == [("b0", "b1", "b2"), ("b3", "b4", "b2")]
    assert ends(trace) == ["done"]


def test_a_writer_ends_when_it_may_replace_no_further_bookie() -> None:
    one = Write(max_allowed_ensemble_changes=1)
    assert ends(written(one, LOST)) == ["done"]
    [end] = ends(written(one, LOST, LOST_TOO))
    assert "bookkeeper_maxNumEnsembleChanges allows no more" in end
