"""The promise to readers that ask how far a ledger is confirmed.

In BookKeeper: `client/ReadLastConfirmedOp.java`, `RRQuorumCoverageSet`.
"""

from collections import defaultdict

from labkit.system.check.facts import Facts
from labkit.system.check.handlers import on
from labkit.system.check.promise import Check
from labkit.system.trace.events import Event


class ReadersLearnWhatIsConfirmed(Check):
    """A reader that asks for LastAddConfirmed learns at least what was announced to bookies with an
    entry that was confirmed before it asked.

    Judged while a ledger is there and has one segment, and the reader asks its bookies: a reader
    may not know yet of a second segment, or of a bookie that was replaced.  A reader that accepts
    the first answer says so (the note of its `lac.read`).  Answers of version 2 have no numbers: if
    one overtakes another (which TCP prevents) or comes twice, the client takes an old answer for
    the new one.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._told: defaultdict[int, dict[int, int]] = defaultdict(dict)
        self._known: defaultdict[int, tuple[int, int]] = defaultdict(lambda: (-1, -1))
        """Ledger -> the highest LastAddConfirmed that must be found, and the entry that has it."""
        self._asked: dict[tuple[int, str], tuple[int, int]] = {}
        self._outside: dict[tuple[int, str], str] = {}
        """Ledger and reader -> a bookie outside the last ensemble that the reader asked."""
        self._misled: dict[str, None] = {}
        self._deleted: set[int] = set()

    @on("message.swapped", "message.copied")
    def out_of_order(self, event: Event) -> None:
        """Note that either end may take an answer for another one: a question that is copied has
        two.
        """
        self._misled[event.node] = self._misled[event.peer] = None

    @on("ledger.deleting", "ledger.deleted")
    def deleted(self, event: Event) -> None:
        """Bookies may drop the ledger from now on; its client may not hear that it is deleted."""
        self._deleted.add(event.ledger)

    @on("add.pushed")
    def pushed(self, event: Event) -> None:
        """Note the LastAddConfirmed that the entry carries."""
        ledger = self.ledgers[event.ledger]
        if ledger.is_writer(event.node):
            self._told[event.ledger][event.entry] = ledger.confirmed

    @on("lac.advanced")
    def confirmed(self, event: Event) -> None:
        """Note that Qa bookies have the entry: at least one of them must be heard.

        A recoverer's entries carry a lower LastAddConfirmed.
        """
        if not self.ledgers[event.ledger].is_writer(event.node):
            return
        told = self._told[event.ledger].get(event.entry, -1)
        self._known[event.ledger] = max(self._known[event.ledger], (told, event.entry))

    @on("read.sent")
    def asked(self, event: Event) -> None:
        """Note what the reader must learn at least."""
        if event.entry < 0:
            asking = event.ledger, event.node
            self._asked.setdefault(asking, self._known[event.ledger])
            ensembles = self.ledgers[event.ledger].segments.ensembles
            if ensembles and event.peer not in ensembles[-1]:
                self._outside[asking] = event.peer

    @on("lac.read")
    def learned(self, event: Event) -> None:
        """Compare what the reader learned with what it must learn."""
        asking = event.ledger, event.node
        told, entry = self._asked.pop(asking, (-1, -1))
        outside = self._outside.pop(asking, "")
        ledger = self.ledgers[event.ledger]
        if entry < 0 or event.note or ledger.deferred_sync or event.node in self.facts.caretakers:
            return
        if event.ledger in self._deleted:
            self.doubt(f"ledger {event.ledger} is deleted, and its bookies may have dropped it")
            return
        if ledger.formatted:
            self.doubt(f"bookies of ledger {event.ledger} were formatted")
            return
        if event.node in self._misled:
            self.doubt(f"answers to {event.node} came out of order")
            return
        if len(ledger.segments.firsts) != 1:
            self.doubt(f"{event.node} may not have known all segments of ledger {event.ledger}")
            return
        if outside:
            self.doubt(f"{event.node} had not heard that {outside} was replaced")
            return
        self.judged += 1
        if event.entry < told:
            self.broke(
                event,
                f"{event.node} took {event.entry} for the LastAddConfirmed of ledger"
                f" {event.ledger}, and entry {entry}, confirmed before, announced {told}",
                self.facts.first("add.pushed", event.ledger, entry),
                self.facts.first("lac.advanced", event.ledger, entry),
            )
