"""Bookies drop copies that are stored elsewhere, but never one that is still needed."""

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.trace.events import Event
from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.scenario.faults import Crash, Fault
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Recover, Write
from tests.worlds.sim.runs import of, run_safely

HEALING = AutoRecoveryConfig(
    auditor_periodic_check_interval_s=3,
    auditor_ledger_verification_percentage=100,
    open_ledger_rereplication_grace_period_ms=200,
    rw_rereplicate_backoff_ms=200,
    lock_release_of_failed_ledger_grace_period_ms=2000,
)
TIDY = Cluster(
    5,
    flush_interval_ms=50,
    gc_wait_time_ms=250,
    gc_overreplicated_ledger_wait_time_ms=500,
    session_timeout_ms=500,
    autorecovery=HEALING,
)
SETTLED_MS = 11_000.0
"""By then, a newly elected auditor trusts the list of bookies."""
AWAY_MS = 2500.0
IN_TURN: tuple[Fault, ...] = tuple(
    Crash(f"b{number}", down_ms=AWAY_MS, when=At(SETTLED_MS + 4500 * number)) for number in range(3)
)
"""Each bookie is down until all of its ledgers have been copied, and returns before the next one
goes down.
"""
END_MS = 26_000.0
WRITES = (
    Write(entries=30),
    Write(1, 20, 3, 2, 2, client="v"),
    Write(2, 10, close=False, client="u"),
)
ROUND = Scenario(TIDY, (*WRITES, Recover(2, when=At(900)), Recover(when=At(END_MS))), IN_TURN)


def copied_back(trace: Trace) -> list[Event]:
    """Return the copies that were made on a bookie after it had dropped the ledger."""
    given_up: dict[tuple[str, int], int] = {}
    for event in of(trace, "ledger.dropped"):
        given_up.setdefault((event.node, event.ledger), event.seq)
    return [
        event
        for event in of(trace, "entry.copied")
        if event.seq > given_up.get((event.peer, event.ledger), event.seq)
    ]


@pytest.mark.slow
@pytest.mark.promise("No copy that counts toward replication is ever removed")
def test_copies_go_come_back_and_stay_as_long_as_they_count() -> None:
    trace = run_safely(ROUND)
    assert {event.node for event in of(trace, "ledger.dropped")} >= {"b0", "b1"}
    assert copied_back(trace)
    read = {(event.ledger, event.entry) for event in of(trace, "read.done")}
    assert read >= {(step.ledger, entry) for step in WRITES for entry in range(step.entries)}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_no_storm_takes_a_copy_that_counts(seed: int) -> None:
    run_safely(storm(ROUND, seed, 6, END_MS))
