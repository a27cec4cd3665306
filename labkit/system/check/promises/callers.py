"""Promises to those who call: each answer is true, and each call ends.

Events cannot show them, since they are what the system's own code reports: the answers that a
simulated workload got are judged beside them (`labkit.system.trace.answers`).

In BookKeeper: `client/LedgerHandle.java`, `client/ReadOnlyLedgerHandle.java`.
"""

from collections import defaultdict
from typing import NamedTuple

from labkit.system.check.facts import Facts
from labkit.system.check.handlers import on
from labkit.system.check.promise import Check
from labkit.system.trace.answers import (
    AddAnswered,
    Content,
    EntriesRead,
    StepOutlastedRun,
)
from labkit.system.trace.events import Event


class _Pushed(NamedTuple):
    """An entry's size and checksum, as its writer pushed it, and the event."""

    size: int
    checksum: str
    event: Event


class ContentCheck(Check):
    """Base: what the writer of each entry pushed, by ledger and entry id."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.pushed: defaultdict[int, dict[int, _Pushed]] = defaultdict(dict)

    @on("add.pushed")
    def noted(self, event: Event) -> None:
        """Note the first: a recoverer pushes again what it found."""
        pushed = _Pushed(event.size, event.note, event)
        self.pushed[event.ledger].setdefault(event.entry, pushed)

    def is_as_pushed(self, ledger: int, content: Content) -> bool:
        """Whether this is what the writer pushed; a doubt if the trace does not hold that."""
        pushed = self.pushed[ledger].get(content.entry)
        if pushed is None:
            self.doubt(f"the trace does not hold who wrote entry {content.entry} of {ledger}")
            return True
        return (content.size, content.checksum) == (pushed.size, pushed.checksum)


class AddsAreAnsweredWhenConfirmed(ContentCheck):
    """An add is answered with the id of the entry that has its payload, and not before the writer
    has confirmed that entry.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._confirmed: dict[tuple[str, int, int], Event] = {}

    @on("lac.advanced")
    def confirmed(self, event: Event) -> None:
        """Note when the node first confirmed the entry."""
        self._confirmed.setdefault((event.node, event.ledger, event.entry), event)

    def finish(self) -> None:
        """Judge each answer."""
        for answer in self.facts.answers:
            if isinstance(answer, AddAnswered):
                self.judged += 1
                self._judge(answer)

    def _judge(self, answer: AddAnswered) -> None:
        node, ledger, content = answer.node, answer.ledger, answer.content
        confirmed = self._confirmed.get((node, ledger, content.entry))
        its = f"{node} got the answer that its add is entry {content.entry} of ledger {ledger}"
        if not self.is_as_pushed(ledger, content):
            pushed = self.pushed[ledger][content.entry].event
            self.broke(self.facts.before(answer), f"{its}, which has another payload", pushed)
        elif confirmed is None or confirmed.seq >= answer.at:
            late = "never" if confirmed is None else f"only at event {confirmed.seq}"
            self.broke(self.facts.before(answer), f"{its}, which was confirmed {late}", confirmed)


class ReadsReturnWhatWasWritten(ContentCheck):
    """A read returns the entries that it was asked for and no others, in the order of their ids,
    each with the payload that its writer gave it.
    """

    def finish(self) -> None:
        """Judge each answer."""
        for answer in self.facts.answers:
            if isinstance(answer, EntriesRead):
                self.judged += 1
                self._judge(answer)

    def _judge(self, answer: EntriesRead) -> None:
        ids = [content.entry for content in answer.contents]
        asked = f"{answer.node} asked for entries {answer.first} to {answer.last}"
        its = f"{asked} of ledger {answer.ledger}"
        if ids != list(range(answer.first, answer.last + 1)):
            got = ", ".join(map(str, ids)) or "none"
            self.broke(self.facts.before(answer), f"{its}, and got these, in this order: {got}")
            return
        for content in answer.contents:
            if not self.is_as_pushed(answer.ledger, content):
                pushed = self.pushed[answer.ledger][content.entry].event
                wrong = f"{its}, and got entry {content.entry} with another payload"
                self.broke(self.facts.before(answer), f"{wrong} than its writer gave it", pushed)


class ClosedLengthIsRight(ContentCheck):
    """A closed ledger's length is the sum of the payloads of its entries.

    A recoverer that cannot read the last entry uses the length that the fenced bookies reported, as
    BookKeeper's does.  They may know of later entries, or have none of the ledger, so that length
    is not judged.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._unreadable: set[tuple[str, int, int]] = set()

    @on("read.failed")
    def read_failed(self, event: Event) -> None:
        """Note which entries a node could not read."""
        self._unreadable.add((event.node, event.ledger, event.entry))

    @on("read.done")
    def read_done(self, event: Event) -> None:
        """Another bookie had the entry."""
        self._unreadable.discard((event.node, event.ledger, event.entry))

    @on("ledger.closed")
    def closed(self, event: Event) -> None:
        """Compare the length with what was pushed."""
        pushed = self.pushed[event.ledger]
        sizes = [pushed[entry].size for entry in range(event.entry + 1) if entry in pushed]
        if len(sizes) <= event.entry or -1 in sizes:
            self.doubt(f"the trace does not hold the sizes of all entries of {event.ledger}")
            return
        self.judged += 1
        if event.size == sum(sizes):
            return
        if (event.node, event.ledger, event.entry) in self._unreadable:
            self.doubt(f"{event.node} could not read the last entry of ledger {event.ledger}")
        else:
            self.broke(
                event,
                f"{event.node} closed ledger {event.ledger} at entry {event.entry} with length"
                f" {event.size}, and its payloads have {sum(sizes)} bytes",
                pushed[event.entry].event if sizes else None,
            )


class StepsEnd(Check):
    """A client that lives ends each step of its work, if necessary with an error, within 30 seconds
    after the end of the run, when all faults are repaired.

    An entry whose copies were all lost on failed disks stays lost: a broker that needs it tries to
    open its topic for ever, and the topic's clients try for ever too.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._not_read: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
        """By ledger and entry the bookies with a failed disk that did not give the entry."""

    @on("read.failed")
    def not_read(self, event: Event) -> None:
        """Note a copy that may be lost."""
        if event.peer in self.facts.bad_disks:
            self._not_read[event.ledger, event.entry].add(event.peer)

    @on("step.ended")
    def ended(self, _: Event) -> None:
        """Count the steps that end during the run."""
        self.judged += 1

    def finish(self) -> None:
        """Judge those that were still under way at the end of the run."""
        for answer in self.facts.answers:
            if not isinstance(answer, StepOutlastedRun):
                continue
            if answer.has_ended:
                self.judged += 1
            elif self._is_an_entry_lost():
                self.doubt("failed disks may have lost all copies of an entry")
            else:
                self.broke(
                    self.facts.before(answer),
                    f"{answer.node} has not ended its step ({answer.step}) {answer.waited_s:g} s"
                    " after the end of the run",
                )

    def _is_an_entry_lost(self) -> bool:
        return any(
            len(bookies) >= self.ledgers[ledger].write_quorum
            for (ledger, _), bookies in self._not_read.items()
        )
