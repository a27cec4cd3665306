"""Test that a check reports a promise as unknown if the trace does not show whether it was kept."""

import pytest

from labkit.system.check import EPILOGUE, Outcome
from labkit.system.check.promise import Check
from labkit.system.check.promises.callers import StepsEnd
from labkit.system.check.promises.chain import OnlyOneLedgerOpenAtATime
from labkit.system.check.promises.durability import AcknowledgedIsDurable
from labkit.system.check.promises.fencing import FenceIsDurableBeforeItsAnswer
from labkit.system.check.promises.learning import ReadersLearnWhatIsConfirmed
from labkit.system.check.promises.marks import MarkedLedgersAreRepaired
from labkit.system.check.promises.outage import (
    BriefAbsenceIsNoLoss,
    RunningBookiesStayRegistered,
    SilenceIsNoLoss,
)
from labkit.system.check.promises.reading import NothingBeyondLacIsRead
from labkit.system.check.promises.specification import LedgerIsClosed, TypeOK
from labkit.system.check.promises.writing import (
    AckFollowsSync,
    AckQuorumIsReached,
    WriteSetIsRight,
)
from labkit.system.metadata.store import MetadataUnavailableError
from labkit.system.model.errors import BKNoSuchLedgerExistsOnMetadataServerException
from tests.system.check.caller_cases import Answered
from tests.system.check.cases import TOPIC, chain, written
from tests.system.check.cluster_cases import gone, hung
from tests.system.check.story import B0, B1, B2, B3, LEDGER, R, Story, W


def back_too_late(events_before_the_loss: int) -> Story:
    """Let b2 return and register again just before the auditor, which has already decided, reports
    it as lost.
    """
    story = written().tell(B2, "bookie.registered").tell(B0, "bookie.registered")
    story.tell(B0, "auditor.delay", seconds=600.0).tell(B2, "node.killed").close(1)
    story.tell(B2, "bookie.registered")
    for _ in range(events_before_the_loss):
        story.tell(B0, "journal.synced")
    return story.lost(B2)


def misled(kind: str, source: str = B0, target: str = "reader") -> Story:
    """Deliver a stale or duplicate response to the reader."""
    story = written().tell(source, kind, peer=target).tell("reader", "read.sent", peer=B0)
    return story.tell("reader", "lac.read", -1)


@pytest.mark.parametrize(
    ("check", "story"),
    [
        (BriefAbsenceIsNoLoss, back_too_late(0)),
        (ReadersLearnWhatIsConfirmed, misled("message.swapped")),
        (ReadersLearnWhatIsConfirmed, misled("message.copied")),
        (ReadersLearnWhatIsConfirmed, misled("message.copied", "reader", B0)),
    ],
)
def test_what_may_be_old_news_breaks_no_promise(check: type[Check], story: Story) -> None:
    assert story.verdict(check).outcome is Outcome.UNKNOWN


@pytest.mark.parametrize(("asked", "outcome"), [(B2, Outcome.UNKNOWN), (B3, Outcome.INVALID)])
def test_a_reader_of_an_ensemble_that_was_replaced_need_not_learn_what_is_confirmed(
    asked: str, outcome: Outcome
) -> None:
    story = Story().tell(W, "ensemble.set", 0, ensemble=(B0, B1, B3)).add(0, 1)
    for bookie in (B0, B1, asked):
        story.tell("reader", "read.sent", peer=bookie)
    assert (
        story.tell("reader", "lac.read", -1).verdict(ReadersLearnWhatIsConfirmed).outcome is outcome
    )


@pytest.mark.parametrize(
    ("kind", "wait_ms"),
    [
        ("link.cut", 30_000),
        ("link.healed", 1000),
        ("message.lost", 10_000),
        ("metadata.hung", 1000),
    ],
)
def test_a_bookie_that_cannot_reach_the_metadata_store_need_not_register(
    kind: str, wait_ms: int
) -> None:
    story = gone().tell(B1, kind, peer="zk", seconds=4.0).wait(wait_ms)
    verdict = story.tell(EPILOGUE, "epilogue.started").verdict(RunningBookiesStayRegistered)
    assert verdict.outcome is Outcome.UNKNOWN


def test_an_auditor_that_was_started_after_an_outage_does_not_know_of_it() -> None:
    restarted = hung().tell(B0, "node.killed").tell(B0, "node.started").lost(B2)
    assert restarted.verdict(SilenceIsNoLoss).outcome is Outcome.UNKNOWN
    assert hung().lost(B2).verdict(SilenceIsNoLoss).outcome is Outcome.INVALID


