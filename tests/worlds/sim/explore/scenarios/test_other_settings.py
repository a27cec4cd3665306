"""Bookies, writers and auditors in random scenarios also have unusual settings, which reveal other
bugs.
"""

from collections.abc import Callable
from dataclasses import replace

import pytest

from labkit.system.autorecovery.overreplicated import OverreplicatedLedgers
from labkit.system.check.promises.durability import AcknowledgedIsDurable, EveryCopyIsDurable
from labkit.system.storage.disk import File
from labkit.system.storage.entry_log import EntryLogger, OpenLog
from labkit.worlds.sim.explore.scenarios.random_scenarios import random_scenario
from labkit.worlds.sim.explore.search import search
from labkit.worlds.sim.explore.situations.covered_situations import SITUATIONS
from labkit.worlds.sim.explore.situations.situations_reached import SituationFinder
from labkit.worlds.sim.scenario.faults import Crash, Fault, PowerCut
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.bookie_script import CONFIG
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Write
from tests.worlds.sim.runs import ends, of, run_safely

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
    return run_safely(Scenario(Cluster(5), (replace(write, entries=10, every_ms=5),), faults))


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


# Upkeep: dropped copies and two journals


DROPPED = 55
"""A seed for which a bookie drops copies that other bookies have."""
WRONGLY_DROPPED = 23
"""A seed for which an entry is lost if a bookie drops everything it has."""


def test_a_bookie_gives_up_only_what_it_need_not_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    run_safely(random_scenario(WRONGLY_DROPPED))
    name = "a bookie deletes copies that other bookies have taken over"
    assert name in SituationFinder(SITUATIONS).reached(run_safely(random_scenario(DROPPED)))

    async def drop_all(_: object, ledger_ids: list[int], drop: Callable[[int], None]) -> None:
        for ledger_id in ledger_ids:
            drop(ledger_id)

    monkeypatch.setattr(OverreplicatedLedgers, "drop", drop_all)
    assert search([WRONGLY_DROPPED], checks=[AcknowledgedIsDurable], jobs=1).first is not None


def test_some_drawn_bookies_have_two_journals() -> None:
    assert {random_scenario(seed).cluster.journal_directories for seed in range(50)} == {1, 2}


def test_a_bookie_with_two_journals_replays_both() -> None:
    steps = Write(), Write(1, client="v")
    cut = PowerCut(down_ms=5, when=On("lac.advanced", 15))
    trace = run_safely(Scenario(Cluster(3, journal_directories=2), steps, (cut,)))
    first = of(trace, "journal.replayed", node="b0")[:2]
    assert len(first) == 2
    assert all(event.size for event in first)
