"""Lesson 08: where recovery starts to read, what a bookie's response proves, and whose adds a fence
blocks.
"""

from collections.abc import Callable, Iterator, Sequence

from labkit.course.checking.cases import Arguments, Cases
from labkit.course.checking.exercise import Refused, exercise
from labkit.course.exercises.generated import cluster as generated
from labkit.course.runs.broken_runs import SpaceTimeCounterexample
from labkit.course.runs.cluster_trial import ClusterTrial, client_with, counterexample_at, must_hold
from labkit.course.runs.recovery_runs import (
    damaged_bookie,
    fresh_ensemble,
    nothing_was_written,
    old_writer,
    silent_bookie,
    storms,
    writer_dies,
)
from labkit.course.runs.timeline import showing_counterexamples_in
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


# Where recovery starts to read


def start(reported: list[int], first_of_last_segment: int) -> int:
    """Return the last entry that is certainly confirmed, or -1."""
    return max(*reported, first_of_last_segment - 1, NO_ENTRY_ID)


_SEGMENT = (
    "All entries before the last segment are confirmed. They are on other bookies, so the bookies"
    " of the last segment may not know them, and recovery must not write them to these bookies."
)
_SKIPPED = (
    "Recovery may skip only entries that are certainly confirmed. No bookie reported that this"
    " entry is."
)
_NO_ENTRY = "Return an entry id, which is 0 or greater, or -1 for no entry."
_AGAIN = (
    "One bookie that reports a confirmed entry is enough: rereading confirmed entries takes time"
    " and finds nothing new."
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
        "Each number in `reported` was sent by the writer in some entry and means that everything"
        " up to this number is confirmed. Can a higher number make a lower one wrong?",
        "`reported` may be empty, if no bookie has any entry. Return -1 if no entry is certainly"
        " confirmed.",
        "The last segment started at the LastAddConfirmed + 1 of its ensemble change. So the entry"
        " before it is confirmed, even if every bookie reports less. Return the highest of all"
        " these numbers.",
    ),
    like=start,
    cases=Cases(
        generated.reports,
        start,
        _start_rule_of,
        preferred_rules=(_NO_ENTRY, _SKIPPED, _SEGMENT, _AGAIN),
    ),
)
def starts(learner: Start) -> str:
    """Recovery starts to read after the highest entry that is certainly confirmed."""

    def judged(reported: list[int], first: int) -> int:
        answer = learner(reported, first)
        if not NO_ENTRY_ID <= answer < _MAX_ENTRY_ID:
            raise Refused(_start_rule_of((reported, first), answer))
        return answer

    trial = ClusterTrial(judged)

    class Recovery(LedgerRecovery):
        async def fence(self) -> tuple[int, int]:
            entries = await self.bookie_reads.last_entries(self.metadata, fence_key=self.master_key)
            reported = [entry.last_add_confirmed for entry in entries]
            begin = trial(reported, self.metadata.segments[-1].first_entry_id)
            self.recorder.record("recovery.covered", self.ledger_id, begin)
            return begin, max((entry.length for entry in entries), default=0)

    def run_one(scenario: Scenario) -> Trace:
        return trial.run(scenario, client=client_with(recovery_class=Recovery))

    with showing_counterexamples_in(SpaceTimeCounterexample):
        traces = must_hold(_for_start(), run_one, {})
    return f"In {len(traces)} runs, every recovery started to read at the right entry."


_MAX_ENTRY_ID = 1000
"""A limit that is larger than any entry id in these runs, so that no run reads too far."""


def _for_start() -> Iterator[Scenario]:
    yield nothing_was_written()
    yield writer_dies()
    yield fresh_ensemble()
    yield silent_bookie()
    yield from storms()


# What a response proves

ERRORS = {
    "BKNoSuchEntryException": True,
    "BKNoSuchLedgerExistsException": True,
    "BKTimeoutException": False,
    "BKBookieHandleNotAvailableException": False,
    "BKReadException": False,
    "BKDigestMatchException": False,
}
"""The errors that a client may receive, and whether each error proves that the bookie lacks the
entry.
"""


def denies(error: str) -> bool:
    return ERRORS.get(error, False)


_NO_PROOF = (
    "Only a bookie that looked and did not find the entry proves anything. A bookie that does not"
    " respond or cannot read the entry may have acknowledged it, so recovery must fail and be"
    " retried later."
)
_NO_END = (
    "A bookie that looked and did not find the entry has denied it. If this does not count as a"
    " denial, recovery never finds the end of the ledger and cannot close it."
)