@pytest.mark.parametrize(("asks", "outcome"), [(B1, Outcome.UNKNOWN), (B0, Outcome.INVALID)])
def test_a_bookie_that_waits_for_an_answer_that_was_lost_before_need_not_register_yet(
    asks: str, outcome: Outcome
) -> None:
    story = written().tell(B1, "bookie.registered").tell(asks, "message.lost", peer="zk")
    story.tell(B1, "bookie.unregistered", explanation="nothing heard for 4 s").wait(10_000)
    verdict = story.tell(EPILOGUE, "epilogue.started").verdict(RunningBookiesStayRegistered)
    assert verdict.outcome is outcome


def test_a_bookie_that_every_node_saw_back_in_time_is_not_lost() -> None:
    assert back_too_late(300).verdict(BriefAbsenceIsNoLoss).outcome is Outcome.INVALID


@pytest.mark.parametrize(("back_for_ms", "outcome"), [(10, Outcome.VALID), (300, Outcome.INVALID)])
def test_a_bookie_is_back_only_once_every_node_may_have_heard_of_it(
    back_for_ms: int, outcome: Outcome
) -> None:
    story = written().tell(B2, "bookie.registered").tell(B0, "bookie.registered")
    story.tell(B0, "auditor.delay", seconds=1.0).tell(B2, "node.killed").wait(1500)
    story.tell(B2, "bookie.registered").wait(back_for_ms).tell(B2, "session.lost").lost(B2)
    assert story.verdict(BriefAbsenceIsNoLoss).outcome is outcome


def test_a_session_that_ends_elsewhere_takes_no_time_from_a_bookie_whose_answer_was_lost() -> None:
    story = gone().tell("zk", "message.lost", peer=B1).wait(4000)
    story.tell(B0, "session.lost", explanation="nothing heard for 4 s").wait(4000)
    verdict = story.tell(EPILOGUE, "epilogue.started").verdict(RunningBookiesStayRegistered)
    assert verdict.outcome is Outcome.UNKNOWN


@pytest.mark.parametrize(
    ("source", "target", "outcome"),
    [(B0, R, Outcome.UNKNOWN), (R, B0, Outcome.UNKNOWN), (B0, W, Outcome.INVALID)],
)
def test_a_second_answer_to_an_old_question_does_not_answer_a_fence(
    source: str, target: str, outcome: Outcome
) -> None:
    story = written().tell(source, "message.copied", peer=target)
    story.tell(R, "recovery.started").tell(R, "fence.sent", peer=B0)
    story.tell(R, "fence.answered", peer=B0).tell(B0, "journal.synced", 0)
    assert story.verdict(FenceIsDurableBeforeItsAnswer).outcome is outcome


def recovered_twice_at_once() -> Story:
    """Start a second recovery, which looks for the end of the ledger while the first one is still
    reading.
    """
    story = written().fence(B0, B1, node=R)
    return story.tell(R, "recovery.started", segments=((0, (B0, B1, B2)),))


def test_reads_of_a_closed_ledger_need_no_fence_though_a_second_recovery_is_under_way() -> None:
    check = FenceIsDurableBeforeItsAnswer
    still_open = recovered_twice_at_once().read(0, B2, node=R).tell(B2, "bookie.registered")
    assert still_open.verdict(check).outcome is Outcome.INVALID
    closed = recovered_twice_at_once().end(1, R).read(0, B2, node=R)
    assert closed.tell(B2, "bookie.registered").verdict(check).outcome is Outcome.VALID


def test_an_end_whose_answer_was_lost_may_be_stored_and_one_that_was_tried_again_is_not() -> None:
    def unanswered() -> Story:
        story = written().fence(B0, B1, node=EPILOGUE)
        return story.tell(EPILOGUE, "recovery.failed", error=MetadataUnavailableError.__name__)

    assert unanswered().verdict(LedgerIsClosed).outcome is Outcome.UNKNOWN
    again = unanswered().fence(B0, B1, node=EPILOGUE)
    assert again.verdict(LedgerIsClosed).outcome is Outcome.INVALID


