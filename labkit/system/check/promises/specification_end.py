"""The specification's invariants that a trace shows at its end, when the epilogue has read it all.

The specification states the first three for every moment of an unbounded run; here they are judged
by what the epilogue's reads give.
"""

from collections import defaultdict

from labkit.system.check.facts import EPILOGUE, Facts, LedgerFacts, proves_absence
from labkit.system.check.handlers import on
from labkit.system.check.promise import Check
from labkit.system.trace.events import Event

_NO_ANSWER = "MetadataUnavailableError"
_NO_LEDGER = "BKNoSuchLedgerExistsOnMetadataServerException"


class _EpilogueCheck(Check):
    """Base: the entries that the epilogue got, and those it was refused, by ledger and entry."""

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self.given: defaultdict[tuple[int, int], list[Event]] = defaultdict(list)
        self.refused: defaultdict[tuple[int, int], list[Event]] = defaultdict(list)

    @on("read.done", "read.failed")
    def read(self, event: Event) -> None:
        """Note one bookie's answer."""
        if event.node == EPILOGUE and event.entry >= 0:
            done = event.kind == "read.done"
            (self.given if done else self.refused)[event.ledger, event.entry].append(event)

    def judge(self, ledger: LedgerFacts, entry: int, what: str) -> None:
        """Judge whether any bookie gave the entry."""
        key = ledger.ledger_id, entry
        answers = self.refused[key]
        if self.given[key]:
            self.judged += 1
        elif ledger.was_formatted_away(entry):
            self.doubt(f"bookies that had entry {entry} of ledger {key[0]} were formatted")
        elif answers and all(map(proves_absence, answers)):
            self.broke(
                answers[-1],
                f"{what} {entry} of ledger {ledger.ledger_id} is on no bookie:"
                f" {', '.join(event.peer for event in answers)} deny it",
                self.facts.first("add.pushed", *key),
            )
        else:
            self.doubt(f"no bookie could be asked at the end for entry {entry} of ledger {key[0]}")


class AllCommittedIdsAreReadable(_EpilogueCheck):
    """Every entry id up to the last of a closed ledger can be read.

    An id counts as committed when the ledger is closed at or after it.
    """

    def finish(self) -> None:
        """Go through the closed ledgers."""
        for ledger in self.facts.kept:
            if ledger.closed is not None:
                for entry in range(ledger.end + 1):
                    self.judge(ledger, entry, "the committed entry")


class AllAckedValuesAreReadable(_EpilogueCheck):
    """The content of every entry that was confirmed to its writer can be read.

    Contents are compared by their checksums.
    """

    def finish(self) -> None:
        """Go through what was confirmed."""
        for ledger in self.facts.kept:
            for entry in range(ledger.confirmed + 1):
                self.judge(ledger, entry, "the confirmed entry")
                written = ledger.pushed.get(entry, "")
                for event in self.given[ledger.ledger_id, entry]:
                    if written and event.note not in ("", written):
                        self.broke(
                            event,
                            f"{event.peer} gave entry {entry} of ledger {event.ledger} with the"
                            f" checksum {event.note}, and {written} was confirmed",
                            self.facts.first("add.pushed", event.ledger, entry),
                        )


class NoLogDivergence(_EpilogueCheck):
    """A committed entry is the same on all bookies of its write set that have it.

    Contents are compared by their checksums: headers differ after a recovery, as they may.
    """

    def finish(self) -> None:
        """Compare the copies."""
        for (number, entry), copies in self.given.items():
            first = copies[0]
            for event in copies[1:]:
                self.judged += 1
                if event.note != first.note and entry <= self.ledgers[number].end:
                    self.broke(
                        event,
                        f"entry {entry} of ledger {number} has the checksum {event.note} on"
                        f" {event.peer}, and {first.note} on {first.peer}",
                        first,
                    )


class LedgerIsClosed(Check):
    """Every ledger is closed in the end.

    The specification's liveness: judged when an epilogue has opened every ledger with recovery, and
    open where a bookie that it needed could not be asked, where the metadata store did not answer
    whether it took the end, where another recoverer may have closed the ledger without hearing of
    it, or where a node asked for its deletion, heard nothing, and the epilogue then found it gone.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._unasked: dict[int, Event] = {}
        self._unanswered: dict[int, Event] = {}
        """Ledgers whose last recovery by the epilogue ended without an answer of the store."""
        self._deleting: dict[int, Event] = {}
        """By ledger the first request to delete it."""
        self._gone: set[int] = set()
        """Ledgers with a deletion under way that were not there at the end of a recovery by the
        epilogue.
        """
        self._begun: defaultdict[int, set[str]] = defaultdict(set)
        """By ledger the recoverers that have not reported that it is closed."""

    @on("ledger.deleting")
    def deleting(self, event: Event) -> None:
        """Note who asks the store to delete it: that may come late, and its answer never."""
        self._deleting.setdefault(event.ledger, event)

    @on("recovery.failed")
    def recovery_failed(self, event: Event) -> None:
        """Note that the store did not answer: the end may be stored.  Or that it has no ledger."""
        if event.node == EPILOGUE and event.note == _NO_ANSWER:
            self._unanswered[event.ledger] = event
        if event.node == EPILOGUE and event.note == _NO_LEDGER and event.ledger in self._deleting:
            self._gone.add(event.ledger)

    @on("recovery.started", "ledger.unreadable")
    def tried_again(self, event: Event) -> None:
        """Note that the ledger was not closed after all."""
        self._unanswered.pop(event.ledger, None)

    @on("recovery.started")
    def started(self, event: Event) -> None:
        """Note that the ledger is there, and that the node may close it."""
        self._gone.discard(event.ledger)
        self._begun[event.ledger].add(event.node)

    @on("recovery.ended")
    def ended(self, event: Event) -> None:
        """Note that the node knows the ledger to be closed."""
        self._begun[event.ledger].discard(event.node)

    @on("read.failed", "fence.failed")
    def failed(self, event: Event) -> None:
        """Note a bookie whose answer proves nothing."""
        if event.node == EPILOGUE and not proves_absence(event):
            self._unasked[event.ledger] = event

    def finish(self) -> None:
        """Go through the ledgers."""
        for ledger in self.facts.kept:
            number = ledger.ledger_id
            if ledger.closed is not None:
                self.judged += 1
            elif number in self._unasked:
                unasked = self._unasked[number]
                self.doubt(f"{unasked.peer} could not be asked for ledger {number} at the end")
            elif number in self._unanswered:
                self.doubt(f"the metadata store did not say whether ledger {number} is closed")
            elif number in self._gone:
                deleting = self._deleting[number]
                self.doubt(f"{deleting.node} may have deleted ledger {number}, and not heard of it")
            elif EPILOGUE in ledger.recoverers:
                self._judge(number, ledger.recoverers[EPILOGUE])
            elif ledger.created is not None:
                self.doubt(f"ledger {number} was not opened with recovery at the end")

    def _judge(self, number: int, start: Event) -> None:
        unsure = self._begun[number]
        if unsure and EPILOGUE not in unsure:
            self.doubt(f"{min(unsure)} may have closed ledger {number}, and not have heard of it")
        else:
            self.broke(start, f"ledger {number} was opened with recovery, and it is not closed")
