"""Entries can be written even if the metadata store is down for longer than a session."""

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.check import broken, check_all
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash, Partition
from labkit.worlds.sim.scenario.metadata_faults import HangingMetadata
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Read, Recover, Write
from tests.repeat import repeated

AWAY_MS, FOR_MS = 1000.0, 5000.0
HEALING = Cluster(5, session_timeout_ms=1000, autorecovery=AutoRecoveryConfig())
AWAY = Scenario(
    HEALING,
    (Write(entries=200, every_ms=100), Write(ledger=1, entries=100, every_ms=100, client="v")),
    (Partition(("zk",), for_ms=FOR_MS, when=At(AWAY_MS)),),
)


def of_kind(trace: Trace, kind: str) -> list[str]:
    return [event.node for event in trace.events if event.kind == kind]


def test_writers_go_on_bookies_register_again_and_no_bookie_is_taken_for_lost() -> None:
    trace = run(AWAY)
    assert broken(check_all(trace)) == []
    confirmed = [e for e in trace.events if e.kind == "lac.advanced" and e.node == "w"]
    during = [e for e in confirmed if AWAY_MS < e.time_us / 1000 < AWAY_MS + FOR_MS]
    assert len(during) > 45
    assert len(confirmed) == 200
    registered = of_kind(trace, "bookie.registered")
    assert all(registered.count(bookie) >= 2 for bookie in HEALING.names)
    assert of_kind(trace, "bookie.lost") == of_kind(trace, "ledger.underreplicated") == []
    assert of_kind(trace, "ensemble.set") == ["w", "v"]


def test_bookie_that_did_not_come_back_is_lost_after_all() -> None:
    trace = run(AWAY.with_fault(Crash("b1", when=At(AWAY_MS + 500))))
    assert broken(check_all(trace)) == []
    assert {e.peer for e in trace.events if e.kind == "bookie.lost"} == {"b1"}
    assert "replication.done" in {event.kind for event in trace.events}


def test_a_session_that_ends_with_the_last_fault_does_not_end_the_epilogue() -> None:
    repairs = AutoRecoveryConfig(
        auditor_periodic_check_interval_s=0,
        open_ledger_rereplication_grace_period_ms=200,
        rw_rereplicate_backoff_ms=200,
        lock_release_of_failed_ledger_grace_period_ms=2000,
    )
    trace = run(
        Scenario(
            Cluster(2, session_timeout_ms=500, autorecovery=repairs),
            (
                Write(entries=1, ensemble=1, write_quorum=1, ack_quorum=1),
                Read(when=At(1000)),
                Recover(when=On("add.acked")),
                Recover(),
            ),
            (Crash("b0"), HangingMetadata(when=At(800))),
            decisions={"thaw epilogue 2": 100.0},
        )
    )
    ended = [event.time_us for event in trace.events if event.kind == "session.lost"]
    [looked_up] = [event.time_us for event in trace.events if event.kind == "epilogue.started"]
    assert max(ended) > looked_up
    assert broken(check_all(trace)) == []


@pytest.mark.sampled
@pytest.mark.parametrize("seed", repeated(range(6), once=3))
def test_no_outage_breaks_a_promise(seed: int) -> None:
    """The seed determines which other messages are late."""
    scenario = Scenario(
        HEALING,
        AWAY.workload,
        (
            Partition(("zk",), for_ms=900.0 * (seed + 1), when=At(700)),
            Partition(("zk",), ("b0", "b2"), for_ms=2500, when=At(9000)),
        ),
        seed=seed,
    )
    trace = run(scenario)
    assert broken(check_all(trace)) == []


@pytest.mark.sampled
@pytest.mark.promise(
    "After the metadata store hung, bookies have a grace period to register again; each "
    "registration restarts the period and the lost-bookie delay"
)
@pytest.mark.parametrize("delay_s", [0, 3])
@pytest.mark.parametrize("seed", range(8))
def test_a_store_that_hangs_and_serves_its_clients_in_any_order_loses_no_bookie(
    seed: int, delay_s: int
) -> None:
    healing = AutoRecoveryConfig(lost_bookie_recovery_delay_s=delay_s)
    scenario = Scenario(
        Cluster(4, session_timeout_ms=1000, autorecovery=healing),
        (Write(entries=40, every_ms=100),),
        (HangingMetadata(900.0 + 400 * seed, when=At(700)),),
        seed=seed,
    )
    trace = run(scenario)
    assert broken(check_all(trace)) == [], scenario
    assert of_kind(trace, "metadata.resumed") == ["zk"]
    assert of_kind(trace, "bookie.lost") == of_kind(trace, "ledger.underreplicated") == []
