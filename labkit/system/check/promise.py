"""A check: one promise, and the small state machine that judges it while events go by.

A check's docstring begins with its promise, and its class name is its name: both are written once.
Methods marked with `@on(kind)` take the events of that kind, in order; `finish` is called after the
last one.
"""

from typing import ClassVar

from labkit.system.check.facts import Facts, LedgerFacts
from labkit.system.check.handlers import handlers_of
from labkit.system.check.verdict import Outcome, Verdict
from labkit.system.trace.events import Event


class Check:
    """Base of all checks.

    A broken promise outweighs a doubt, and the first of each is kept.  Without either, a promise
    that the trace never put to the test is unknown, too.
    """

    promise: ClassVar[str]
    handlers: ClassVar[tuple[tuple[str, str], ...]]

    def __init_subclass__(cls) -> None:
        cls.promise = " ".join((cls.__doc__ or "").partition("\n\n")[0].split())
        cls.handlers = handlers_of(cls)

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.ledgers = facts.ledgers
        self.judged = 0
        self._break: tuple[Event, str, tuple[int, ...]] | None = None
        self._doubt = ""

    def finish(self) -> None:
        """Judge what only the whole trace shows."""

    def broke(self, event: Event, reason: str, *witnesses: Event | None) -> None:
        """Note that the promise broke at this event; the reason also names the witnesses."""
        if self._break is None:
            seen = tuple(witness.seq for witness in witnesses if witness is not None)
            self._break = event, reason, seen

    @property
    def is_broken(self) -> bool:
        """Whether an event has contradicted the promise so far."""
        return self._break is not None

    def doubt(self, reason: str) -> None:
        """Note that the trace lacks something; the reason, without a full stop, says what."""
        self._doubt = self._doubt or reason

    def begins_late(self, ledger: LedgerFacts) -> None:
        """Note a doubt: the trace begins after the ledger was created."""
        if not self._doubt:
            self.doubt(f"the trace does not hold the creation of ledger {ledger.ledger_id}")

    def verdict(self) -> Verdict:
        """The verdict so far, without the lineage."""
        name, promise, judged = type(self).__name__, self.promise, self.judged
        if self._break is not None:
            event, reason, seen = self._break
            sentence = f"At {event.time_us / 1000:.3f} ms, event {event.seq}: {reason}."
            return Verdict(name, promise, Outcome.INVALID, judged, sentence, event.seq, seen)
        if judged and not self._doubt:
            return Verdict(name, promise, Outcome.VALID, judged)
        reason = self._doubt or "nothing in this trace puts it to the test"
        sentence = f"{reason[0].upper()}{reason[1:]}."
        return Verdict(name, promise, Outcome.UNKNOWN, judged, sentence)
