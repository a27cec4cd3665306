"""A check: one promise, and the small state machine that judges it while events go by.

A check's docstring begins with its promise, and its name is its class's: both are written once.
Methods marked with `@on(kind)` take the events of that kind, in order; `finish` is called after the
last one.
"""

from typing import ClassVar

from labkit.check.facts import Facts, LedgerFacts
from labkit.check.handlers import handlers_of
from labkit.check.verdict import Outcome, Verdict
from labkit.trace.events import Event


class Check:
    """Base of all checks.

    A broken promise outweighs a doubt, and the first of each is kept.  Where neither came up, a
    promise that the trace never put to the test is unknown too.
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
        """Judge what only the whole trace can tell."""

    def broke(self, event: Event, reason: str, *witnesses: Event | None) -> None:
        """The promise broke at this event; the reason also speaks of the witnesses."""
        if self._break is None:
            seen = tuple(witness.seq for witness in witnesses if witness is not None)
            self._break = event, reason, seen

    @property
    def is_broken(self) -> bool:
        """Whether an event has contradicted the promise so far."""
        return self._break is not None

    def doubt(self, reason: str) -> None:
        """The trace does not tell: the reason, without a full stop, says what is missing."""
        self._doubt = self._doubt or reason

    def begins_late(self, ledger: LedgerFacts) -> None:
        """A doubt: what happened to the ledger before the trace began is not known."""
        if not self._doubt:
            self.doubt(f"the trace does not hold the creation of ledger {ledger.ledger_id}")

    def verdict(self) -> Verdict:
        """What has come of it, without the lineage."""
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
