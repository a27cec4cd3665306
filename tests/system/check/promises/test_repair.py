"""When a repair may end: cases that runs of real bookies brought up."""

import pytest

from labkit.system.check import EPILOGUE, Outcome
from labkit.system.check.promises.repair import RepairIsComplete
from tests.system.check.story import B0, B1, B2, B3, R, Story, W


def repaired_with_a_dead_bookie(last: int) -> Outcome:
    """Entry 0 goes to b0 and b1, entry 1 to b1 and b2, entry 2 to b2 and b3."""
    story = Story("E=4 Qw=2 Qa=2", "b0,b1,b2,b3")
    for entry in range(last + 1):
        story.add(entry)
    story.close(last).tell(B3, "node.killed").tell(B0, "replication.started")
    return story.tell(B0, "replication.done").verdict(RepairIsComplete).outcome


def test_a_dead_bookie_may_be_named_where_it_is_to_have_no_entry() -> None:
    assert repaired_with_a_dead_bookie(last=1) is Outcome.VALID


def test_a_dead_bookie_may_not_be_named_where_it_is_to_have_one() -> None:
    assert repaired_with_a_dead_bookie(last=2) is Outcome.INVALID


def repaired_while_open(ensemble: str) -> Outcome:
    """b2 is dead; entry 0 is in a segment that is closed, entry 1 in that of the writer."""
    story = Story().add(0).tell(W, "ensemble.set", 1, note=ensemble).add(1)
    story.tell(B2, "node.killed").tell(B0, "replication.started")
    story.tell(B0, "entry.copied", 0, peer=B3).tell(B0, "ensemble.set", 0, note="b0,b1,b3")
    return story.tell(B0, "replication.done").verdict(RepairIsComplete).outcome


def test_a_dead_bookie_may_be_named_where_a_writer_still_adds() -> None:
    assert repaired_while_open("b0,b1,b2") is not Outcome.INVALID


def repaired_by_a_worker_that_died_in_its_attempt_before(*steps: tuple[str, str]) -> Outcome:
    """b2 is dead; b1 takes these steps in a repair of entry 0, is killed, and repairs it again."""
    story = Story().add(0).close(0).tell(B2, "node.killed").tell(B1, "replication.started")
    for kind, note in steps:
        story.tell(B1, kind, 0, peer=B3, note=note)
    story.tell(B1, "node.killed").tell(B1, "node.started").tell(B1, "replication.started")
    return story.tell(B1, "replication.done").verdict(RepairIsComplete).outcome


def test_a_worker_may_have_died_before_it_reported_which_bookie_it_named() -> None:
    copied, put_off = ("entry.copied", ""), ("replication.deferred", "entry 1 could not be read")
    died = repaired_by_a_worker_that_died_in_its_attempt_before
    assert died(copied) is Outcome.UNKNOWN
    assert died() is Outcome.INVALID
    assert died(copied, put_off) is Outcome.INVALID
    assert died(copied, ("ensemble.set", "b0,b1,b3")) is Outcome.VALID
    assert died(copied, ("ensemble.set", "b0,b1,b2")) is Outcome.INVALID


def named_by_a_repair_and_then_by_the_writer(denied: int) -> Outcome:
    """A repair copies entry 0 to b3; then a writer sends it entry 1, which b3 never stores."""
    story = Story().store(0).confirm(0).tell(W, "ensemble.set", 1, note="b0,b1,b2")
    story.tell(B2, "node.killed").tell(B0, "replication.started")
    story.tell(B0, "entry.copied", 0, peer=B3).tell(B0, "ensemble.set", 0, note="b0,b1,b3")
    story.tell(B0, "replication.done").tell(W, "ensemble.set", 1, note="b0,b1,b3")
    story.ensemble = [B0, B1, B3]
    story.store(1, B0, B1).confirm(1).close(1)
    return story.deny(denied, B3, node=EPILOGUE).verdict(RepairIsComplete).outcome


def test_a_repair_answers_for_the_entries_that_it_copied_alone() -> None:
    assert named_by_a_repair_and_then_by_the_writer(denied=0) is Outcome.INVALID
    assert named_by_a_repair_and_then_by_the_writer(denied=1) is not Outcome.INVALID


def named_by_a_recoverer_that_heard_nothing(fresh: str) -> Outcome:
    """A recoverer replaces b2 by b3, which stores nothing, and closes the ledger; its answer is
    lost.  Then b4 or b5 takes the place of b1 in a repair, which copies entry 0 to b4 alone.
    """
    story = Story().add(0).fence(B0, B1)
    story.tell(R, "ensemble.deferred", 0, note="b0,b1,b3").tell(B0, "replication.started")
    story.tell(B0, "entry.copied", 0, peer="b4").tell(B0, "ensemble.set", 0, note=f"b0,{fresh},b3")
    return story.verdict(RepairIsComplete).outcome


def test_a_repair_does_not_answer_for_a_bookie_that_a_recoverer_may_have_named() -> None:
    assert named_by_a_recoverer_that_heard_nothing("b4") is not Outcome.INVALID
    assert named_by_a_recoverer_that_heard_nothing("b5") is Outcome.INVALID


