"""If bookies are lost for good while entries are written, every copy is eventually restored.

Each scenario's sizes, lost bookies and other faults are drawn from a seed.
"""

import asyncio
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.client.reads import BookieReads
from labkit.system.client.striping import write_set
from labkit.system.model.entry import Entry
from labkit.system.model.errors import LabkitError
from labkit.system.trace.events import Event
from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.nodes.nodes import ClientNode
from labkit.worlds.sim.scenario.faults import Crash, FailingSync, Fault, FullDisk, PowerCut, Restart
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.scenario_values import Value
from labkit.worlds.sim.settings.triggers import At, Moment
from labkit.worlds.sim.workload.steps import Read, Recover, Write
from tests.repeat import repeated
from tests.worlds.sim.runs import run_safely

QUORUMS = ((3, 3, 2), (3, 2, 2), (4, 3, 2), (3, 3, 3), (4, 2, 2), (5, 3, 2))
CALM = At(45_000)
"""By then, the second bookie has been lost, and every other fault has been repaired."""
FOR_ALL_COPIES_S = 100


@dataclass(frozen=True, slots=True, repr=False)
class AwaitAllCopies(Value):
    """Open every ledger with recovery and read every copy, until no copy is missing."""

    client: str = "q"
    when: Moment = CALM
    ledger: int = -1

    def __str__(self) -> str:
        return "await all copies"

    async def run(self, node: ClientNode) -> None:
        for _ in range(FOR_ALL_COPIES_S):
            missing = await self._missing(node)
            if not missing:
                return
            await asyncio.sleep(1)
        raise LabkitError(f"missing: {', '.join(missing[:5])}")

    async def _missing(self, node: ClientNode) -> list[str]:
        missing = []
        for ledger_id in await node.client.list_ledgers():
            try:
                reader = await node.client.open_ledger(ledger_id)
            except LabkitError as error:
                return [str(error)]
            metadata = reader.metadata
            reads = BookieReads(ledger_id, metadata, node.client.context)
            for entry_id in range(metadata.last_entry_id + 1):
                places = write_set(entry_id, metadata.ensemble_size, metadata.write_quorum)
                bookies = [metadata.ensemble_at(entry_id)[place] for place in places]
                replies = reads.ask_all(bookies, entry_id)
                for _ in bookies:
                    at, reply = await replies.get()
                    if not isinstance(reply, Entry):
                        missing.append(f"{ledger_id}:{entry_id} on {bookies[at]}")
        return missing


def drawn(seed: int, fault_count: int) -> Scenario:
    """Draw a scenario in which a bookie is lost for good.

    With seven bookies, a second one is often lost after the first has been repaired. There is
    always one bookie more than an ensemble needs, and no other fault keeps a bookie down for good.
    """
    lots = random.Random(f"lost bookies {seed}")
    bookies = lots.choice((5, 6, 7))
    interval_ms, healing = lots.choice((10, 500)), _autorecovery(lots)
    cluster = Cluster(
        bookies, flush_interval_ms=interval_ms, session_timeout_ms=1000, autorecovery=healing
    )
    lost = [Crash(lots.choice(cluster.names), lots.choice(("kept", "lost")), 0, _at(lots, 0))]
    if bookies == 7 and lots.random() < 0.5:
        others = [name for name in cluster.names if name != lost[0].node]
        lost.append(Crash(lots.choice(others), "lost", 0, _at(lots, 30_000)))
    fitting = [sizes for sizes in QUORUMS if sizes[0] <= bookies - len(lost)]
    writes = [_write(lots, number, fitting) for number in range(3)]
    recover = Recover(1, client="x", when=_at(lots, 100))
    workload = (*writes, Read(polls=20, poll_ms=300), recover, AwaitAllCopies())
    scenario = Scenario(cluster, workload, tuple(lost), limit_s=200)  # type: ignore[arg-type]
    stormy = storm(scenario, seed, fault_count, lots.choice((3000.0, 15_000.0)))
    faults = [*lost, *_that_pass(stormy.faults, [crash.node for crash in lost])]
    return replace(stormy, faults=tuple(faults))


def _that_pass(faults: Sequence[Fault], lost: Sequence[str]) -> Iterator[Fault]:
    """Yield the faults with restarts, so that only the lost bookies stay down."""
    for fault in faults:
        if isinstance(fault, PowerCut) or getattr(fault, "node", "") in lost:
            continue
        yield fault
        if isinstance(fault, FullDisk | FailingSync):
            # The bookie may have stopped because of the fault.
            yield Restart(fault.node, At(25_000))


def _autorecovery(lots: random.Random) -> AutoRecoveryConfig:
    return AutoRecoveryConfig(
        auditor_periodic_check_interval_s=3,
        auditor_ledger_verification_percentage=100,
        auditor_periodic_bookie_check_interval_s=lots.choice((0, 5, 86_400)),
        auditor_replicas_check_interval_s=lots.choice((0, 4)),
        lost_bookie_recovery_delay_s=lots.choice((0, 1, 2)),
        rereplication_entry_batch_size=lots.choice((1, 5, 100)),
        open_ledger_rereplication_grace_period_ms=lots.choice((200, 3000)),
        rw_rereplicate_backoff_ms=500,
        lock_release_of_failed_ledger_grace_period_ms=4000,
    )


def _write(lots: random.Random, number: int, sizes: list[tuple[int, int, int]]) -> Write:
    return Write(
        number,
        lots.randrange(1, 60),
        *lots.choice(sizes),
        every_ms=lots.choice((1, 20, 200)),
        close=lots.random() < 0.6,
        client=f"w{number}",
    )


def _at(lots: random.Random, begin_ms: float) -> At:
    return At(begin_ms + round(lots.uniform(0, 6000)))


def outcome(events: tuple[Event, ...]) -> str:
    """Return the result of waiting for all copies."""
    [detail] = [e.detail for e in events if e.kind == "step.ended" and e.node == "q"]
    return detail


@pytest.mark.slow
@pytest.mark.parametrize("fault_count", [0, 2, 4, 6])
@pytest.mark.parametrize("seed", repeated(range(4)))
def test_every_copy_is_there_again_after_bookies_are_lost(seed: int, fault_count: int) -> None:
    scenario = drawn(1000 * fault_count + seed, fault_count)
    trace = run_safely(scenario)
    assert outcome(trace.events) == "done", scenario
