"""The base class of checks. A check is a small state machine that tests one promise.

The first paragraph of a check's docstring is the promise. Methods decorated with `@on(kind)` handle
the events of that kind, in order; `finish` is called after the last event.
"""

from typing import ClassVar

from labkit.system.check.facts import Facts, LedgerFacts
from labkit.system.check.verdict import Outcome, Verdict
from labkit.system.trace.events import Event
from labkit.system.trace.handlers import handlers_of


def end_words(last_entry: int) -> str:
    """Return the end of a closed ledger in words, given its last entry, or -1 if it has none."""
    return f"at entry {last_entry}" if last_entry >= 0 else "without any entry"


def entry_words(entry: int) -> str:
    return "none" if entry < 0 else str(entry)


class Check:
    """Keeps the first violation and the first doubt; a violation outweighs a doubt.

    If there is neither, but the trace never tests the promise, the verdict is unknown.
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
        """Judge what can be decided only at the end of the trace."""

    def broke(self, event: Event, reason: str, *witnesses: Event | None) -> None:
        """Report that this event breaks the promise; the reason refers to the witnesses."""
        if self._break is None:
            seqs = tuple(witness.seq for witness in witnesses if witness is not None)
            self._break = event, reason, seqs

    @property
    def is_broken(self) -> bool:
        return self._break is not None

    def doubt(self, reason: str) -> None:
        """Report why the trace is inconclusive, as a clause without a full stop."""
        self._doubt = self._doubt or reason

    def doubt_missing_creation(self, ledger: LedgerFacts) -> None:
        """Report a doubt, because the trace starts after the ledger was created."""
        self.doubt(f"the trace does not include the creation of ledger {ledger.ledger_id}")

    def verdict(self) -> Verdict:
        name, promise, judged = type(self).__name__, self.promise, self.judged
        if self._break is not None:
            event, reason, seqs = self._break
            why = f"{reason}."
            return Verdict(
                name, promise, Outcome.INVALID, judged, why, event.seq, event.time_us, seqs
            )
        if judged and not self._doubt:
            return Verdict(name, promise, Outcome.VALID, judged)
        reason = self._doubt or "nothing in this trace puts the promise to the test"
        sentence = f"{reason[0].upper()}{reason[1:]}."
        return Verdict(name, promise, Outcome.UNKNOWN, judged, sentence)