def a_second_segment_that_was_not_reported(fresh: str, denied: int) -> Outcome:
    """A recoverer replaces b2 by b3 from entry 1 on and closes the ledger; its answer is lost.
    Then b3 or b4 takes the place of b2 for entry 0 in a repair.
    """
    story = Story().add(0, 1).fence(B0, B1)
    story.tell(R, "ensemble.deferred", 1, note="b0,b1,b3").tell(B0, "replication.started")
    for entry in {0, 1} - {denied}:
        story.tell(B0, "entry.copied", entry, peer=fresh)
    story.tell(B0, "ensemble.set", 0, note=f"b0,b1,{fresh}")
    return story.tell(B0, "fragment.replicated", 0, note=fresh).verdict(RepairIsComplete).outcome


def test_a_repair_answers_for_its_own_segment_where_a_recoverer_may_have_made_the_next() -> None:
    for fresh in (B3, "b4"):
        assert a_second_segment_that_was_not_reported(fresh, denied=1) is not Outcome.INVALID
        assert a_second_segment_that_was_not_reported(fresh, denied=0) is Outcome.INVALID


def test_a_repair_answers_for_what_it_names_after_a_recovery_that_was_reported() -> None:
    story = Story().add(0).fence(B0, B1).tell(R, "ensemble.deferred", 0, note="b0,b1,b3")
    story.tell(R, "ensemble.set", 0, note="b0,b1,b3").end(0).tell(B0, "replication.started")
    story.tell(B0, "ensemble.set", 0, note="b0,b1,b2").tell(B0, "ensemble.set", 0, note="b0,b1,b3")
    assert story.verdict(RepairIsComplete).outcome is Outcome.INVALID


def repaired_after_a_close_that_was_not_reported(copied: int, end: int | None = None) -> Outcome:
    """The writer confirms entry 0, and a recoverer has entry 1 at full quorum.  The ledger may be
    closed at either: by this recoverer, or before by one that died.  `end`: where it finds that the
    ledger ends; None if it dies first.  Then a repair copies one entry to b3.
    """
    story = Story().add(0).store(1, B0).fence(B0, B1, lac=0).store(1, node=R).confirm(1, node=R)
    story = story.tell(R, "node.killed") if end is None else story.tell(R, "recovery.ended", end)
    story.tell(B0, "replication.started").tell(B0, "entry.copied", copied, peer=B3)
    return story.tell(B0, "ensemble.set", 0, note="b0,b1,b3").verdict(RepairIsComplete).outcome


def test_a_repair_copies_the_entries_up_to_the_end_that_the_first_close_stored() -> None:
    repaired = repaired_after_a_close_that_was_not_reported
    for end in (None, 0):
        assert repaired(copied=0, end=end) is not Outcome.INVALID
        assert repaired(copied=1, end=end) is Outcome.INVALID
    assert repaired(copied=0, end=1) is Outcome.INVALID


def an_open_ledger_of_a_lost_bookie(kind: str, note: str, *, down: bool = True) -> Story:
    """b2 is taken for lost; a worker on b1 finds the ledger open, and ends its attempt so."""
    story = Story().add(0).tell(B2, "node.killed").lost(B2)
    if not down:
        story.tell(B2, "node.started")
    story.wait(1000).tell(B1, "replication.started")
    for bookie in (B0, B1, B2):
        story.tell(B1, "read.sent", peer=bookie)
    return story.tell(B1, "lac.read", 0).tell(B1, kind, note=note)


@pytest.mark.parametrize(
    ("kind", "note", "outcome"),
    [
        ("replication.deferred", "b2 miss copies; again in 1 s", Outcome.INVALID),
        ("replication.done", "", Outcome.INVALID),
        ("replication.deferred", "it is open: its writer has 1 s", Outcome.UNKNOWN),
        ("replication.deferred", "entry 0 could not be read", Outcome.UNKNOWN),
    ],
)
def test_an_open_ledger_of_a_lost_bookie_waits_for_its_writer(
    kind: str, note: str, outcome: Outcome
) -> None:
    story = an_open_ledger_of_a_lost_bookie(kind, note).ended()
    assert story.verdict(RepairIsComplete).outcome is outcome


def test_a_bookie_that_is_back_may_be_one_that_only_misses_copies() -> None:
    note = "b2 miss copies; again in 1 s"
    story = an_open_ledger_of_a_lost_bookie("replication.deferred", note, down=False).ended()
    assert story.verdict(RepairIsComplete).outcome is not Outcome.INVALID


def test_a_live_worker_may_hear_late_that_a_bookie_is_lost() -> None:
    story = an_open_ledger_of_a_lost_bookie("replication.done", "")
    assert story.verdict(RepairIsComplete).outcome is Outcome.UNKNOWN


def marked_again(*, reads: bool) -> Story:
    """b0 marks the ledger while b1 repairs it, and then b1 takes it for repaired."""
    story = Story().add(0).close(0).tell(B1, "replication.started").lost(B2)
    story.tell(B0, "ledger.underreplicated", note=B2)
    if reads:
        story.read(0, B0, node=B1)
    return story.tell(B1, "replication.done")


def test_a_mark_that_a_repair_certainly_met_outlives_it() -> None:
    assert marked_again(reads=True).verdict(RepairIsComplete).outcome is Outcome.INVALID
    assert marked_again(reads=False).verdict(RepairIsComplete).outcome is not Outcome.INVALID
