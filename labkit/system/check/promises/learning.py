"""The promise to readers that ask for a ledger's LastAddConfirmed.

In BookKeeper: `client/ReadLastConfirmedOp.java`, `RRQuorumCoverageSet`.
"""

from collections import defaultdict

from labkit.system.check.facts import Facts
from labkit.system.check.promise import Check
from labkit.system.trace.events import Event
from labkit.system.trace.handlers import on


class ReadersLearnWhatIsConfirmed(Check):
    """When a reader asks for LastAddConfirmed, the result is not lower than the LastAddConfirmed
    stored in any entry that had been confirmed before the request.

    Every entry contains the LastAddConfirmed that was current when the writer pushed the entry.

    The check skips readers that accept the first response. Their `lac.read` events have a `detail`.

    The result is unknown if the ledger is deleted, if a bookie was formatted, or if the reader may
    not know about a second segment or a replacement bookie. The result is also unknown if responses
    to the reader were duplicated or reordered. With TCP, this cannot happen. Without TCP, the
    client may mistake an old response for a new one, because responses of protocol version 2
    contain no request number.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._stored_lac: defaultdict[int, dict[int, int]] = defaultdict(dict)
        """For each ledger and entry, the LastAddConfirmed stored in the entry."""
        self._minimum: defaultdict[int, tuple[int, int]] = defaultdict(lambda: (-1, -1))
        """For each ledger, the lowest LastAddConfirmed that readers may still get, and the entry
        that contains it.
        """
        self._expected: dict[tuple[int, str], tuple[int, int]] = {}
        """For each ledger and reader, the minimum at the time of the reader's request."""
        self._outside: dict[tuple[int, str], str] = {}
        """For each ledger and reader, a bookie that the reader asked although the last ensemble
        does not contain it.
        """
        self._out_of_order: set[str] = set()
        """Nodes that may have received duplicate or reordered responses."""

    @on("message.swapped", "message.copied")
    def out_of_order(self, event: Event) -> None:
        # Both ends are affected, because a request that is delivered twice gets two responses.
        self._out_of_order.update((event.node, event.peer))

    @on("add.pushed")
    def pushed(self, event: Event) -> None:
        ledger = self.ledgers[event.ledger]
        if ledger.is_writer(event.node):
            self._stored_lac[event.ledger][event.entry] = ledger.confirmed

    @on("lac.advanced")
    def confirmed(self, event: Event) -> None:
        # Qa bookies have the entry, so one of them responds to every reader. Entries that a
        # recoverer writes contain a lower LastAddConfirmed.
        if not self.ledgers[event.ledger].is_writer(event.node):
            return
        lac = self._stored_lac[event.ledger].get(event.entry, -1)
        self._minimum[event.ledger] = max(self._minimum[event.ledger], (lac, event.entry))

    @on("read.sent")
    def asked(self, event: Event) -> None:
        if event.entry < 0:
            key = event.ledger, event.node
            self._expected.setdefault(key, self._minimum[event.ledger])
            ensembles = self.ledgers[event.ledger].segments.ensembles
            if ensembles and event.peer not in ensembles[-1]:
                self._outside[key] = event.peer

    @on("lac.read")
    def learned(self, event: Event) -> None:
        key = event.ledger, event.node
        lac, entry = self._expected.pop(key, (-1, -1))
        outside = self._outside.pop(key, "")
        ledger = self.ledgers[event.ledger]
        if entry < 0 or event.detail or ledger.deferred_sync:
            return
        if event.node in self.facts.maintenance_nodes:
            return
        if ledger.deleting or ledger.deleted:
            self.report_doubt(f"Bookies may have dropped ledger {event.ledger}, which is deleted")
            return
        if ledger.formatted:
            self.report_doubt(f"Bookies of ledger {event.ledger} were formatted")
            return
        if event.node in self._out_of_order:
            self.report_doubt(f"Responses to {event.node} arrived out of order or twice")
            return
        if len(ledger.segments.firsts) != 1:
            self.report_doubt(
                f"{event.node} may not have known all segments of ledger {event.ledger}"
            )
            return
        if outside:
            self.report_doubt(f"{event.node} did not know that {outside} had been replaced")
            return
        if event.entry >= lac:
            self.report_kept()
        else:
            self.report_broken(
                event,
                f"{event.node} read LastAddConfirmed {event.entry} of ledger {event.ledger},"
                f" but entry {entry}, confirmed earlier, carried {lac}",
                self.first("add.pushed", event.ledger, entry),
                self.first("lac.advanced", event.ledger, entry),
            )
