"""Test cases for the checks of results that are returned to callers, and of under-replication
marks.
"""

from labkit.system.check.promises.callers import (
    AddsAreAnsweredWhenConfirmed,
    ClosedLengthIsRight,
    ReadsReturnWhatWasWritten,
    StepsEnd,
)
from labkit.system.check.promises.marks import LostBookiesLedgersAreMarked, MarkedLedgersAreRepaired
from labkit.system.trace.answers import (
    AddAnswered,
    Content,
    EntriesRead,
    MarksFound,
    StepOutlastedRun,
)
from tests.system.check.cases import Case, written
from tests.system.check.story import B0, B1, B2, LEDGER, Story, W, content


class Answered(Story):
    """A story that also records the results that calls returned to their callers."""

    def add_is(self, entry: int, given: int) -> "Answered":
        """Let the add of the payload of entry `given` return entry id `entry`."""
        answer = Content(entry, -1, content(given))
        self.answers.append(AddAnswered(len(self.rows), W, LEDGER, answer))
        return self

    def returns(self, *entries: int, given: tuple[int, ...] = ()) -> "Answered":
        """Let a read of entries 0 and 1 return `entries`, with the payloads of the
        entries `given`.
        """
        contents = (
            Content(entry, -1, content(other))
            for entry, other in zip(entries, given or entries, strict=True)
        )
        at = len(self.rows)
        self.answers.append(EntriesRead(at, "reader", LEDGER, 0, 1, tuple(contents)))
        return self

    def outlasts(self, *, has_ended: bool) -> "Answered":
        """Let the writer's step still be in progress at the end of the run."""
        at = len(self.rows)
        self.answers.append(StepOutlastedRun(at, W, "write", 30.0, has_ended))
        return self

    def finds_marks(self, *ledgers: int) -> "Answered":
        self.answers.append(MarksFound(len(self.rows), 30.0, ledgers))
        return self


def two_entries() -> Answered:
    story = Answered()
    story.add(0, 1)
    return story


def early() -> Answered:
    """Let the add of entry 0 return when only one bookie has acknowledged it."""
    story = Answered()
    story.push(0).ack(0, B0)
    story.add_is(0, 0).ack(0, B1).confirm(0)
    return story


def closed(
    length: int, sizes: tuple[int, ...] = (3, 4), *, denied_by: str = "", read_from: str = ""
) -> Story:
    """Close a ledger of two entries with this length. If `denied_by` is given, this bookie reported
    the last entry as missing. If `read_from` is given, the last entry was read from this bookie
    before the close.
    """
    story = Story()
    if denied_by:
        story.deny(1, denied_by, node=W)
    if read_from:
        story.tell(W, "read.done", 1, peer=read_from, checksum=content(1))
    for entry, size in enumerate(sizes):
        story.tell(W, "add.pushed", entry, size=size, checksum=content(entry))
    return story.close(1, size=length)


def lost(*, auditors: tuple[str, ...] = (B0,)) -> Story:
    """Elect these auditors in turn, then declare b2 lost."""
    story = written().wait(2000)
    for auditor in auditors:
        story.tell(auditor, "auditor.elected", ledger=-1)
    return story.lost(B2)


def read_in_the_end(story: Story) -> Story:
    return story.wait(6000).epilogue(0)


CALLER_CASES = [
    Case(
        AddsAreAnsweredWhenConfirmed,
        two_entries().add_is(0, 0).add_is(1, 1),
        early(),
        two_entries(),
        (W, "entry 0", "only later"),
        led=("lac.advanced",),
        at=("add.acked", 0),
    ),
    Case(
        AddsAreAnsweredWhenConfirmed,
        two_entries().add_is(1, 1),
        two_entries().add_is(1, 0),
        two_entries(),
        (W, "entry 1", "different payload"),
        led=("add.pushed",),
    ),
    Case(
        ReadsReturnWhatWasWritten,
        two_entries().returns(0, 1),
        two_entries().returns(1, 0),
        two_entries(),
        ("reader", "0 to 1", "this order: 1, 0"),
    ),
    Case(
        ReadsReturnWhatWasWritten,
        two_entries().returns(0, 1),
        two_entries().returns(0, 1, given=(1, 1)),
        two_entries(),
        ("reader", "entry 0", "payload other than"),
        led=("add.pushed",),
    ),
    Case(
        ClosedLengthIsRight,
        closed(7),
        closed(4),
        closed(7, (7,)),
        (W, "length 4", "7 bytes"),
        led=("add.pushed",),
    ),
    Case(
        ClosedLengthIsRight,
        closed(7),
        closed(9),
        closed(9, denied_by=B0),
        (W, "length 9", "7 bytes"),
        led=("add.pushed",),
    ),
    Case(
        ClosedLengthIsRight,
        closed(7, denied_by=B0, read_from=B1),
        closed(0, denied_by=B0, read_from=B1),
        closed(0, denied_by=B0),
        (W, "length 0", "7 bytes"),
        led=("add.pushed",),
    ),
    Case(
        StepsEnd,
        two_entries().outlasts(has_ended=True),
        two_entries().outlasts(has_ended=False),
        two_entries(),
        (W, "write", "30 s"),
    ),
    Case(
        LostBookiesLedgersAreMarked,
        read_in_the_end(lost().tell(B0, "ledger.underreplicated", bookies=(B2,))),
        read_in_the_end(lost()),
        read_in_the_end(lost().tell(B0, "session.lost")),
        (B0, B2, f"ledger {LEDGER}"),
        at=("bookie.lost", -1),
    ),
    Case(
        LostBookiesLedgersAreMarked,
        read_in_the_end(lost().tell(B0, "ledger.underreplicated", bookies=(B2,)).lost(B2)),
        read_in_the_end(lost().tell(B0, "ledger.underreplicated", bookies=(B1,))),
        read_in_the_end(lost(auditors=(B1, B0))),
        (B0, B2, f"ledger {LEDGER}"),
        at=("bookie.lost", -1),
    ),
    Case(
        MarkedLedgersAreRepaired,
        two_entries().finds_marks(),
        two_entries().finds_marks(LEDGER),
        Answered().finds_marks(LEDGER).tell(B2, "disk.bad"),
        (f"ledger {LEDGER}", "30 s"),
    ),
]
