"""Lesson 08: from where recovery reads, what an answer proves, and whom a fence keeps out."""

from collections.abc import Callable, Iterator, Sequence

from labkit.course.checking.cases import Arguments, Cases
from labkit.course.checking.exercise import Refused, exercise
from labkit.course.exercises.generated import cluster as drawn
from labkit.course.runs.broken_runs import SpaceTimeCounterexample
from labkit.course.runs.cluster_trial import Guest, client_with, found, must_hold
from labkit.course.runs.recovery_runs import (
    damaged_bookie,
    fresh_ensemble,
    nothing_was_written,
    old_writer,
    silent_bookie,
    storms,
    writer_dies,
)
from labkit.course.runs.timeline import shown_as
from labkit.system.client.quorum import Verdict
from labkit.system.client.recovery import LedgerRecovery
from labkit.system.model.entry import NO_ENTRY_ID, Entry
from labkit.system.model.errors import (
    BKException,
    BKNoSuchEntryException,
    BKReadException,
    LedgerFencedException,
)
from labkit.system.storage.index.ledger_descriptor import LedgerDescriptor
from labkit.system.storage.store import LedgerStore
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.trace import Trace

Start = Callable[[list[int], int], int]
Denies = Callable[[str], bool]
Refuses = Callable[[bool, bool], bool]


# From where recovery reads


def start(reported: list[int], first_of_last_segment: int) -> int:
    """The last entry that is certainly confirmed."""
    return max(*reported, first_of_last_segment - 1, NO_ENTRY_ID)


_SEGMENT = (
    "The last segment began behind confirmed entries. Its bookies may know nothing of them: they"
    " lie on other bookies, and must not be written again onto these."
)
_SKIPPED = (
    "Recovery may skip only what is certainly confirmed. No bookie reported that this entry exists."
)
_NO_ENTRY = "An entry id is 0 or more, and -1 stands for no entry at all."
_AGAIN = (
    "One bookie that knows of a confirmed entry is enough: reading confirmed entries again costs"
    " time and finds nothing."
)


def _start_rule_of(case: Arguments, answer: int) -> str:
    if answer < NO_ENTRY_ID:
        return _NO_ENTRY
    if answer > start(*case):
        return _SKIPPED
    return _SEGMENT if answer < case[1] - 1 else _AGAIN


@exercise(
    "recovery.start",
    hints=(
        "Each number in `reported` is a promise of the writer, sent along with some entry:"
        " everything up to here is confirmed. Can a higher number make a lower one wrong?",
        "`reported` may be empty: then the bookies answered that they have no entry. -1 stands for"
        " no entry at all.",
        "The last segment begins at LastAddConfirmed + 1 of the moment of its ensemble change. So"
        " the entry before it is confirmed, even if every bookie reports less. The highest of all"
        " these numbers counts.",
    ),
    like=start,
    cases=Cases(
        drawn.reports, start, _start_rule_of, of_runs=(_NO_ENTRY, _SKIPPED, _SEGMENT, _AGAIN)
    ),
)
def starts(learner: Start) -> str:
    """Recovery starts to read after the highest entry that is certainly confirmed."""

    def judged(reported: list[int], first: int) -> int:
        answer = learner(reported, first)
        if not NO_ENTRY_ID <= answer < _FAR:
            raise Refused(_start_rule_of((reported, first), answer))
        return answer

    guest = Guest(judged)

    class Recovery(LedgerRecovery):
        """Asks the learner from where to read."""

        async def fence(self) -> tuple[int, int]:
            entries = await self.reads.last_entries(self.metadata, fence_key=self.master_key)
            reported = [entry.last_add_confirmed for entry in entries]
            begin = guest(reported, self.metadata.segments[-1].first_entry_id)
            self.recorder.record("recovery.covered", self.ledger_id, begin)
            return begin, max((entry.length for entry in entries), default=0)

    def run_one(scenario: Scenario) -> Trace:
        return guest.run(scenario, client=client_with(recovery_class=Recovery))

    with shown_as(SpaceTimeCounterexample):
        traces = must_hold(_for_start(), run_one, {})
    return f"Each recovery of {len(traces)} runs began where it should."


_FAR = 1000
"""No run here has that many entries, and none must read them all."""


def _for_start() -> Iterator[Scenario]:
    yield nothing_was_written()
    yield writer_dies()
    yield fresh_ensemble()
    yield silent_bookie()
    yield from storms()


# What an answer proves

ERRORS = {
    "BKNoSuchEntryException": True,
    "BKNoSuchLedgerExistsException": True,
    "BKTimeoutException": False,
    "BKBookieHandleNotAvailableException": False,
    "BKReadException": False,
    "BKDigestMatchException": False,
}
"""What a bookie may answer instead of the entry, and whether that proves that it has none."""


def denies(error: str) -> bool:
    """Whether this answer proves that the bookie does not have the entry."""
    return ERRORS.get(error, False)


_NO_PROOF = (
    "Only a bookie that looked and found nothing proves something. One that is silent, or cannot"
    " read what it has, may have acknowledged the entry: recovery must then fail, and try again"
    " later."
)
_NO_END = (
    "A bookie that looked and found nothing has answered. If that counts for nothing, recovery"
    " finds no end and the ledger stays open for ever."
)


