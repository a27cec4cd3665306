"""Test when a repair may be reported as complete, based on situations from live runs."""

import pytest

from labkit.system.check import EPILOGUE, Outcome
from labkit.system.check.promises.repair import RepairIsComplete
from labkit.system.trace.events import Fields
from tests.system.check.story import B0, B1, B2, B3, R, Story, W


def repaired_with_a_dead_bookie(last: int) -> Outcome:
    """Repair a ledger whose entry 0 is on b0 and b1, entry 1 on b1 and b2, and entry 2 on b2 and
    b3. Bookie b3 is down.
    """
    story = Story((4, 2, 2), (B0, B1, B2, B3))
    for entry in range(last + 1):
        story.add(entry)
    story.close(last).tell(B3, "node.killed").tell(B0, "replication.started")
    return story.tell(B0, "replication.done").verdict(RepairIsComplete).outcome


def test_a_dead_bookie_may_be_named_where_it_is_to_have_no_entry() -> None:
    assert repaired_with_a_dead_bookie(last=1) is Outcome.VALID


def test_a_dead_bookie_may_not_be_named_where_it_is_to_have_one() -> None:
    assert repaired_with_a_dead_bookie(last=2) is Outcome.INVALID


def repaired_while_open(*ensemble: str) -> Outcome:
    """Repair an open ledger after b2 has died; entry 0 is in a closed segment, entry 1 in the last
    one.
    """
    story = Story().add(0).tell(W, "ensemble.set", 1, ensemble=ensemble).add(1)
    story.tell(B2, "node.killed").tell(B0, "replication.started")
    story.tell(B0, "entry.copied", 0, peer=B3).tell(
        B0, "ensemble.set", 0, ensemble=("b0", "b1", "b3")
    )
    return story.tell(B0, "replication.done").verdict(RepairIsComplete).outcome


def test_a_dead_bookie_may_be_named_where_a_writer_still_adds() -> None:
    assert repaired_while_open(B0, B1, B2) is not Outcome.INVALID


def repaired_by_a_worker_that_died_in_its_attempt_before(*steps: tuple[str, Fields]) -> Outcome:
    """Let b1 take these steps of a repair of entry 0, be killed and then repair it again; b2 is
    dead.
    """
    story = Story().add(0).close(0).tell(B2, "node.killed").tell(B1, "replication.started")
    for kind, fields in steps:
        story.tell(B1, kind, 0, peer=B3, **fields)
    story.tell(B1, "node.killed").tell(B1, "node.started").tell(B1, "replication.started")
    return story.tell(B1, "replication.done").verdict(RepairIsComplete).outcome


def test_a_worker_may_have_died_before_it_reported_which_bookie_it_named() -> None:
    def named(*ensemble: str) -> tuple[str, Fields]:
        return "ensemble.set", Fields(ensemble=ensemble)

    copied = "entry.copied", Fields()
    put_off = "replication.deferred", Fields(detail="failed")
    died = repaired_by_a_worker_that_died_in_its_attempt_before
    assert died(copied) is Outcome.UNKNOWN
    assert died() is Outcome.INVALID
    assert died(copied, put_off) is Outcome.INVALID
    assert died(copied, named(B0, B1, B3)) is Outcome.VALID
    assert died(copied, named(B0, B1, B2)) is Outcome.INVALID


def named_by_a_repair_and_then_by_the_writer(denied: int) -> Outcome:
    """Copy entry 0 to b3 in a repair; then the writer sends entry 1 to b3, which never
    stores it.
    """
    story = Story().store(0).confirm(0).tell(W, "ensemble.set", 1, ensemble=("b0", "b1", "b2"))
    story.tell(B2, "node.killed").tell(B0, "replication.started")
    story.tell(B0, "entry.copied", 0, peer=B3).tell(
        B0, "ensemble.set", 0, ensemble=("b0", "b1", "b3")
    )
    story.tell(B0, "replication.done").tell(W, "ensemble.set", 1, ensemble=("b0", "b1", "b3"))
    story.ensemble = (B0, B1, B3)
    story.store(1, B0, B1).confirm(1).close(1)
    return story.deny(denied, B3, node=EPILOGUE).verdict(RepairIsComplete).outcome


def test_a_repair_answers_for_the_entries_that_it_copied_alone() -> None:
    assert named_by_a_repair_and_then_by_the_writer(denied=0) is Outcome.INVALID
    assert named_by_a_repair_and_then_by_the_writer(denied=1) is not Outcome.INVALID


def named_by_a_recoverer_that_heard_nothing(fresh: str) -> Outcome:
    """Replace b2 by b3, which stores nothing, in a recovery that closes the ledger; the response is
    lost. Then a repair replaces b1 by `fresh`, which is b4 or b5, but copies entry 0 to b4 only.
    """
    story = Story().add(0).fence(B0, B1)
    story.tell(R, "ensemble.deferred", 0, ensemble=("b0", "b1", "b3")).tell(
        B0, "replication.started"
    )
    story.tell(B0, "entry.copied", 0, peer="b4").tell(
        B0, "ensemble.set", 0, ensemble=("b0", fresh, "b3")
    )
    return story.verdict(RepairIsComplete).outcome


def test_a_repair_does_not_answer_for_a_bookie_that_a_recoverer_may_have_named() -> None:
    assert named_by_a_recoverer_that_heard_nothing("b4") is not Outcome.INVALID
    assert named_by_a_recoverer_that_heard_nothing("b5") is Outcome.INVALID


