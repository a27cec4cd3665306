"""The promise to bookies that restart: a short absence costs no copying.

In BookKeeper: `replication/Auditor.java` (`lostBookieRecoveryDelay`).
"""

from labkit.system.check.facts import Facts
from labkit.system.check.handlers import on
from labkit.system.check.promise import Check
from labkit.system.trace.events import Event

_MISSED_US = 1000
"""Clocks of a live cluster agree to a millisecond."""
_NEWS_US = 200_000
"""How long the list of registered bookies may take to arrive."""


class BriefAbsenceIsNoLoss(Check):
    """A bookie that is away for less than the lost-bookie delay is not taken for lost.

    When this breaks nothing is lost, but all ledgers of the bookie are copied in vain.  Judged for
    a bookie that is away alone, as the auditor does not wait when two are, and not when the delay
    was written in the meantime: that asks for an audit.  The absence counts from the bookie's
    death, pause or lost session, whichever comes first after its last registration, so it may count
    as longer than it is.  A bookie that registers while the auditor decides is not judged, and a
    registration that ends before the auditor may have heard of it ends no absence.
    """

    def __init__(self, facts: Facts) -> None:
        super().__init__(facts)
        self._delays: dict[str, tuple[float, Event]] = {}
        self._troubled: dict[str, Event] = {}
        self._back: dict[str, Event] = {}
        self._before: dict[str, Event | None] = {}
        """Since when each was away before it came back."""
        self._skewed: dict[str, Event] = {}

    @on("auditor.delay")
    def delay_read(self, event: Event) -> None:
        """Note the new lost-bookie delay, in seconds, at the start of `note`."""
        self._delays[event.node] = float(event.note.partition(" ")[0]), event

    @on("node.killed", "node.paused", "session.lost")
    def troubled(self, event: Event) -> None:
        """Note when the bookie's absence may have begun."""
        back, before = self._back.get(event.node), self._before.get(event.node)
        if back is not None and before is not None and event.time_us - back.time_us < _NEWS_US:
            event = before
        self._troubled.setdefault(event.node, event)

    @on("bookie.registered")
    def registered(self, event: Event) -> None:
        """End the bookie's absence."""
        self._before[event.node] = self._troubled.pop(event.node, None)
        self._back[event.node] = event

    @on("clock.skewed")
    def skewed(self, event: Event) -> None:
        """Ignore a node whose clock does not agree with the trace's."""
        self._skewed[event.node] = event

    @on("bookie.lost")
    def lost(self, event: Event) -> None:
        """Compare the bookie's absence with the delay."""
        bookie, auditor = event.peer, event.node
        gone, back = self._troubled.get(bookie), self._back.get(bookie)
        if auditor not in self._delays or back is None:
            self.doubt(f"the trace does not hold since when {bookie} is away, or may be")
            return
        if auditor in self._skewed:
            self.doubt(f"the clock of {auditor} was wrong")
            return
        if gone is None and event.time_us - back.time_us < _NEWS_US:
            self.doubt(f"{bookie} came back at this moment: {auditor} may not have heard of it")
            return
        delay_s, read = self._delays[auditor]
        since = gone or back
        if read.seq > since.seq or self._is_another_away(bookie, since):
            return
        away_us = event.time_us - since.time_us
        self.judged += 1
        if away_us + _MISSED_US < delay_s * 1e6:
            self.broke(
                event,
                f"{auditor} took {bookie} for lost after at most {away_us / 1e6:.3g} s,"
                f" and bookies have {delay_s:g} s to come back",
                since,
                read,
            )

    def _is_another_away(self, bookie: str, since: Event) -> bool:
        """Or was, for a part of the time."""
        others = {**self._troubled, **{n: e for n, e in self._back.items() if e.seq > since.seq}}
        return any(name != bookie and name in self._back for name in others)