def test_a_deletion_whose_answer_was_lost_may_come_while_the_ledger_is_recovered() -> None:
    def not_there(*, deleting: bool) -> Story:
        story = written()
        if deleting:
            story.tell(W, "ledger.deleting")
        story.fence(B0, B1, node=EPILOGUE)
        error = BKNoSuchLedgerExistsOnMetadataServerException.__name__
        story.tell(EPILOGUE, "recovery.failed", error=error)
        return story.tell(EPILOGUE, "ledger.unreadable")

    assert not_there(deleting=True).verdict(LedgerIsClosed).outcome is Outcome.UNKNOWN
    assert not_there(deleting=False).verdict(LedgerIsClosed).outcome is Outcome.INVALID
    there_again = not_there(deleting=True).fence(B0, B1, node=EPILOGUE)
    assert there_again.verdict(LedgerIsClosed).outcome is Outcome.INVALID


@pytest.mark.parametrize(("recoverer", "outcome"), [(R, Outcome.UNKNOWN), (W, Outcome.INVALID)])
def test_a_ledger_that_another_node_has_fenced_may_be_closed_though_no_node_says_so(
    recoverer: str, outcome: Outcome
) -> None:
    def rolled_after(story: Story) -> Outcome:
        rolled = story.tell(W, "ledger.rolled", ledger=8, topic=TOPIC, detail="entries")
        return rolled.verdict(OnlyOneLedgerOpenAtATime).outcome

    assert rolled_after(chain(rolled=(7,)).fence(B0, B1, node=recoverer)) is outcome
    only_begun = chain(rolled=(7,)).tell(recoverer, "recovery.started")
    assert rolled_after(only_begun) is Outcome.INVALID
    fenced_later = chain(close=False).fence(B0, B1, node=recoverer)
    assert fenced_later.verdict(OnlyOneLedgerOpenAtATime).outcome is Outcome.INVALID


@pytest.mark.parametrize(
    ("rotted", "outcome"), [((B0, B2), Outcome.INVALID), ((B0, B1), Outcome.UNKNOWN)]
)
def test_a_step_may_last_where_the_disks_with_all_copies_of_an_entry_failed(
    rotted: tuple[str, ...], outcome: Outcome
) -> None:
    story = Answered((3, 2, 2))
    for bookie in rotted:
        story.tell(bookie, "disk.rotted")
    for bookie in (B0, B1):
        story.tell("reader", "read.failed", 0, peer=bookie)
    assert story.outlasts(has_ended=False).verdict(StepsEnd).outcome is outcome


@pytest.mark.parametrize("check", [AckQuorumIsReached, WriteSetIsRight])
def test_a_node_that_writes_and_recovers_confirms_with_either_ensemble(check: type[Check]) -> None:
    """A broker lost its topic and opens it again while its former writer still exists."""

    def confirmed(changed_by: str) -> Outcome:
        story = Story((3, 3, 3)).store(0)
        story.tell(changed_by, "recovery.started", segments=((0, (B0, B1, B2)),))
        story.tell(changed_by, "ensemble.deferred", 0, ensemble=(B0, B3, B2))
        return story.confirm(0, changed_by).verdict(check).outcome

    assert confirmed(W) is Outcome.UNKNOWN
    assert confirmed(R) is Outcome.INVALID


@pytest.mark.parametrize(("bookie", "outcome"), [(B2, Outcome.UNKNOWN), (B3, Outcome.INVALID)])
def test_a_node_that_recovers_twice_at_once_sends_to_either_ensemble(
    bookie: str, outcome: Outcome
) -> None:
    """A broker lost its session during a recovery and has opened the topic again."""
    story = Story().fence(B0, B1).fence(B0, B1)
    story.tell(R, "ensemble.set", 0, ensemble=(B0, B1, "b9")).end(0)
    story.push(0, R).send(0, B0, B1, "b9", node=R).confirm(0, R).send(0, bookie, node=R)
    assert story.verdict(WriteSetIsRight).outcome is outcome


def test_a_node_that_recovers_again_sends_to_the_ensemble_that_is_left() -> None:
    story = Story().fence(B0, B1).tell(R, "recovery.failed").fence(B0, B1)
    story.tell(R, "ensemble.set", 0, ensemble=(B0, B1, "b9")).push(0, R)
    story.send(0, B0, B1, "b9", node=R).confirm(0, R).send(0, B2, node=R)
    assert story.verdict(WriteSetIsRight).outcome is Outcome.INVALID


@pytest.mark.parametrize(
    ("bookie", "reason"),
    [("b0", "b0 reported nothing after event 3."), ("B-0", "B-0 reported nothing after event 3.")],
)
def test_a_doubt_leaves_node_names_as_they_are(bookie: str, reason: str) -> None:
    story = Story().push(0).ack(0, bookie)
    verdict = story.verdict(AckFollowsSync)
    assert (verdict.outcome, verdict.reason) == (Outcome.UNKNOWN, reason)


