"""All checks over one trace, in one pass."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Protocol, runtime_checkable

from labkit.system.check.facts import Facts
from labkit.system.check.messages import (
    AcknowledgedMessagesAreKept,
    MessagesAreStoredOnce,
    MessagesKeepTheirContent,
    OneOwnerStores,
    ProducersOrderIsKept,
    ReceiptsNameTheirMessages,
)
from labkit.system.check.promise import Check
from labkit.system.check.promises.absence import BriefAbsenceIsNoLoss
from labkit.system.check.promises.callers import (
    AddsAreAnsweredWhenConfirmed,
    ClosedLengthIsRight,
    ReadsReturnWhatWasWritten,
    StepsEnd,
)
from labkit.system.check.promises.chain import (
    AllNonEmptyLedgersInLedgerList,
    EntryOrderMaintained,
    MessageIdsGrow,
    OnlyOneLedgerOpenAtATime,
)
from labkit.system.check.promises.copies import EveryCopyIsDurable
from labkit.system.check.promises.deletion import (
    DeletedLedgerTakesNoAdd,
    OnlyDeletedLedgersAreCollected,
)
from labkit.system.check.promises.deliveries import (
    AcknowledgedIsNotDeliveredAgain,
    DeliveriesKeepTheOrder,
    KeysKeepTheirOrder,
    NoMessageIsSkipped,
    OwnersConsumersGetAllInOrder,
)
from labkit.system.check.promises.durability import AcknowledgedIsDurable
from labkit.system.check.promises.fencing import (
    FencedBookieRefusesTheWriter,
    FenceIsDurableBeforeItsAnswer,
    OneWriter,
)
from labkit.system.check.promises.health import EveryErrorIsExpected
from labkit.system.check.promises.learning import ReadersLearnWhatIsConfirmed
from labkit.system.check.promises.marks import LostBookiesLedgersAreMarked, MarkedLedgersAreRepaired
from labkit.system.check.promises.outage import RunningBookiesStayRegistered, SilenceIsNoLoss
from labkit.system.check.promises.reading import (
    ClosedLedgerNeverChanges,
    NothingBeyondLacIsRead,
    ReadersAgree,
)
from labkit.system.check.promises.repair import RepairIsComplete
from labkit.system.check.promises.specification import (
    AllAckedEntriesAreReadable,
    AllCommittedEntriesReachAckQuorum,
    NoDirtyReads,
    NoDivergenceBetweenClientAndMetaData,
    NoOutOfOrderEntries,
    OnlyValidFragments,
    TypeOK,
)
from labkit.system.check.promises.specification_end import (
    AllAckedValuesAreReadable,
    AllCommittedIdsAreReadable,
    LedgerIsClosed,
    NoLogDivergence,
)
from labkit.system.check.promises.unloading import UnloadedTopicsAreClosed
from labkit.system.check.promises.writing import (
    AckFollowsSync,
    AckQuorumIsReached,
    LacAdvancesInOrder,
    WriteSetIsRight,
)
from labkit.system.check.verdict import Outcome, Verdict
from labkit.system.trace.answers import Answer
from labkit.system.trace.events import Event

CHECKS: tuple[type[Check], ...] = (
    AcknowledgedIsDurable,
    EveryCopyIsDurable,
    ReadersAgree,
    NothingBeyondLacIsRead,
    ClosedLedgerNeverChanges,
    OneWriter,
    WriteSetIsRight,
    AckFollowsSync,
    AckQuorumIsReached,
    LacAdvancesInOrder,
    FenceIsDurableBeforeItsAnswer,
    FencedBookieRefusesTheWriter,
    OnlyDeletedLedgersAreCollected,
    DeletedLedgerTakesNoAdd,
    ReadersLearnWhatIsConfirmed,
    RepairIsComplete,
    BriefAbsenceIsNoLoss,
    SilenceIsNoLoss,
    RunningBookiesStayRegistered,
    MessageIdsGrow,
    AcknowledgedMessagesAreKept,
    MessagesAreStoredOnce,
    ProducersOrderIsKept,
    ReceiptsNameTheirMessages,
    OneOwnerStores,
    EveryErrorIsExpected,
    TypeOK,
    NoDivergenceBetweenClientAndMetaData,
    AllAckedEntriesAreReadable,
    AllCommittedEntriesReachAckQuorum,
    NoOutOfOrderEntries,
    OnlyValidFragments,
    NoDirtyReads,
    AllCommittedIdsAreReadable,
    AllAckedValuesAreReadable,
    NoLogDivergence,
    AllNonEmptyLedgersInLedgerList,
    EntryOrderMaintained,
    OnlyOneLedgerOpenAtATime,
    LedgerIsClosed,
    AddsAreAnsweredWhenConfirmed,
    ReadsReturnWhatWasWritten,
    ClosedLengthIsRight,
    MessagesKeepTheirContent,
    OwnersConsumersGetAllInOrder,
    DeliveriesKeepTheOrder,
    KeysKeepTheirOrder,
    NoMessageIsSkipped,
    AcknowledgedIsNotDeliveredAgain,
    UnloadedTopicsAreClosed,
    LostBookiesLedgersAreMarked,
    MarkedLedgersAreRepaired,
    StepsEnd,
)
"""The promises of the system, then the specification's invariants, then the promises to callers and
about marks, which often break only since one of the others does.
"""


class HasEvents(Protocol):
    """A trace of a live cluster or of a simulated run."""

    @property
    def events(self) -> Sequence[Event]:
        """In the order of their `seq`."""


@runtime_checkable
class HasAnswers(Protocol):
    """A trace of a simulated run."""

    @property
    def answers(self) -> Sequence[Answer]:
        """What the workload's calls returned, in order."""