def a_second_segment_that_was_not_reported(fresh: str, denied: int) -> Outcome:
    """Replace b2 by b3 from entry 1 on in a recovery that closes the ledger; the response is lost.
    Then a repair replaces b2 by `fresh`, which is b3 or b4, for entry 0.
    """
    story = Story().add(0, 1).fence(B0, B1)
    story.tell(R, "ensemble.deferred", 1, ensemble=("b0", "b1", "b3")).tell(
        B0, "replication.started"
    )
    for entry in {0, 1} - {denied}:
        story.tell(B0, "entry.copied", entry, peer=fresh)
    story.tell(B0, "ensemble.set", 0, ensemble=("b0", "b1", fresh))
    return (
        story.tell(B0, "fragment.replicated", 0, bookies=(fresh,)).verdict(RepairIsComplete).outcome
    )


def test_a_repair_answers_for_its_own_segment_where_a_recoverer_may_have_made_the_next() -> None:
    for fresh in (B3, "b4"):
        assert a_second_segment_that_was_not_reported(fresh, denied=1) is not Outcome.INVALID
        assert a_second_segment_that_was_not_reported(fresh, denied=0) is Outcome.INVALID


def test_a_repair_answers_for_what_it_names_after_a_recovery_that_was_reported() -> None:
    story = (
        Story().add(0).fence(B0, B1).tell(R, "ensemble.deferred", 0, ensemble=("b0", "b1", "b3"))
    )
    story.tell(R, "ensemble.set", 0, ensemble=("b0", "b1", "b3")).end(0).tell(
        B0, "replication.started"
    )
    story.tell(B0, "ensemble.set", 0, ensemble=("b0", "b1", "b2")).tell(
        B0, "ensemble.set", 0, ensemble=("b0", "b1", "b3")
    )
    assert story.verdict(RepairIsComplete).outcome is Outcome.INVALID


def repaired_after_a_close_that_was_not_reported(copied: int, end: int | None = None) -> Outcome:
    """Repair a ledger in which the writer confirmed entry 0 and a recovery stored entry 1 on the
    whole ensemble. The ledger may be closed at either entry, by this recovery or by an earlier one
    that died. `end` is the last entry according to the recovery, or None if the recoverer dies
    first. The repair copies one entry to b3.
    """
    story = Story().add(0).store(1, B0).fence(B0, B1, lac=0).store(1, node=R).confirm(1, node=R)
    story = story.tell(R, "node.killed") if end is None else story.tell(R, "recovery.ended", end)
    story.tell(B0, "replication.started").tell(B0, "entry.copied", copied, peer=B3)
    return (
        story.tell(B0, "ensemble.set", 0, ensemble=("b0", "b1", "b3"))
        .verdict(RepairIsComplete)
        .outcome
    )


def test_a_repair_copies_the_entries_up_to_the_end_that_the_first_close_stored() -> None:
    repaired = repaired_after_a_close_that_was_not_reported
    for end in (None, 0):
        assert repaired(copied=0, end=end) is not Outcome.INVALID
        assert repaired(copied=1, end=end) is Outcome.INVALID
    assert repaired(copied=0, end=1) is Outcome.INVALID


def an_open_ledger_of_a_lost_bookie(kind: str, detail: str, *, down: bool = True) -> Story:
    """Declare b2 lost; a worker on b1 finds the ledger open, and ends its attempt by recording
    `kind`.
    """
    story = Story().add(0).tell(B2, "node.killed").lost(B2)
    if not down:
        story.tell(B2, "node.started")
    story.wait(1000).tell(B1, "replication.started")
    for bookie in (B0, B1, B2):
        story.tell(B1, "read.sent", peer=bookie)
    return story.tell(B1, "lac.read", 0).tell(B1, kind, detail=detail)


@pytest.mark.parametrize(
    ("kind", "detail", "outcome"),
    [
        ("replication.deferred", "short", Outcome.INVALID),
        ("replication.done", "", Outcome.INVALID),
        ("replication.deferred", "open", Outcome.UNKNOWN),
        ("replication.deferred", "failed", Outcome.UNKNOWN),
    ],
)
def test_an_open_ledger_of_a_lost_bookie_waits_for_its_writer(
    kind: str, detail: str, outcome: Outcome
) -> None:
    story = an_open_ledger_of_a_lost_bookie(kind, detail).ended()
    assert story.verdict(RepairIsComplete).outcome is outcome


def test_a_bookie_that_is_back_may_be_one_that_only_misses_copies() -> None:
    story = an_open_ledger_of_a_lost_bookie("replication.deferred", "short", down=False).ended()
    assert story.verdict(RepairIsComplete).outcome is not Outcome.INVALID


def test_a_live_worker_may_hear_late_that_a_bookie_is_lost() -> None:
    story = an_open_ledger_of_a_lost_bookie("replication.done", "")
    assert story.verdict(RepairIsComplete).outcome is Outcome.UNKNOWN


def marked_again(*, reads: bool) -> Story:
    """Mark the ledger on b0 while b1 repairs it; then b1 reports it as repaired."""
    story = Story().add(0).close(0).tell(B1, "replication.started").lost(B2)
    story.tell(B0, "ledger.underreplicated", bookies=(B2,))
    if reads:
        story.read(0, B0, node=B1)
    return story.tell(B1, "replication.done")


def test_a_mark_that_a_repair_certainly_met_outlives_it() -> None:
    assert marked_again(reads=True).verdict(RepairIsComplete).outcome is Outcome.INVALID
    assert marked_again(reads=False).verdict(RepairIsComplete).outcome is not Outcome.INVALID
