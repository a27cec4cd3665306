"""The same for what callers are answered, and for marks."""

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
    """A story in which callers get answers, each after the events before it."""

    def add_is(self, entry: int, given: int) -> "Answered":
        """The add of the payload of `given` returned that entry id."""
        answer = Content(entry, -1, content(given))
        self.answers.append(AddAnswered(len(self.rows), W, LEDGER, answer))
        return self

    def returns(self, *entries: int, given: tuple[int, ...] = ()) -> "Answered":
        """A read of entries 0 and 1 returned these, with the payloads of `given`."""
        contents = (
            Content(entry, -1, content(other))
            for entry, other in zip(entries, given or entries, strict=True)
        )
        at = len(self.rows)
        self.answers.append(EntriesRead(at, "reader", LEDGER, 0, 1, tuple(contents)))
        return self

    def outlasts(self, *, has_ended: bool) -> "Answered":
        """The writer's step is under way at the end of the run."""
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
    """Entry 0 has one copy when the add is answered."""
    story = Answered()
    story.push(0).ack(0, B0)
    story.add_is(0, 0).ack(0, B1).confirm(0)
    return story


def closed(
    length: int, sizes: tuple[int, ...] = (3, 4), *, denied_by: str = "", read_from: str = ""
) -> Story:
    """A ledger of two entries is closed with that length; its last entry is denied or read before
    by the bookies named.
    """
    story = Story()
    if denied_by:
        story.deny(1, denied_by, node=W)
    if read_from:
        story.tell(W, "read.done", 1, peer=read_from, note=content(1))
    for entry, size in enumerate(sizes):
        story.tell(W, "add.pushed", entry, size=size, note=content(entry))
    return story.close(1, size=length)


def lost(*, auditors: tuple[str, ...] = (B0,)) -> Story:
    """b2 is taken for lost, and the ledger is read in the end."""
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
        ("add.acked", 0),
        ("lac.advanced",),
        (W, "entry 0", "only at event"),
        two_entries(),
    ),
    Case(
        AddsAreAnsweredWhenConfirmed,
        two_entries().add_is(1, 1),
        two_entries().add_is(1, 0),
        ("lac.advanced", 1),
        ("add.pushed",),
        (W, "entry 1", "another payload"),
        two_entries(),
    ),
    Case(
        ReadsReturnWhatWasWritten,
        two_entries().returns(0, 1),
        two_entries().returns(1, 0),
        ("lac.advanced", 1),
        (),
        ("reader", "0 to 1", "this order: 1, 0"),
        two_entries(),
    ),
    Case(
        ReadsReturnWhatWasWritten,
        two_entries().returns(0, 1),
        two_entries().returns(0, 1, given=(1, 1)),
        ("lac.advanced", 1),
        ("add.pushed",),
        ("reader", "entry 0", "another payload"),
        two_entries(),
    ),
    Case(
        ClosedLengthIsRight,
        closed(7),
        closed(4),
        ("ledger.closed", 1),
        ("add.pushed",),
        (W, "length 4", "7 bytes"),
        closed(7, (7,)),
    ),
    Case(
        ClosedLengthIsRight,
        closed(7),
        closed(9),
        ("ledger.closed", 1),
        ("add.pushed",),
        (W, "length 9", "7 bytes"),
        closed(9, denied_by=B0),
    ),
    Case(
        ClosedLengthIsRight,
        closed(7, denied_by=B0, read_from=B1),
        closed(0, denied_by=B0, read_from=B1),
        ("ledger.closed", 1),
        ("add.pushed",),
        (W, "length 0", "7 bytes"),
        closed(0, denied_by=B0),
    ),
    Case(
        StepsEnd,
        two_entries().outlasts(has_ended=True),
        two_entries().outlasts(has_ended=False),
        ("lac.advanced", 1),
        (),
        (W, "write", "30 s"),
        two_entries(),
    ),
    Case(
        LostBookiesLedgersAreMarked,
        read_in_the_end(lost().tell(B0, "ledger.underreplicated", note=B2)),
        read_in_the_end(lost()),
        ("bookie.lost", -1),
        (),
        (B0, B2, f"ledger {LEDGER}"),
        read_in_the_end(lost().tell(B0, "session.lost")),
    ),
    Case(
        LostBookiesLedgersAreMarked,
        read_in_the_end(lost().tell(B0, "ledger.underreplicated", note=B2).lost(B2)),
        read_in_the_end(lost().tell(B0, "ledger.underreplicated", note=B1)),
        ("bookie.lost", -1),
        (),
        (B0, B2, f"ledger {LEDGER}"),
        read_in_the_end(lost(auditors=(B1, B0))),
    ),
    Case(
        MarkedLedgersAreRepaired,
        two_entries().finds_marks(),
        two_entries().finds_marks(LEDGER),
        ("lac.advanced", 1),
        (),
        (f"ledger {LEDGER}", "30 s"),
        Answered().finds_marks(LEDGER).tell(B2, "disk.bad"),
    ),
]