def check_all(
    trace: HasEvents | Sequence[Event], checks: Iterable[type[Check]] = CHECKS
) -> list[Verdict]:
    """Judge a trace: one verdict for each promise, in the order of `checks`.

    Events are judged in the order of their times: a live trace numbers late rows after others.
    """
    recorded = trace if isinstance(trace, Sequence) else trace.events
    events = sorted(recorded, key=attrgetter("time_us"))
    judge = Judge(events, checks, trace.answers if isinstance(trace, HasAnswers) else ())
    for event in events:
        judge.take(event)
    return [
        explain(each, recorded) if each.outcome is Outcome.INVALID else each
        for each in judge.verdicts()
    ]


class Judge:
    """Shows events to checks, in order, while they happen or afterwards.

    `events` are all events shown so far, in which checks look for witnesses; `answers` are judged
    after the last event.
    """

    def __init__(
        self,
        events: Sequence[Event],
        checks: Iterable[type[Check]],
        answers: Sequence[Answer] = (),
    ) -> None:
        facts = Facts(events, answers)
        self._checks = [check(facts) for check in checks]
        self._takers: dict[str, list[Callable[[Event], None]]] = {}
        # Facts come first: a check reads them as they are after the event.
        parts: list[Facts | Check] = [facts, *self._checks]
        for part in parts:
            for kind, method in part.handlers:
                self._takers.setdefault(kind, []).append(getattr(part, method))

    def take(self, event: Event) -> None:
        """Show the next event to all checks."""
        for take in self._takers.get(event.kind, ()):
            take(event)

    @property
    def has_found_any(self) -> bool:
        """Whether a promise is broken already: later events cannot change that."""
        return any(check.is_broken for check in self._checks)

    def verdicts(self) -> list[Verdict]:
        """The verdicts after the last event, without lineages."""
        for check in self._checks:
            check.finish()
        return [check.verdict() for check in self._checks]


def broken(verdicts: Iterable[Verdict]) -> list[Verdict]:
    """The verdicts whose promise is broken."""
    return [verdict for verdict in verdicts if verdict.outcome is Outcome.INVALID]


def explain(verdict: Verdict, events: Sequence[Event]) -> Verdict:
    """The same verdict with its lineage: the event that broke the promise, witnesses, causes."""
    by_seq = {event.seq: event for event in events}
    wanted: dict[int, Event] = {}
    for seq in (verdict.seq, *verdict.witnesses):
        while seq in by_seq and seq not in wanted:
            wanted[seq] = by_seq[seq]
            seq = by_seq[seq].cause  # noqa: PLW2901 - the walk from an event to its causes
    return replace(verdict, lineage=tuple(wanted[seq] for seq in sorted(wanted)))
