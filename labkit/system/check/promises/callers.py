"""Promises to callers: each result is correct, and each call completes.

Events alone cannot prove that these promises are kept, because the events are reported by the code
under test. The checks therefore use the results of calls, which the simulated workload records
(`labkit.system.trace.answers`).

In BookKeeper: `client/LedgerHandle.java`, `client/ReadOnlyLedgerHandle.java`.
"""

from collections import defaultdict
from typing import NamedTuple

from labkit.system.check.facts import Facts
from labkit.system.check.promise import Check, end_words
from labkit.system.trace.answers import AddReturned, Content, EntriesRead, StepOutlastedRun
from labkit.system.trace.events import Event
from labkit.system.trace.handlers import on


class _Pushed(NamedTuple):
    size: int
    checksum: str
    event: Event


class ContentCheck(Check):
    """Base class that records the content that writers pushed, keyed by ledger and entry id."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.pushed: defaultdict[int, dict[int, _Pushed]] = defaultdict(dict)

    @on("add.pushed")
    def entry_pushed(self, event: Event) -> None:
        # Keep only the first event, because a recoverer pushes existing entries again.
        pushed = _Pushed(event.size, event.checksum, event)
        self.pushed[event.ledger].setdefault(event.entry, pushed)

    def check_payload(self, ledger: int, content: Content) -> Event | None:
        """Compare this content with the content that a writer pushed as the same entry. If the two
        differ, return the event that reports the push.

        Report a doubt if the trace does not show the push.
        """
        pushed = self.pushed[ledger].get(content.entry)
        if pushed is None:
            self.report_doubt(
                f"The trace does not show who wrote entry {content.entry} of {ledger}"
            )
            return None
        is_same = (content.size, content.checksum) == (pushed.size, pushed.checksum)
        return None if is_same else pushed.event


class AddsReturnWhenConfirmed(ContentCheck):
    """An add returns only after the writer has confirmed the entry, and it returns the id of the
    entry that contains the payload of that add.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._confirmed: dict[tuple[str, int, int], Event] = {}

    @on("lac.advanced")
    def confirmed(self, event: Event) -> None:
        self._confirmed.setdefault((event.node, event.ledger, event.entry), event)

    def finish(self) -> None:
        for answer in self.facts.answers_of(AddReturned):
            self._judge(answer)

    def _judge(self, answer: AddReturned) -> None:
        node, ledger, content = answer.node, answer.ledger, answer.content
        confirmed = self._confirmed.get((node, ledger, content.entry))
        result = f"an add of {node} returned entry {content.entry} of ledger {ledger}"
        if (other := self.check_payload(ledger, content)) is not None:
            self.report_broken(answer, f"{result}, which has a different payload", other)
        elif confirmed is None or confirmed.seq >= answer.at:
            late = "never" if confirmed is None else "only later"
            self.report_broken(answer, f"{result}, which was {late} confirmed", confirmed)
        else:
            self.report_kept()


class ReadsReturnWhatWasWritten(ContentCheck):
    """A read returns exactly the requested entries, in the order of their ids, each with the
    payload that its writer gave it.
    """

    def finish(self) -> None:
        for answer in self.facts.answers_of(EntriesRead):
            self._judge(answer)

    def _judge(self, answer: EntriesRead) -> None:
        ids = [content.entry for content in answer.contents]
        entries = f"entries {answer.first} to {answer.last}"
        request = f"{answer.node} requested {entries} of ledger {answer.ledger}"
        if ids != list(range(answer.first, answer.last + 1)):
            got = ", ".join(map(str, ids)) or "none"
            self.report_broken(answer, f"{request}, but got, in this order: {got}")
            return
        for content in answer.contents:
            if (other := self.check_payload(answer.ledger, content)) is not None:
                self.report_broken(
                    answer,
                    f"{request}, but got entry {content.entry} with a payload other than the one"
                    " that was written",
                    other,
                )
                return
        self.report_kept()


class ClosedLengthIsRight(ContentCheck):
    """The length of a closed ledger is the total size of the payloads of its entries.

    A recoverer that cannot read the last entry uses the length that the fenced bookies report, as
    BookKeeper does. The check skips this case, because those bookies may have later entries or no
    entries at all.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._unreadable: set[tuple[str, int, int]] = set()

    @on("read.failed")
    def read_failed(self, event: Event) -> None:
        self._unreadable.add((event.node, event.ledger, event.entry))

    @on("read.done")
    def read_done(self, event: Event) -> None:
        self._unreadable.discard((event.node, event.ledger, event.entry))

    @on("ledger.closed")
    def closed(self, event: Event) -> None:
        pushed = self.pushed[event.ledger]
        sizes = [pushed[entry].size for entry in range(event.entry + 1) if entry in pushed]
        if len(sizes) <= event.entry or -1 in sizes:
            self.report_doubt(
                f"The trace does not include the sizes of all entries of ledger {event.ledger}"
            )
            return
        if event.size == sum(sizes):
            self.report_kept()
        elif (event.node, event.ledger, event.entry) in self._unreadable:
            self.report_doubt(
                f"{event.node} could not read the last entry of ledger {event.ledger}"
            )
        else:
            self.report_broken(
                event,
                f"{event.node} closed ledger {event.ledger} {end_words(event.entry)} with length"
                f" {event.size}, but its payloads have {sum(sizes)} bytes",
                pushed[event.entry].event if sizes else None,
            )


class StepsEnd(Check):
    """Once the run has ended and all faults have been repaired, every live client completes each
    step of its work within 30 seconds, either successfully or with an error.

    If failed disks have lost all copies of an entry, a broker that needs the entry keeps trying to
    open its topic forever, and so do the topic's clients. In that case, the result is unknown.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._unread: defaultdict[tuple[int, int], set[str]] = defaultdict(set)
        """For each ledger and entry, the bookies with failed disks that did not return the entry.
        """

    @on("read.failed")
    def read_failed(self, event: Event) -> None:
        if event.peer in self.facts.bad_disks:
            self._unread[event.ledger, event.entry].add(event.peer)

    @on("step.ended")
    def ended(self, _: Event) -> None:
        self.report_kept()

    def finish(self) -> None:
        for answer in self.facts.answers_of(StepOutlastedRun):
            if answer.has_ended:
                self.report_kept()
            elif self._is_an_entry_lost():
                self.report_doubt("Failed disks may have lost all copies of an entry")
            else:
                self.report_broken(
                    answer,
                    f"{answer.node} has not completed its step ({answer.step})"
                    f" {answer.waited_s:g} s after the end of the run",
                )

    def _is_an_entry_lost(self) -> bool:
        return any(
            len(bookies) >= self.ledgers[ledger].write_quorum
            for (ledger, _), bookies in self._unread.items()
        )