@pytest.mark.parametrize(
    ("killed", "outcome"), [("client", Outcome.INVALID), (B2, Outcome.UNKNOWN)]
)
def test_only_a_bookie_that_stays_down_may_leave_a_ledger_marked(
    killed: str, outcome: Outcome
) -> None:
    story = Answered()
    story.add(0).tell(B2, "bookie.registered").tell(killed, "node.killed")
    assert story.finds_marks(LEDGER).verdict(MarkedLedgersAreRepaired).outcome is outcome


def recovered_and_read(reader: str) -> Story:
    """Let the reader read LAC 0 while R recovers the ledger; then R reads an entry that is not
    confirmed.
    """
    story = written().store(2).fence(B0, B1, lac=0)
    return story.tell(reader, "lac.read", 0).read(2, B0, node=R)


@pytest.mark.parametrize(
    ("reader", "gets", "outcome"),
    [
        (R, R, Outcome.UNKNOWN),
        (R, "stranger", Outcome.INVALID),
        ("stranger", "stranger", Outcome.INVALID),
        ("stranger", R, Outcome.VALID),
    ],
)
def test_a_node_that_recovers_and_reads_may_get_for_its_recovery_what_is_not_confirmed(
    reader: str, gets: str, outcome: Outcome
) -> None:
    story = recovered_and_read(reader).read(2, B0, node=gets).read(1, B0, node="another")
    assert story.verdict(NothingBeyondLacIsRead).outcome is outcome


@pytest.mark.parametrize(("reader", "outcome"), [(R, Outcome.UNKNOWN), (B3, Outcome.INVALID)])
def test_a_node_that_recovers_and_reads_may_read_without_a_fence(
    reader: str, outcome: Outcome
) -> None:
    story = written().tell(reader, "lac.read", 1).fence(B0, B1, lac=0).read(1, B2, node=R)
    verdict = story.tell(B2, "bookie.registered").verdict(FenceIsDurableBeforeItsAnswer)
    assert verdict.outcome is outcome


def written_and_recovered(recoverer: str) -> Story:
    """Let a node recover the ledger while the writer adds to it, and push the recovered entries
    again.
    """
    story = written().fence(B0, B1, node=recoverer, lac=-1)
    return story.push(2).push(0, recoverer).push(3).push(1, recoverer)


@pytest.mark.parametrize("recoverer", [W, R])
def test_what_a_writer_pushes_while_its_node_recovers_the_ledger_may_be_the_last_entry(
    recoverer: str,
) -> None:
    story = written_and_recovered(recoverer)
    assert story.close(3, recoverer).verdict(TypeOK).outcome is Outcome.VALID
    assert written_and_recovered(recoverer).close(4).verdict(TypeOK).outcome is Outcome.INVALID


@pytest.mark.parametrize("recoverer", [W, R])
def test_readers_need_not_learn_what_a_recovery_announces_on_the_writers_node_either(
    recoverer: str,
) -> None:
    story = written_and_recovered(recoverer).tell(recoverer, "lac.read", 1)
    story.push(1, recoverer).confirm(1, recoverer)
    for bookie in (B0, B1):
        story.tell("reader", "read.sent", peer=bookie)
    verdict = story.tell("reader", "lac.read", 0).verdict(ReadersLearnWhatIsConfirmed)
    assert verdict.outcome is Outcome.VALID


@pytest.mark.parametrize("kind", ["ledger.deleting", "ledger.deleted"])
def test_readers_need_not_learn_what_was_confirmed_in_a_deleted_ledger(kind: str) -> None:
    def learned(story: Story) -> Outcome:
        for bookie in (B0, B1, B2):
            story.tell("reader", "read.sent", peer=bookie)
        story.tell("reader", "lac.read", -1)
        return story.verdict(ReadersLearnWhatIsConfirmed).outcome

    assert learned(Story().add(0, 1)) is Outcome.INVALID
    assert learned(Story().add(0, 1).tell(W, kind)) is Outcome.UNKNOWN


@pytest.mark.parametrize(("recoverer", "outcome"), [(W, Outcome.UNKNOWN), (R, Outcome.INVALID)])
def test_what_a_node_confirms_after_its_recovery_failed_may_be_what_the_recovery_found(
    recoverer: str, outcome: Outcome
) -> None:
    story = written().store(2).fence(B0, B1, node=recoverer).tell(recoverer, "recovery.failed")
    verdict = story.confirm(2).close(1, "another").verdict(AcknowledgedIsDurable)
    assert verdict.outcome is outcome
