"""Random scenarios last longer than autorecovery's delays, so that autorecovery has work to do."""

import pytest

from labkit.system.autorecovery.underreplication import LedgerUnderreplicationManager
from labkit.system.autorecovery.worker import ReplicationWorker
from labkit.system.check import CHECKS
from labkit.system.check.promises.repair import RepairIsComplete
from labkit.system.metadata.store import ANY_VERSION
from labkit.worlds.sim.explore.scenarios.random_scenarios import random_scenario
from labkit.worlds.sim.explore.search import search
from labkit.worlds.sim.explore.situations.covered_situations import SITUATIONS
from labkit.worlds.sim.explore.situations.situations_reached import Meetings
from labkit.worlds.sim.run import run

RECOVERED = 30
"""A seed for which a worker recovers an open ledger."""
MARKED_AGAIN = 28
"""A seed for which a ledger is marked again during its repair."""


async def never(*_: object) -> bool:
    return False


async def whatever_its_version(self: LedgerUnderreplicationManager, ledger_id: int) -> bool:
    await self.store.delete(self.paths.mark(ledger_id), ANY_VERSION)
    await self.release(ledger_id)
    return True


def reached(seed: int) -> set[str]:
    return set(Meetings(SITUATIONS).reached(run(random_scenario(seed))))


def test_a_worker_that_never_recovers_an_open_ledger_breaks_a_promise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ReplicationWorker, "_needs_recovery", never)
    assert search([RECOVERED], checks=[RepairIsComplete], jobs=1).first is not None


def test_a_worker_that_removes_a_mark_whatever_its_version_breaks_a_promise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(LedgerUnderreplicationManager, "unmark_and_release", whatever_its_version)
    assert search([MARKED_AGAIN], checks=[RepairIsComplete], jobs=1).first is not None


@pytest.mark.slow
def test_nothing_breaks_at_these_seeds_with_the_real_worker() -> None:
    assert search([RECOVERED, MARKED_AGAIN], checks=CHECKS, jobs=1).found == ()
    assert "a worker recovers an open ledger" in reached(RECOVERED)
    assert "a ledger is marked again during its repair" in reached(MARKED_AGAIN)
