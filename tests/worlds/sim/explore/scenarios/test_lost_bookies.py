"""Random scenarios last longer than autorecovery's delays, so that autorecovery has work to do."""

from functools import partial
from typing import Any

import pytest

from labkit.system.autorecovery.underreplication import LedgerUnderreplicationManager
from labkit.system.autorecovery.worker import ReplicationWorker
from labkit.system.metadata.store import ANY_VERSION
from labkit.worlds.sim.explore.scenarios.random_scenarios import random_scenario
from labkit.worlds.sim.explore.search import search
from labkit.worlds.sim.explore.situations.covered_situations import SITUATIONS
from labkit.worlds.sim.explore.situations.situations_reached import SituationFinder
from tests.worlds.sim.runs import Mistake, planted, run_safely

RECOVERED = 30
"""A seed for which a worker recovers an open ledger."""
MARKED_AGAIN = 28
"""A seed for which a ledger is marked again during its repair."""


MISTAKES: list[Any] = []
mistake = partial(planted, MISTAKES, "RepairIsComplete")


@mistake(RECOVERED, ReplicationWorker, "_needs_recovery")
async def never_recover_an_open_ledger(*_: object) -> bool:
    return False


@mistake(MARKED_AGAIN, LedgerUnderreplicationManager, "unmark_and_release")
async def remove_a_mark_whatever_its_version(
    self: LedgerUnderreplicationManager, ledger_id: int
) -> bool:
    await self.store.delete(self.paths.mark(ledger_id), ANY_VERSION)
    await self.release(ledger_id)
    return True


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_of_a_worker_breaks_a_promise(
    mistake: Mistake, monkeypatch: pytest.MonkeyPatch
) -> None:
    checks = mistake.plant(monkeypatch)
    assert search([mistake.where], checks=checks, jobs=1).first is not None


@pytest.mark.slow
@pytest.mark.parametrize(
    ("seed", "situation"),
    [
        (RECOVERED, "a worker recovers an open ledger"),
        (MARKED_AGAIN, "a ledger is marked again during its repair"),
    ],
)
def test_nothing_breaks_at_these_seeds_with_the_real_worker(seed: int, situation: str) -> None:
    assert situation in SituationFinder(SITUATIONS).reached(run_safely(random_scenario(seed)))
