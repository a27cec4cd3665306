"""Test that simulated runs keep every promise, even with faults and repairs."""

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.autorecovery.daemon import Rules
from labkit.system.check import Outcome, Verdict, broken, check_all
from labkit.system.trace.log import TraceLog
from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.variants.cluster_variants import MetadataBeforeCopy
from labkit.worlds.sim.workload.steps import Delete, Read, Recover, Write
from tests.repeat import repeated
from tests.system.autorecovery import world as autorecovery
from tests.system.autorecovery.world import World

CALM = Scenario(
    Cluster(bookies=4),
    (
        Write(ledger=0, entries=20, every_ms=1, close=False),
        Write(ledger=1, entries=12, ensemble=4, write_quorum=3, client="w2"),
        Read(ledger=0, polls=3),
        Recover(ledger=0, client="x", when=On("lac.advanced", nth=15)),
    ),
)

FOR_TOPICS_DELETIONS_AND_REPAIRS = {
    "OnlyDeletedLedgersAreCollected",
    "DeletedLedgerTakesNoAdd",
    "RepairIsComplete",
    "BriefAbsenceIsNoLoss",
    "SilenceIsNoLoss",
    "RunningBookiesStayRegistered",
    "LostBookiesLedgersAreMarked",
    "MarkedLedgersAreRepaired",
    "MessageIdsGrow",
    "AcknowledgedMessagesAreKept",
    "MessagesAreStoredOnce",
    "ProducersOrderIsKept",
    "ReceiptsNameTheirMessages",
    "OneOwnerStores",
    "MessagesKeepTheirContent",
    "OwnersConsumersGetAllInOrder",
    "DeliveriesKeepTheOrder",
    "KeysKeepTheirOrder",
    "UnloadedTopicsAreClosed",
    "NoMessageIsSkipped",
    "AcknowledgedIsNotDeliveredAgain",
    "AllNonEmptyLedgersInLedgerList",
    "EntryOrderMaintained",
    "OnlyOneLedgerOpenAtATime",
}


def test_a_calm_run_puts_every_promise_to_the_test_and_keeps_it() -> None:
    verdicts = check_all(run(CALM))
    assert broken(verdicts) == []
    unknown = {verdict.name for verdict in verdicts if verdict.outcome is Outcome.UNKNOWN}
    assert unknown == FOR_TOPICS_DELETIONS_AND_REPAIRS


@pytest.mark.parametrize(("recoverer", "reader"), [("r", "r"), ("w", "w"), ("w", "r"), ("r", "w")])
def test_a_client_with_two_roles_breaks_no_promise(recoverer: str, reader: str) -> None:
    when = On("add.acked", 7)
    steps = Recover(client=recoverer, when=when), Read(client=reader, polls=3, when=when)
    for seed in range(10):
        scenario = Scenario(workload=(Write(), *steps), seed=seed)
        assert broken(check_all(run(scenario))) == [], scenario


def test_a_reader_that_recovers_the_ledger_of_a_slow_bookie_breaks_no_promise() -> None:
    """The reader's recovery reads an entry that is not confirmed while the reader reads."""
    write = Write(entries=1, ensemble=2, write_quorum=2)
    scenario = Scenario(Cluster(2), (write, Recover(), Read())).with_decision("delay b1>w 0", 10.0)
    assert broken(check_all(run(scenario))) == []


def test_a_run_in_which_a_ledger_is_deleted_leaves_nothing_open() -> None:
    scenario = Scenario(
        Cluster(5, session_timeout_ms=1000, autorecovery=AutoRecoveryConfig()),
        (
            Write(ledger=0, entries=20),
            Write(ledger=1, entries=20, client="v"),
            Delete(ledger=0, when=At(2000)),
            Delete(ledger=1, client="v", when=At(3000)),
            Write(ledger=2, entries=5, when=At(4000)),
        ),
        (Crash("b1", when=At(1000)),),
    )
    trace = run(scenario)
    verdicts = {verdict.name: verdict for verdict in check_all(trace)}
    assert broken(verdicts.values()) == []
    assert {event.ledger for event in trace.events if event.kind == "ledger.deleted"} == {0, 1}
    for name in ("AcknowledgedIsDurable", "LedgerIsClosed"):
        assert verdicts[name].outcome is Outcome.VALID, verdicts[name]


@pytest.mark.slow
@pytest.mark.parametrize("first", repeated(range(0, 200, 20), once=2))
def test_bad_weather_breaks_no_promise(first: int) -> None:
    for seed in range(first, first + 20):
        scenario = storm(CALM, seed, fault_count=seed % 6)
        assert broken(check_all(run(scenario))) == [], scenario


def repair(rules: Rules) -> dict[str, Verdict]:
    """Return the verdicts on the repair of two ledgers that shared a lost bookie."""
    log = TraceLog()

    async def body(world: World) -> None:
        await world.add_bookie("b6")
        await world.add_bookie("b7")
        for sizes in ((3, 3, 2), (5, 3, 2)):
            await world.closed_ledger(13, sizes)
        world.rules = rules
        await world.start_autorecovery("a", "b")
        await world.stop_bookie("b2")
        await world.until_replicated()
        log.add(world.rows)

    autorecovery.run(body)
    log.settle()
    return {verdict.name: verdict for verdict in check_all(log)}


def test_a_repair_is_complete() -> None:
    verdicts = repair(Rules())
    assert broken(verdicts.values()) == []
    assert verdicts["RepairIsComplete"].outcome is Outcome.VALID
    assert verdicts["RepairIsComplete"].tested_count > 13


def test_a_bookie_named_before_it_has_its_copies_is_found() -> None:
    verdict = repair(Rules(replicator=MetadataBeforeCopy))["RepairIsComplete"]
    assert verdict.outcome is Outcome.INVALID
    assert "does not have entry 0" in verdict.reason
