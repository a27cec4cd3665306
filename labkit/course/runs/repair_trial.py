"""Code shared by repair trials.

In these trials, a bookie is lost, and workers perform the steps of the repair in the order that the
learner chose.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from unittest.mock import patch

from labkit.course.runs.cluster_trial import run_with
from labkit.course.runs.repair_runs import with_autorecovery
from labkit.system.autorecovery import daemon
from labkit.system.autorecovery.daemon import Rules
from labkit.system.autorecovery.fragments import UnderreplicatedFragment
from labkit.system.autorecovery.ledger_view import LedgerView, view_ledger
from labkit.system.autorecovery.replicator import LedgerFragmentReplicator
from labkit.system.autorecovery.worker import ReplicationWorker
from labkit.system.model.errors import BKException
from labkit.worlds.sim.scenario.faults import Fault
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Step, Write

Runner = Callable[[Scenario], Trace]

DELAY_S = 10
STORE, NAME, TEST, REMOVE = STEPS = (
    "store the copies on the new bookies",
    "name the new bookies in the metadata",
    "test the ledger's copies again",
    "remove the mark and the lock",
)


def scenario_with_loss(
    *faults: Fault,
    bookies: int = 5,
    last_s: int = 30,
    workload: tuple[Step, ...] = (Write(),),
    **config: int,
) -> Scenario:
    """Return a scenario with a ledger on b0, b1 and b2, which loses copies."""
    settings = {"lost_bookie_recovery_delay_s": DELAY_S, **config}
    return with_autorecovery(bookies, workload, faults, last_s, limit_s=120.0, **settings)


class StepwiseReplicator(LedgerFragmentReplicator):
    """A replicator that first stores the copies of all fragments of a ledger, and then publishes
    all of these copies.
    """

    async def begin(
        self, ledger: LedgerView, underreplicated: list[UnderreplicatedFragment]
    ) -> None:
        self._ledger, self._underreplicated = ledger, underreplicated
        self._chosen: dict[int, dict[int, str]] = {}
        self.why = "copies are missing"

    async def step(self, name: str) -> None:
        """Perform the step for every fragment that has not failed yet."""
        for one in list(self._underreplicated):
            first = one.fragment.first
            if first not in self._chosen:
                self._chosen[first] = await self.choose_targets(one)
            targets = self._chosen[first]
            if not targets:
                self.why = "there is no bookie to copy to"
                continue
            try:
                if name == STORE:
                    await self.copy(self._ledger, one, targets)
                else:
                    await self.publish(self._ledger.ledger_id, one, targets)
            except BKException as error:
                self._underreplicated.remove(one)
                self.why = str(error)


class ReorderedWorker(ReplicationWorker):
    order: Sequence[str] = STEPS
    replicator: StepwiseReplicator

    async def rereplicate(self, ledger_id: int) -> None:
        ledger = await view_ledger(self.client, ledger_id)
        closed = [one for one in await self.checker.check(ledger) if one.fragment.closed]
        await self.replicator.begin(ledger, closed)
        for step in self.order:
            if step == REMOVE:
                await self.finish(ledger_id)
            elif step != TEST:
                await self.replicator.step(step)
            elif await self.checker.check(await view_ledger(self.client, ledger_id)):
                self.spawn(self.release_later(ledger_id, self.replicator.why))
                return


@contextmanager
def reordered_worker(steps: Sequence[str]) -> Iterator[Runner]:
    """Yield a function that runs a scenario in which the worker on every bookie performs the steps
    in this order.
    """
    worker = type("LearnersWorker", (ReorderedWorker,), {"order": tuple(steps)})
    with patch.object(daemon, "ReplicationWorker", worker):
        yield partial(run_with, rules=Rules(replicator=StepwiseReplicator))
