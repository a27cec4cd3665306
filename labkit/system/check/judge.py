"""Runs all checks on a trace in a single pass."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Protocol

from labkit.system.check.facts import Facts
from labkit.system.check.promise import Check
from labkit.system.check.promises import (
    callers,
    chain,
    deletion,
    deliveries,
    durability,
    fencing,
    health,
    learning,
    marks,
    messages,
    outage,
    reading,
    repair,
    specification,
    unloading,
    writing,
)
from labkit.system.check.verdict import Outcome, Verdict
from labkit.system.trace.answers import Answer
from labkit.system.trace.events import Event, lineage

CHECKS: tuple[type[Check], ...] = (
    durability.AcknowledgedIsDurable,
    durability.EveryCopyIsDurable,
    reading.ReadersAgree,
    reading.NothingBeyondLacIsRead,
    reading.ClosedLedgerNeverChanges,
    fencing.OneWriter,
    writing.WriteSetIsRight,
    writing.AckFollowsSync,
    writing.AckQuorumIsReached,
    writing.LacAdvancesInOrder,
    fencing.FenceIsDurableBeforeTheResponse,
    fencing.FencedBookieRejectsTheWriter,
    deletion.OnlyDeletedLedgersAreCollected,
    deletion.DeletedLedgerTakesNoAdd,
    learning.ReadersLearnWhatIsConfirmed,
    repair.RepairIsComplete,
    outage.BriefAbsenceIsNoLoss,
    outage.SilenceIsNoLoss,
    outage.RunningBookiesStayRegistered,
    chain.MessageIdsGrow,
    messages.AcknowledgedMessagesAreKept,
    messages.MessagesAreStoredOnce,
    messages.ProducersOrderIsKept,
    messages.ReceiptsNameTheirMessages,
    messages.OneOwnerStores,
    health.EveryErrorIsExpected,
    specification.TypeOK,
    specification.NoDivergenceBetweenClientAndMetaData,
    specification.AllCommittedEntriesReachAckQuorum,
    specification.OnlyValidFragments,
    specification.NoDirtyReads,
    chain.AllNonEmptyLedgersInLedgerList,
    chain.EntryOrderMaintained,
    chain.OnlyOneLedgerOpenAtATime,
    specification.LedgerIsClosed,
    callers.AddsReturnWhenConfirmed,
    callers.ReadsReturnWhatWasWritten,
    callers.ClosedLengthIsRight,
    messages.MessagesKeepTheirContent,
    deliveries.OwnersConsumersGetAllInOrder,
    deliveries.DeliveriesKeepTheOrder,
    deliveries.KeysKeepTheirOrder,
    deliveries.NoMessageIsSkipped,
    deliveries.AcknowledgedIsNotDeliveredAgain,
    unloading.UnloadedTopicsAreClosed,
    marks.LostBookiesLedgersAreMarked,
    marks.MarkedLedgersAreRepaired,
    callers.StepsEnd,
)
"""All checks, in the order of their verdicts. A promise early in the list often explains why later
ones were broken.
"""


class HasEvents(Protocol):
    """A trace of a live cluster or of a simulated run. Only traces of simulated runs have
    `answers`.
    """

    @property
    def events(self) -> Sequence[Event]: ...


def check_all(
    trace: HasEvents | Sequence[Event],
    checks: Iterable[type[Check]] = CHECKS,
    *,
    is_complete: bool = False,
) -> list[Verdict]:
    """Check a trace and return one verdict for each promise, in the order of `checks`.

    is_complete: whether the trace contains every event that happened before its end.
    """
    recorded = trace if isinstance(trace, Sequence) else trace.events
    # Sort the events by time, because a live trace contains them in order of arrival.
    events = sorted(recorded, key=attrgetter("time_us"))
    judge = Judge(events, checks, getattr(trace, "answers", ()), is_complete=is_complete)
    for event in events:
        judge.handle(event)
    return [
        explain(each, recorded) if each.outcome is Outcome.INVALID else each
        for each in judge.verdicts()
    ]


class Judge:
    """Passes events to all checks, in order, either while the system is running or afterwards.

    If a promise is broken, its check searches `events` for the events that explain the violation.
    So the list must contain every event that was passed to `handle`, in the same order. `answers`
    are checked after the last event.
    """

    def __init__(
        self,
        events: Sequence[Event],
        checks: Iterable[type[Check]],
        answers: Sequence[Answer] = (),
        *,
        is_complete: bool = False,
    ) -> None:
        facts = Facts(events, answers, is_complete=is_complete)
        self._checks = [check(facts) for check in checks]
        self._is_finished = False
        self._handlers: dict[str, list[Callable[[Event], None]]] = {}
        # Update the facts first, because checks expect the state after the event.
        receivers: list[Facts | Check] = [facts, *self._checks]
        for receiver in receivers:
            for kind, method in receiver.handlers:
                self._handlers.setdefault(kind, []).append(getattr(receiver, method))

    def handle(self, event: Event) -> None:
        for handle in self._handlers.get(event.kind, ()):
            handle(event)

    @property
    def has_found_any(self) -> bool:
        """Whether any promise has been broken so far. Later events cannot change this."""
        return any(check.is_broken for check in self._checks)

    def verdicts(self) -> list[Verdict]:
        """Finish all checks and return their verdicts, without lineages.

        Call this after the last event.
        """
        if not self._is_finished:
            self._is_finished = True
            for check in self._checks:
                check.finish()
        return [check.verdict() for check in self._checks]


def broken(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """Return the verdicts for the broken promises."""
    return [verdict for verdict in verdicts if verdict.outcome is Outcome.INVALID]


def explain(verdict: Verdict, events: Sequence[Event]) -> Verdict:
    """Add the lineage to a verdict: the event that broke the promise, the witnesses, and all their
    causes.
    """
    by_seq = {event.seq: event for event in events}
    seqs = (verdict.seq, *verdict.witnesses)
    shown = {event.seq: event for seq in seqs for event in lineage(by_seq, seq)}
    return replace(verdict, lineage=tuple(shown[seq] for seq in sorted(shown)))
