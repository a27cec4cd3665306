"""The exercises of lesson 09: when a bookie counts as lost, which copies are missing, and the order
of a repair's steps.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from labkit.course.checking.cases import Arguments, Cases, in_any_order
from labkit.course.checking.exercise import exercise, require_permutation
from labkit.course.checking.refused import Refused
from labkit.course.exercises.generated import cluster as generated
from labkit.course.runs.broken_runs import RepairCounterexample, events_before_epilogue
from labkit.course.runs.cluster_trial import ClusterTrial, counterexample_at, must_hold
from labkit.course.runs.repair_trial import (
    DELAY_S,
    NAME,
    REMOVE,
    STEPS,
    STORE,
    TEST,
    reordered_worker,
    scenario_with_loss,
)
from labkit.course.runs.timeline import showing_counterexamples_in
from labkit.system.autorecovery.audit_rules import when_to_audit
from labkit.system.autorecovery.daemon import Rules
from labkit.system.autorecovery.fragments import Fragment
from labkit.system.model.errors import BKException
from labkit.worlds.sim.nodes.faulty_world import EPILOGUE
from labkit.worlds.sim.scenario.faults import BitRot, Crash, Partition
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Write

Function = Callable[..., Any]

LOST_MS = 1000

# When a bookie counts as lost

_RESTART = scenario_with_loss(Crash("b1", down_ms=6000, when=At(LOST_MS)))
_FOR_GOOD = scenario_with_loss(Crash("b1", when=At(LOST_MS)))
_TWO = scenario_with_loss(
    Crash("b1", when=At(LOST_MS)),
    Crash("b2", when=At(LOST_MS + 3000)),
    last_s=20,
    lost_bookie_recovery_delay_s=600,
)
_TWO_LOST_BY_S = 12


_AUDIT_RULES = (
    "If no bookie is missing, there is nothing to wait for, so return None.",
    "If only one bookie is missing, audit after the delay, which starts when the bookie went"
    " missing.",
    "If more than one bookie is missing, audit immediately.",
)
"""The rules for no missing bookie, one missing bookie, and more than one missing bookie."""


@exercise(
    "repair.lost_bookies",
    hints=(
        "There are three cases: no bookie, one bookie, or several bookies are missing. In each"
        " case, what do you risk by waiting, and what by not waiting?",
        "The delay starts when the bookie went missing, not now. Your function is called"
        " repeatedly, so `now_s + delay_s` would be later each time.",
        "Check the number of missing bookies first. The delay matters only if it is one. Add it to"
        " the time in `missing`.",
    ),
    like=when_to_audit,
    cases=Cases(
        generated.missing_bookies,
        when_to_audit,
        lambda case, _: _AUDIT_RULES[min(len(case[0]), 2)],
        comparable=lambda arguments, answer: _due(answer, arguments[-1]),
    ),
)
def lost_bookies(learner: Function) -> str:
    """A missing bookie has until the end of the delay to return, unless another bookie is missing,
    too.
    """
    trial = ClusterTrial(learner)
    rules = Rules(when_to_audit=trial)
    with showing_counterexamples_in(RepairCounterexample):
        _must_not_mark(trial.run(_RESTART, rules=rules))
        due_s = LOST_MS / 1000 + DELAY_S
        _must_mark(
            trial.run(_FOR_GOOD, rules=rules),
            (due_s, due_s + 5),
            f"A bookie that does not come back within {DELAY_S} s is lost, and its ledgers must be"
            " marked then.",
            f"A bookie has {DELAY_S} s to come back, counting from when it went missing, but its"
            " ledgers were marked before that.",
        )
        _must_mark(
            trial.run(_TWO, rules=rules),
            (0, _TWO_LOST_BY_S),
            "When a second bookie is missing, some entries may be down to their last copy, so their"
            " ledgers must be marked immediately, regardless of the delay.",
        )
    return (
        "A restarting bookie did not count as lost. A single missing bookie counted as lost after"
        " the delay, and two missing bookies immediately."
    )


def _due(at_s: float | None, now_s: float) -> float | None:
    # Treat a time in the past as the current time.
    return None if at_s is None else max(at_s, now_s)


def _must_not_mark(trace: Trace) -> None:
    for event in events_before_epilogue(trace):
        if event.kind == "ledger.underreplicated":
            raise Refused(
                f"A bookie that comes back within {DELAY_S} s is not lost: its copies are still on"
                " its disks.",
                counterexample_at(
                    trace, event.seq, f"ledger {event.ledger} was marked because of a restart"
                ),
            )


def _must_mark(
    trace: Trace, between_s: tuple[float, float], rule: str, rule_if_early: str = ""
) -> None:
    events = list(events_before_epilogue(trace))
    marked = [event for event in events if event.kind == "ledger.underreplicated"]
    first = marked[0] if marked else events[-1]
    if not marked or not between_s[0] <= first.time_us / 1e6 <= between_s[1]:
        at_s = first.time_us / 1e6
        when = f"was marked after {at_s:.0f} s" if marked else "was never marked"
        is_early = marked and at_s < between_s[0]
        run_found = counterexample_at(trace, first.seq, f"ledger 0 {when}")
        raise Refused(rule_if_early if is_early else rule, run_found)


# Which copies are missing


def missing_copies(
    ensemble: Sequence[str],
    registered: Collection[str],
    failures: Mapping[int, Sequence[str]],
) -> list[int]:
    return [
        index
        for index, bookie in enumerate(ensemble)
        if bookie not in registered or failures.get(index)
    ]


_CHECK_EVERY_S = 5
_ROT = scenario_with_loss(
    BitRot("b1", "entry log", 0.9, when=At(LOST_MS)),
    auditor_periodic_check_interval_s=_CHECK_EVERY_S,
    auditor_ledger_verification_percentage=100,
)
_DENIED = scenario_with_loss(
    Partition(("w",), ("b1",), when=On("lac.advanced", entry=0)),
    Crash("w", when=At(LOST_MS)),
    auditor_periodic_check_interval_s=_CHECK_EVERY_S,
)
_SILENT = scenario_with_loss(
    Partition(("b1",), ("b0", "b2", "b3", "b4"), when=At(LOST_MS)),
    auditor_periodic_check_interval_s=_CHECK_EVERY_S,
    last_s=40,
)
_GONE = (
    (
        _FOR_GOOD,
        "A bookie that is not registered is not asked at all, so there are no failures for it, but"
        " its copies are missing nevertheless.",
    ),
    (
        _DENIED,
        'A registered bookie that responds "no such entry" lacks a copy: being registered is not'
        " enough.",
    ),
)
_THERE = (
    (
        _ROT,
        "A copy that cannot be read or has a wrong digest is worthless, so it must be restored,"
        " too.",
    ),
    (
        _SILENT,
        "No client can read the copies on a registered bookie that does not respond, so they must"
        " be restored.",
    ),
)
_TOO_MANY = (
    "Only copies that cannot be read are missing: restoring any other copy is unnecessary work."
)
_TOO_MANY_OR_FEW = (
    "Return the index of every bookie that is not registered or did not return a requested entry,"
    " each index once, and no others."
)


def _copies_rule_of(case: Arguments, answer: list[int]) -> str:
    return _TOO_MANY if set(answer) - set(missing_copies(*case)) else _TOO_MANY_OR_FEW


@exercise(
    "repair.fragments",
    hints=(
        "Go through the indices of the ensemble. A copy can be missing for two reasons: the bookie"
        " is not registered, or it is registered but did not return a requested entry.",
        "Recovery must distinguish a denial from silence, because it decides whether an entry"
        " exists. Here the entry exists, and the question is whether this copy can be read. Does"
        " the reason matter if it cannot?",
        "A copy is missing if its bookie is not in `registered` or if `failures` has an item for"
        " its index.",
    ),
    like=missing_copies,
    cases=Cases(generated.checked_copies, missing_copies, _copies_rule_of, comparable=in_any_order),
)
def fragments(learner: Function) -> str:
    """A copy that cannot be read counts as missing, whatever the reason."""
    trial = ClusterTrial(partial(_indices_of, learner))
    is_too_many = False

    def missing(
        fragment: Fragment, registered: Collection[str], errors: Mapping[int, Sequence[BKException]]
    ) -> tuple[int, ...]:
        nonlocal is_too_many
        failures = {n: [type(each).__name__ for each in errors[n]] for n in errors if errors[n]}
        arguments = list(fragment.ensemble), sorted(registered), failures
        answer = trial(*arguments)
        is_too_many |= not set(answer) <= set(missing_copies(*arguments))
        return tuple(answer)

    def run_one(scenario: Scenario) -> Trace:
        trace = trial.run(scenario, rules=Rules(underreplicated_indexes=missing))
        if is_too_many:
            raise Refused(_TOO_MANY)
        return trace

    with showing_counterexamples_in(RepairCounterexample):
        for scenario, rule in _GONE:
            _must_repair(run_one(scenario), rule)
    for scenario, rule in _THERE:
        _must_repair(run_one(scenario), rule)
    count = len(_GONE + _THERE)
    return f"In {count} runs of the real system, all copies of every ledger were restored."


def _indices_of(learner: Function, ensemble: Sequence[str], *arguments: object) -> list[int]:
    answer: list[int] = learner(ensemble, *arguments)
    if any(index not in range(len(ensemble)) for index in answer):
        raise Refused(
            f"The indices of the ensemble {', '.join(ensemble)} are 0 to {len(ensemble) - 1}; yours"
            f" are {answer}."
        )
    if len(answer) > len(ensemble):
        raise Refused(_TOO_MANY_OR_FEW)
    return answer


_TELLING = ("bookie.lost", "read.failed")


def _must_repair(trace: Trace, rule: str) -> None:
    """Raise `Refused` if, at the end, b1 is still listed in the metadata or copies are missing."""
    events = list(events_before_epilogue(trace))
    named = [e.ensemble for e in events if e.kind == "ensemble.set"][-1]
    short = [e for e in trace.events if e.node == EPILOGUE and e.kind == "read.failed"]
    if "b1" in named or short:
        denied = [e for e in events if e.kind in _TELLING]
        last = (short or denied)[0]
        why = f"{last.peer} does not return entry {last.entry}" if short else "it was not repaired"
        reason = f"ledger 0 is stored on {', '.join(named)}; {why}"
        raise Refused(rule, counterexample_at(trace, last.seq, reason))


# The order of a repair

_NEVER_ENDS = (
    "The test reads the metadata. If it runs before the new bookies are in the metadata, it finds"
    " missing copies, and the repair starts over, forever."
)

# A rule is broken unless its first step precedes its second step. Only the first broken rule is
# reported.
_ORDER_RULES = (
    (
        STORE,
        NAME,
        "The metadata may list a bookie only if the bookie has every copy that it should have."
        " Otherwise clients ask it for missing entries, and a worker that dies in between leaves"
        " holes.",
    ),
    (
        NAME,
        REMOVE,
        "As long as the metadata lists a lost bookie, the ledger must remain marked: if the worker"
        " dies, only the mark tells other workers to repair the ledger.",
    ),
    (
        TEST,
        REMOVE,
        "A repair can fail without raising an error, for example if there is no spare bookie to"
        " copy to. Only a test can show that no copy is missing.",
    ),
    (NAME, TEST, _NEVER_ENDS),
)


_QUICK_RETRY = {"lock_release_of_failed_ledger_grace_period_ms": 4000}
_LEDGER = (Write(entries=10, write_quorum=2),)
_QUIET = scenario_with_loss(Crash("b1", when=At(LOST_MS)), workload=_LEDGER, **_QUICK_RETRY)
_NO_SPARE = scenario_with_loss(
    Crash("b3", down_ms=15_000, when=At(LOST_MS - 100)),
    Crash("b1", when=At(LOST_MS)),
    bookies=4,
    workload=_LEDGER,
    **_QUICK_RETRY,
)
_DEATHS = ("replication.started", "add.sent", "entry.copied", "ensemble.set", "replication.done")


@exercise(
    "repair.order",
    hints=(
        "For each pair of consecutive steps, ask what happens if the worker dies between them."
        " What do the metadata and the mark tell the next worker?",
        "The mark is the only record that there is work to do, so it is removed last. Every client"
        " reads the metadata, so the metadata must be correct at all times.",
        "Store the copies before you change the metadata. The test depends on the metadata, and"
        " removing the mark depends on the test.",
    ),
)
def order(learner: object) -> str:
    """The metadata and the under-replication marks are correct regardless of when a worker dies."""
    steps = require_permutation(STEPS, learner)
    at = {step: number for number, step in enumerate(steps)}
    wrong = next((rule for a, b, rule in _ORDER_RULES if at[a] > at[b]), None)
    with showing_counterexamples_in(RepairCounterexample), reordered_worker(steps) as run:
        rules = {"RepairIsComplete": wrong} if wrong else {}
        traces = must_hold([_QUIET], run, rules)
        _must_end(traces[0])
        traces += must_hold([_NO_SPARE, *_dying(traces[0])], run, rules)
        for trace in traces:
            _must_end(trace)
    if wrong:
        raise Refused(wrong)
    return (
        f"In {len(traces)} runs, with the worker dying after every step, the metadata was always"
        " correct, and all copies of the ledger were restored."
    )


def _dying(quiet: Trace) -> Iterable[Scenario]:
    """Yield runs in which the worker dies at some step of its repair and then restarts."""
    begun = next((e for e in quiet.events if e.kind == "replication.started"), None)
    if begun is None:
        return
    for kind in _DEATHS:
        count = sum(e.kind == kind and e.node == begun.node for e in events_before_epilogue(quiet))
        for nth in sorted({1, count // 2, count} - {0}):
            death = Crash(begun.node, down_ms=500, when=On(kind, nth=nth, node=begun.node))
            yield _QUIET.with_fault(death)


def _must_end(trace: Trace) -> None:
    events = list(events_before_epilogue(trace))
    if all(event.kind != "replication.done" for event in events):
        reason = f"the ledger is still marked after {events[-1].time_us / 1e6:.0f} s"
        raise Refused(_NEVER_ENDS, counterexample_at(trace, events[-1].seq, reason))