@exercise(
    "recovery.denies",
    hints=(
        "For each name ask: could a bookie that acknowledged the entry answer like this?",
        "A bookie that is slow, down, or cannot read a damaged file may have the entry. One that"
        " says there is no such entry, or that it never heard of the ledger, has looked.",
        'Two names are a proof. Both begin with "BKNoSuch".',
    ),
    like=denies,
    cases=Cases(drawn.error, denies, lambda _, said: _NO_PROOF if said else _NO_END),
)
def proofs(learner: Denies) -> str:
    """Only "no such entry" proves that a bookie does not have it."""
    guest = Guest(learner)

    class Recovery(LedgerRecovery):
        """Asks the learner what an error means."""

        def judge(self, answers: Sequence[Entry | BKException]) -> Verdict:
            return super().judge([_as_told(guest, answer) for answer in answers])

    def run_one(scenario: Scenario) -> Trace:
        return guest.run(scenario, client=client_with(recovery_class=Recovery))

    rules = {"AcknowledgedIsDurable": _NO_PROOF, "LedgerIsClosed": _NO_END}
    with shown_as(SpaceTimeCounterexample):
        traces = must_hold(_for_proofs(), run_one, rules)
        _must_recover(traces[0], _NO_END)
    return f"No entry was cut off in {len(traces)} runs, and every ledger that could be was closed."


def _as_told(guest: Guest, answer: Entry | BKException) -> Entry | BKException:
    if isinstance(answer, Entry):
        return answer
    is_denied = guest(type(answer).__name__)
    return BKNoSuchEntryException("denied") if is_denied else BKReadException("not denied")


def _for_proofs() -> Iterator[Scenario]:
    yield writer_dies()
    yield silent_bookie()
    yield damaged_bookie()
    yield from storms()


def _must_recover(trace: Trace, rule: str) -> None:
    """In a run in which enough bookies answer the ledger must be closed by who opened it."""
    if any(event.kind == "recovery.ended" and event.node == "r" for event in trace.events):
        return
    failed = next(
        (e for e in trace.events if e.kind in ("recovery.failed", "step.ended") and e.node == "r"),
        trace.events[-1],
    )
    raise Refused(rule, found(trace, failed.seq, "r could not recover the ledger."))


# Whom a fence keeps out


def refuses(is_fenced: bool, by_recovery: bool) -> bool:
    """Whether a bookie refuses an add to a ledger."""
    return is_fenced and not by_recovery


_LET_IN = (
    "Behind the fence the ledger's end is being fixed. An add of the old writer that is taken now"
    " may be acknowledged, and the ledger end before it."
)
_KEPT_OUT = (
    "Recovery itself writes entries back behind the fence that it set: refused, it cannot bring"
    " them to their full number of copies, and fails."
)
_NOBODY = "Without a fence the bookie takes every add."


def _rule_of_the_fence(is_fenced: bool, by_recovery: bool) -> str:
    if not is_fenced:
        return _NOBODY
    return _KEPT_OUT if by_recovery else _LET_IN


@exercise(
    "recovery.refuses",
    hints=(
        "There are four cases. Two of them are about a ledger that is not fenced: what should"
        " a bookie refuse there?",
        "Who sends adds to a fenced ledger? The old writer, which does not know yet. And who else?",
        "Refuse exactly one of the four: fenced, and not sent by recovery.",
    ),
    like=refuses,
    cases=Cases(drawn.add_to_a_ledger, refuses, lambda case, _: _rule_of_the_fence(*case)),
)
def refusals(learner: Refuses) -> str:
    """A fence keeps out the writer, and no other client."""
    guest = Guest(learner)

    class Store(LedgerStore):
        """Asks the learner whether to refuse an add."""

        def ledger_for_adds(
            self, ledger_id: int, master_key: bytes, *, recovery: bool = False
        ) -> LedgerDescriptor:
            ledger = self.ledgers.get(ledger_id)
            if guest(ledger is not None and ledger.fenced, recovery):
                raise LedgerFencedException(f"ledger {ledger_id} is fenced")
            return super().ledger_for_adds(ledger_id, master_key, recovery=True)

    def run_one(scenario: Scenario) -> Trace:
        return guest.run(scenario, store=Store)

    with shown_as(SpaceTimeCounterexample):
        rules = {**dict.fromkeys(_OF_THE_FENCE, _LET_IN), "LedgerIsClosed": _KEPT_OUT}
        traces = must_hold(_for_refusals(), run_one, rules)
        confirmed = any(e.kind == "lac.advanced" and e.node == "w" for e in traces[0].events)
        _must_recover(traces[0], _KEPT_OUT if confirmed else _NOBODY)
    return f"{guest.call_count} adds in {len(traces)} runs; only the old writer's were refused."


_OF_THE_FENCE = ("AcknowledgedIsDurable", "OneWriter", "FencedBookieRefusesTheWriter")


def _for_refusals() -> Iterator[Scenario]:
    yield writer_dies()
    yield old_writer()
    yield from storms()