@exercise(
    "recovery.denies",
    hints=(
        "For each name, ask whether it could come from a bookie that acknowledged the entry.",
        "A bookie that is slow, down, or unable to read a damaged file may have the entry. A bookie"
        " that responds that it has no such entry or no such ledger has looked.",
        'Two of the errors are proof. Both start with "BKNoSuch".',
    ),
    like=denies,
    cases=Cases(generated.error, denies, lambda _, said: _NO_PROOF if said else _NO_END),
)
def proofs(learner: Denies) -> str:
    """Only "no such entry" and "no such ledger" prove that a bookie does not have the entry."""
    trial = ClusterTrial(learner)

    class Recovery(LedgerRecovery):
        def judge(self, answers: Sequence[Entry | BKException]) -> Verdict:
            return super().judge([_as_judged(trial, answer) for answer in answers])

    def run_one(scenario: Scenario) -> Trace:
        return trial.run(scenario, client=client_with(recovery_class=Recovery))

    rules = {"AcknowledgedIsDurable": _NO_PROOF, "LedgerIsClosed": _NO_END}
    with showing_counterexamples_in(SpaceTimeCounterexample):
        traces = must_hold(_for_proofs(), run_one, rules)
        _must_recover(traces[0], _NO_END)
    return (
        f"In {len(traces)} runs, no entry was cut off, and every ledger was closed if that was"
        " possible."
    )


def _as_judged(trial: ClusterTrial, answer: Entry | BKException) -> Entry | BKException:
    if isinstance(answer, Entry):
        return answer
    is_denied = trial(type(answer).__name__)
    return BKNoSuchEntryException("denied") if is_denied else BKReadException("not denied")


def _for_proofs() -> Iterator[Scenario]:
    yield writer_dies()
    yield silent_bookie()
    yield damaged_bookie()
    yield from storms()


def _must_recover(trace: Trace, rule: str) -> None:
    """Raise `Refused` if `r` did not recover the ledger even though enough bookies responded."""
    if any(event.kind == "recovery.ended" and event.node == "r" for event in trace.events):
        return
    failed = next(
        (e for e in trace.events if e.kind in ("recovery.failed", "step.ended") and e.node == "r"),
        trace.events[-1],
    )
    raise Refused(rule, counterexample_at(trace, failed.seq, "r could not recover the ledger."))


# Whose adds a fence blocks


def refuses(is_fenced: bool, by_recovery: bool) -> bool:
    return is_fenced and not by_recovery


_LET_IN = (
    "After the fence, recovery decides where the ledger ends. If the bookie accepts an add of the"
    " old writer now, the entry may be acknowledged although the ledger ends before it."
)
_KEPT_OUT = (
    "Recovery writes entries back to the bookies that it has fenced. If the bookie rejects these"
    " adds, recovery cannot restore all copies and fails."
)
_NOBODY = "A bookie must accept every add to a ledger that is not fenced."


def _rule_of_the_fence(is_fenced: bool, by_recovery: bool) -> str:
    if not is_fenced:
        return _NOBODY
    return _KEPT_OUT if by_recovery else _LET_IN


@exercise(
    "recovery.refuses",
    hints=(
        "There are four cases. In two of them, the ledger is not fenced. What should a bookie"
        " reject then?",
        "Who sends adds to a fenced ledger? The old writer, which does not know about the fence"
        " yet. Who else?",
        "Reject exactly one of the four cases: the ledger is fenced, and the add is not sent by"
        " recovery.",
    ),
    like=refuses,
    cases=Cases(generated.add_to_a_ledger, refuses, lambda case, _: _rule_of_the_fence(*case)),
)
def refusals(learner: Refuses) -> str:
    """A fence blocks the adds of the writer, but not the adds of recovery."""
    trial = ClusterTrial(learner)

    class Store(LedgerStore):
        def ledger_for_adds(
            self, ledger_id: int, master_key: bytes, *, recovery: bool = False
        ) -> LedgerDescriptor:
            ledger = self.ledgers.get(ledger_id)
            if trial(ledger is not None and ledger.fenced, recovery):
                raise LedgerFencedException(f"ledger {ledger_id} is fenced")
            return super().ledger_for_adds(ledger_id, master_key, recovery=True)

    def run_one(scenario: Scenario) -> Trace:
        return trial.run(scenario, store=Store)

    with showing_counterexamples_in(SpaceTimeCounterexample):
        rules = {**dict.fromkeys(_OF_THE_FENCE, _LET_IN), "LedgerIsClosed": _KEPT_OUT}
        traces = must_hold(_for_refusals(), run_one, rules)
        confirmed = any(e.kind == "lac.advanced" and e.node == "w" for e in traces[0].events)
        _must_recover(traces[0], _KEPT_OUT if confirmed else _NOBODY)
    return f"Of {trial.call_count} adds in {len(traces)} runs, only the old writer's were rejected."


_OF_THE_FENCE = ("AcknowledgedIsDurable", "OneWriter", "FencedBookieRefusesTheWriter")


def _for_refusals() -> Iterator[Scenario]:
    yield writer_dies()
    yield old_writer()
    yield from storms()
