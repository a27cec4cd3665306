"""Bookies in random scenarios drop copies that they no longer need, and some have two journals."""

from collections.abc import Callable, Sequence

import pytest

from labkit.system.autorecovery.overreplicated import OverreplicatedLedgers
from labkit.system.check import CHECKS, broken, check_all
from labkit.system.check.promises.durability import AcknowledgedIsDurable
from labkit.worlds.sim.explore.scenarios.random_scenarios import random_scenario
from labkit.worlds.sim.explore.search import search
from labkit.worlds.sim.explore.situations.covered_situations import SITUATIONS
from labkit.worlds.sim.explore.situations.situations_reached import Meetings
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import PowerCut
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.workload.steps import Write

DROPPED = 55
"""A seed for which a bookie drops copies that other bookies have."""
WRONGLY_DROPPED = 23
"""A seed for which an entry is lost if a bookie drops everything it has."""


async def all_of_them(
    _: OverreplicatedLedgers, ledger_ids: Sequence[int], drop: Callable[[int], None]
) -> None:
    for ledger_id in ledger_ids:
        drop(ledger_id)


def test_a_bookie_that_gives_up_all_that_it_has_loses_entries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(OverreplicatedLedgers, "drop", all_of_them)
    assert search([WRONGLY_DROPPED], checks=[AcknowledgedIsDurable], jobs=1).first is not None


def test_a_bookie_that_comes_back_gives_up_only_what_it_need_not_keep() -> None:
    assert search([WRONGLY_DROPPED, DROPPED], checks=CHECKS, jobs=1).found == ()
    name = "a bookie deletes copies that other bookies have taken over"
    assert name in Meetings(SITUATIONS).reached(run(random_scenario(DROPPED)))


def test_some_drawn_bookies_have_two_journals() -> None:
    assert {random_scenario(seed).cluster.journal_directories for seed in range(50)} == {1, 2}


def test_a_bookie_with_two_journals_replays_both() -> None:
    steps = Write(), Write(1, client="v")
    cut = PowerCut(down_ms=5, when=On("lac.advanced", 15))
    trace = run(Scenario(Cluster(3, journal_directories=2), steps, (cut,)))
    first = [e for e in trace.events if e.kind == "journal.replayed" and e.node == "b0"][:2]
    assert len(first) == 2
    assert all(event.size for event in first)
    assert broken(check_all(trace)) == []
