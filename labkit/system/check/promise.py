"""The base class of checks. A check is a small state machine that tests one promise.

The first paragraph of a check's docstring is the promise. Methods decorated with `@on(kind)` handle
the events of that kind, in order; `finish` is called after the last event.
"""

from collections.abc import Callable
from functools import partial
from typing import ClassVar, TypeAlias

from labkit.system.check.facts import Facts, LedgerFacts
from labkit.system.check.verdict import Outcome, Verdict
from labkit.system.trace.answers import Answer
from labkit.system.trace.events import Event
from labkit.system.trace.handlers import handlers_of

Witness: TypeAlias = Event | Callable[[], Event | None] | None
"""An event to which a reason refers, or a function that finds it."""


def end_words(last_entry: int) -> str:
    """Describe the end of a closed ledger with the last entry `last_entry` (-1 if the ledger is
    empty).
    """
    return f"at entry {last_entry}" if last_entry >= 0 else "without any entry"


def entry_words(entry: int) -> str:
    return "none" if entry < 0 else str(entry)


class Check:
    """Base class of checks. It keeps the first violation and the first doubt; a violation takes
    precedence over a doubt.

    If a check has found neither, but the trace never tests the promise, the verdict is unknown as
    well. To report the result of each test, a check calls one of the `report_...` methods.
    """

    promise: ClassVar[str]
    handlers: ClassVar[tuple[tuple[str, str], ...]]

    def __init_subclass__(cls) -> None:
        cls.promise = " ".join((cls.__doc__ or "").partition("\n\n")[0].split())
        cls.handlers = handlers_of(cls)

    def __init__(self, facts: Facts) -> None:
        self.facts = facts
        self.ledgers = facts.ledgers
        self._tested_count = 0
        self._violation: tuple[Event, str, tuple[int, ...]] | None = None
        self._doubt = ""

    def finish(self) -> None:
        """Report the results that can be determined only after the last event."""

    def report_kept(self) -> None:
        """Report that the trace has tested the promise and that the promise was kept."""
        self._tested_count += 1

    def report_broken(self, at: Event | Answer, reason: str, *witnesses: Witness) -> None:
        """Report that this event or answer breaks the promise. The reason refers to the witnesses.

        An answer is shown as the last event before it.
        """
        self._tested_count += 1
        if self._violation is None:
            event = at if isinstance(at, Event) else self.facts.before(at)
            found = (each() if callable(each) else each for each in witnesses)
            seqs = tuple(witness.seq for witness in found if witness is not None)
            self._violation = event, reason, seqs

    def report_doubt(self, reason: str) -> None:
        """Report why the trace is inconclusive, as a sentence without a full stop."""
        self._doubt = self._doubt or reason

    def report_doubt_if_formatted(self, ledger: LedgerFacts, entry: int) -> bool:
        """Report a doubt and return True if formatting a bookie may have lost the entry."""
        if is_formatted := ledger.may_be_lost_by_formatting(entry):
            self.report_doubt(
                f"Bookies that had entry {entry} of ledger {ledger.ledger_id} were formatted"
            )
        return is_formatted

    def report_missing_creation(self, ledger: LedgerFacts) -> None:
        """Report a doubt because the trace starts after the creation of the ledger."""
        self.report_doubt(f"The trace does not include the creation of ledger {ledger.ledger_id}")

    def first(self, kind: str, ledger: int, entry: int, node: str = "") -> Witness:
        """Return the first matching event as a witness. The search is deferred until the event is
        needed, because it reads the whole trace.
        """
        return partial(self.facts.first, kind, ledger, entry, node)

    @property
    def is_broken(self) -> bool:
        return self._violation is not None

    def verdict(self) -> Verdict:
        name, promise, count = type(self).__name__, self.promise, self._tested_count
        if self._violation is not None:
            event, reason, seqs = self._violation
            why = f"{reason}."
            return Verdict(
                name, promise, Outcome.INVALID, count, why, event.seq, event.time_us, seqs
            )
        if count and not self._doubt:
            return Verdict(name, promise, Outcome.VALID, count)
        reason = self._doubt or "Nothing in this trace puts the promise to the test"
        return Verdict(name, promise, Outcome.UNKNOWN, count, f"{reason}.")
