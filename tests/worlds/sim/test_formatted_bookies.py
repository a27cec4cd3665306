"""A formatted bookie has forgotten every fence, but no writer is misled by this."""

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.check import broken, check_all
from labkit.worlds.sim.machine.metadata import SimMetadataStore
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash, Fault, LaggingMetadata, Reformatted
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Recover, Write
from tests.worlds.sim.runs import of

AS_BOOKKEEPER = "acks of emptied bookies counted"
BROKEN = ["AcknowledgedIsDurable", "OneWriter", "NoDivergenceBetweenClientAndMetaData"]
RECOVERED = Recover(client="x", when=At(20))


def run_with(write: Write, *faults: Fault, variant: str = "") -> Trace:
    formatted = (Reformatted(name, 5, At(50)) for name in ("b0", "b1", "b2"))
    steps = (write, RECOVERED)
    return run(Scenario(Cluster(3), steps, (*formatted, *faults), variant=variant, limit_s=7.0))


def names_of(trace: Trace) -> list[str]:
    return [verdict.name for verdict in broken(check_all(trace))]


def test_a_formatted_bookie_comes_back_under_its_id_with_nothing() -> None:
    trace = run_with(Write(entries=3, pause_ms=100))
    assert [event.node for event in of(trace, "bookie.formatted")] == ["b0", "b1", "b2"]
    times_us = [event.time_us for event in of(trace, "bookie.registered", node="b0")]
    assert times_us[0] < of(trace, "bookie.formatted", node="b0")[0].time_us < times_us[1]
    denied = of(trace, "read.failed", node="epilogue", peer="b0")
    assert {event.error for event in denied} == {"BKNoSuchLedgerExistsException"}
    assert names_of(trace) == []


@pytest.mark.parametrize("entries", [1, 2])
@pytest.mark.parametrize("force_every", [0, 1])
def test_an_old_writer_confirms_nothing_on_them(entries: int, force_every: int) -> None:
    write = Write(entries=entries, pause_ms=300, force_every=force_every)
    trace = run_with(write)
    [ended] = [event.error for event in of(trace, "step.ended", node="w")]
    assert ended == "BKLedgerFencedException"
    assert len(of(trace, "memtable.put", entry=entries - 1)) == 3
    assert names_of(trace) == []


def test_a_zookeeper_server_that_is_behind_does_not_mislead_the_writer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write = Write(entries=2, pause_ms=300)
    behind = LaggingMetadata("w", 1000, when=At(10))
    assert names_of(run_with(write, behind)) == []

    async def no_sync(_: SimMetadataStore) -> None:
        """Do nothing, so that the client trusts a server that may be behind."""

    monkeypatch.setattr(SimMetadataStore, "sync", no_sync)
    assert "OneWriter" in names_of(run_with(write, behind))


@pytest.mark.parametrize("variant", ["", AS_BOOKKEEPER])
def test_decommissioned_by_the_book_one_after_the_other_they_keep_every_promise(
    variant: str,
) -> None:
    """Each bookie is formatted only after its copies have been restored, so nothing is lost."""
    config = AutoRecoveryConfig(
        lost_bookie_recovery_delay_s=0,
        open_ledger_rereplication_grace_period_ms=200,
        rw_rereplicate_backoff_ms=200,
    )
    cluster = Cluster(3, session_timeout_ms=500, autorecovery=config)
    write = Write(0, 2, 2, 2, 2, pause_ms=30_000)
    faults = (
        Crash("b0", when=At(1000)),
        Reformatted("b0", 100, At(12_000)),
        Crash("b1", when=At(14_000)),
        Reformatted("b1", 100, At(27_000)),
    )
    trace = run(Scenario(cluster, (write,), faults, variant=variant, limit_s=35.0))
    assert [event.peer for event in of(trace, "bookie.lost")] == ["b0", "b1"]
    assert of(trace, "read.done", node="epilogue", entry=0)
    assert names_of(trace) == (BROKEN if variant else [])
