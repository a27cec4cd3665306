"""Test that a deleted ledger causes no broken promise and no unknown verdict."""

import pytest

from labkit.system.autorecovery.config import AutoRecoveryConfig
from labkit.system.check import Outcome, broken, check_all
from labkit.system.check.promise import Check
from labkit.system.check.promises.durability import AcknowledgedIsDurable
from labkit.system.check.promises.fencing import (
    FencedBookieRefusesTheWriter,
    FenceIsDurableBeforeItsAnswer,
    OneWriter,
)
from labkit.system.check.promises.repair import RepairIsComplete
from labkit.system.check.promises.specification import (
    LedgerIsClosed,
    NoDivergenceBetweenClientAndMetaData,
)
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At
from labkit.worlds.sim.workload.steps import Delete, Write
from tests.system.check.story import B0, B1, B2, R, Story, W

AT_THE_END = (AcknowledgedIsDurable, LedgerIsClosed)
OTHER = 8


def two_ledgers(*, close: bool) -> Story:
    """Write two ledgers; `close` sets whether the second one is closed."""
    story = Story().add(0).close(0)
    story.tell(W, "ledger.created", ledger=OTHER, ensemble_size=3, write_quorum=3, ack_quorum=2)
    story.tell(W, "ensemble.set", 0, ledger=OTHER, ensemble=("b0", "b1", "b2"))
    story.tell(W, "lac.advanced", 0, ledger=OTHER)
    return story.tell(W, "ledger.closed", 0, ledger=OTHER) if close else story


@pytest.mark.parametrize("check", AT_THE_END)
def test_a_deleted_ledger_need_not_be_readable(check: type[Check]) -> None:
    close = check is not LedgerIsClosed
    kept = two_ledgers(close=close)
    deleted = two_ledgers(close=close).tell(W, "ledger.deleted", ledger=OTHER)
    assert kept.epilogue(0).verdict(check).outcome is Outcome.UNKNOWN
    assert deleted.epilogue(0).verdict(check).outcome is Outcome.VALID


def test_its_repair_ends_although_copies_are_missing() -> None:
    def story(kind: str) -> Story:
        lost = Story().add(0).close(0).tell(B2, "node.killed").tell(B0, "replication.started")
        return lost.tell(B0, kind).tell(B0, "replication.done")

    assert story("bookie.lost").verdict(RepairIsComplete).outcome is Outcome.INVALID
    assert story("ledger.deleted").verdict(RepairIsComplete).outcome is Outcome.UNKNOWN


def test_an_entry_cut_off_before_the_deletion_counts_as_lost() -> None:
    story = Story().add(0, 1).close(0).tell(W, "ledger.deleted")
    assert story.verdict(AcknowledgedIsDurable).outcome is Outcome.INVALID


@pytest.mark.parametrize("check", [AcknowledgedIsDurable, NoDivergenceBetweenClientAndMetaData])
def test_entries_confirmed_after_the_deletion_are_not_promised(check: type[Check]) -> None:
    assert recovered_and_gone_on(is_deleted=False).verdict(check).outcome is Outcome.INVALID
    assert recovered_and_gone_on(is_deleted=True).verdict(check).outcome is not Outcome.INVALID


def test_its_writer_confirms_nothing_even_after_its_bookies_have_forgotten_the_fence() -> None:
    story = recovered_and_gone_on(is_deleted=True)
    assert story.verdict(OneWriter).outcome is Outcome.INVALID
    for event in ("node.killed", "bookie.formatted"):
        forgotten = Story().add(0).tell(R, "recovery.started").close(0, R)
        forgotten.tell(W, "ledger.deleted").tell(B0, event).add(1)
        assert forgotten.verdict(OneWriter).outcome is Outcome.INVALID


def recovered_and_gone_on(*, is_deleted: bool) -> Story:
    """Let the writer confirm an entry after the end of the ledger that recovery has set."""
    story = Story().add(0).tell(R, "recovery.started").close(0, R)
    if is_deleted:
        story.tell(W, "ledger.deleted")
    return story.add(1)


def test_a_bookie_that_collected_it_answers_recovery_without_a_fence() -> None:
    def story(*kinds: str) -> Story:
        story = Story().add(0).tell(R, "recovery.started").tell(R, "fence.sent", peer=B0)
        for kind in kinds:
            story.tell(B0, kind)
        return story.tell(R, "fence.answered", peer=B0).sync(-1, B0)

    check = FenceIsDurableBeforeItsAnswer
    assert story().verdict(check).outcome is Outcome.INVALID
    assert story("ledger.collected").verdict(check).outcome is Outcome.UNKNOWN


def test_a_bookie_that_collected_its_fence_remembers_it_until_it_ends() -> None:
    def story(*kinds: str) -> Story:
        story = Story().add(0).fence(B0, B1, B2).end(0)
        for kind in kinds:
            story.tell(B0, kind)
        return story.push(1).send(1, B0).put(1, B0)

    for kinds in ((), ("ledger.collected",), ("node.killed",)):
        verdict = story(*kinds).verdict(FencedBookieRefusesTheWriter)
        assert verdict.outcome is Outcome.INVALID, kinds
    forgotten = story("ledger.collected", "node.killed").verdict(FencedBookieRefusesTheWriter)
    assert forgotten.outcome is not Outcome.INVALID


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
    for check in AT_THE_END:
        assert verdicts[check.__name__].outcome is Outcome.VALID, verdicts[check.__name__]
