"""Lesson 09: when a bookie is lost, which copies are missing, and in which order to repair."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from labkit.course.checking.cases import Arguments, Cases, in_any_order
from labkit.course.checking.exercise import Refused, exercise, in_order
from labkit.course.exercises.generated import cluster as drawn
from labkit.course.runs.broken_runs import RepairCounterexample
from labkit.course.runs.cluster_trial import Guest, found, must_hold
from labkit.course.runs.repair_trial import (
    DELAY_S,
    NAME,
    REMOVE,
    STEPS,
    STORE,
    TEST,
    a_loss,
    before_the_end,
    working,
)
from labkit.course.runs.timeline import shown_as
from labkit.system.autorecovery.daemon import Rules
from labkit.system.autorecovery.fragments import Fragment
from labkit.system.autorecovery.lost_bookies import when_to_audit
from labkit.system.model.errors import BKException
from labkit.worlds.sim.nodes.faulty_world import EPILOGUE
from labkit.worlds.sim.scenario.faults import BitRot, Crash, Partition
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Write

Function = Callable[..., Any]

LOST_MS = 1000

# When a bookie is lost

_RESTART = a_loss(Crash("b1", down_ms=6000, when=At(LOST_MS)))
_FOR_GOOD = a_loss(Crash("b1", when=At(LOST_MS)))
_TWO = a_loss(
    Crash("b1", when=At(LOST_MS)),
    Crash("b2", when=At(LOST_MS + 3000)),
    last_s=20,
    lost_bookie_recovery_delay_s=600,
)
_TWO_LOST_BY_S = 12


_THREE_CASES = "No bookie missing: no audit. One: when its delay is over. More than one: now."


@exercise(
    "repair.lost_bookies",
    hints=(
        "Three cases: no bookie is missing, one is, more than one are. What do you lose in each"
        " by waiting, and what by not waiting?",
        "The delay counts from when the bookie went, not from now: you are asked again and again,"
        " and `now_s + delay_s` would move on with each question.",
        "Look at the number of missing bookies first. The delay counts only where it is one, and"
        " then from the time in `missing`.",
    ),
    like=when_to_audit,
    cases=Cases(
        drawn.missing_bookies,
        when_to_audit,
        _THREE_CASES,
        counts=lambda arguments, answer: _due(answer, arguments[-1]),
    ),
)
def lost_bookies(learner: Function) -> str:
    """A bookie that is away has the delay to come back, unless another one is away too."""
    guest = Guest(learner)
    rules = Rules(when_to_audit=guest)
    with shown_as(RepairCounterexample):
        _must_not_mark(guest.run(_RESTART, rules=rules))
        due_s = LOST_MS / 1000 + DELAY_S
        _must_mark(
            guest.run(_FOR_GOOD, rules=rules),
            (due_s, due_s + 5),
            f"A bookie that does not come back within {DELAY_S} s is lost: its ledgers must be"
            " marked then.",
            f"A bookie has {DELAY_S} s to come back, and they count from when it went: here its"
            " ledgers are marked before that.",
        )
        _must_mark(
            guest.run(_TWO, rules=rules),
            (0, _TWO_LOST_BY_S),
            "When a second bookie is missing, entries may be down to their last copy: mark at once,"
            " whatever the delay.",
        )
    return (
        "A restart was not a loss, a bookie that stayed away was one when its delay was over, and"
        " two were lost at once."
    )


def _due(at_s: float | None, now_s: float) -> float | None:
    # A time that has passed means the same as now.
    return None if at_s is None else max(at_s, now_s)


def _must_not_mark(trace: Trace) -> None:
    for event in before_the_end(trace):
        if event.kind == "ledger.underreplicated":
            raise Refused(
                f"A bookie that is back within {DELAY_S} s is not lost: its copies are on its"
                " disks.",
                found(trace, event.seq, f"ledger {event.ledger} was marked for a restart"),
            )


def _must_mark(
    trace: Trace, between_s: tuple[float, float], rule: str, rule_if_early: str = ""
) -> None:
    events = list(before_the_end(trace))
    marked = [event for event in events if event.kind == "ledger.underreplicated"]
    first = marked[0] if marked else events[-1]
    if not marked or not between_s[0] <= first.time_us / 1e6 <= between_s[1]:
        at_s = first.time_us / 1e6
        when = f"was marked after {at_s:.0f} s" if marked else "was never marked"
        is_early = marked and at_s < between_s[0]
        run_found = found(trace, first.seq, f"ledger 0 {when}")
        raise Refused(rule_if_early if is_early else rule, run_found)


# Which copies are missing


def missing_places(
    ensemble: Sequence[str],
    registered: Collection[str],
    failures: Mapping[int, Sequence[str]],
) -> list[int]:
    """The places of the ensemble whose copies must be made again."""
    return [
        place
        for place, bookie in enumerate(ensemble)
        if bookie not in registered or failures.get(place)
    ]


_CHECK_EVERY_S = 5
_ROT = a_loss(
    BitRot("b1", "entry log", 0.9, when=At(LOST_MS)),
    auditor_periodic_check_interval_s=_CHECK_EVERY_S,
    auditor_ledger_verification_percentage=100,
)
_DENIED = a_loss(
    Partition(("w",), ("b1",), when=On("lac.advanced", entry=0)),
    Crash("w", when=At(LOST_MS)),
    auditor_periodic_check_interval_s=_CHECK_EVERY_S,
)
_SILENT = a_loss(
    Partition(("b1",), ("b0", "b2", "b3", "b4"), when=At(LOST_MS)),
    auditor_periodic_check_interval_s=_CHECK_EVERY_S,
    last_s=40,
)
_GONE = (
    (
        _FOR_GOOD,
        "A bookie that is not registered is not even asked, so nothing failed there: its copies"
        " are missing all the same.",
    ),
    (
        _DENIED,
        'A bookie that is there and says "no such entry" misses a copy: registered is not enough.',
    ),
)
_THERE = (
    (
        _ROT,
        "A copy that cannot be read, or has a wrong digest, protects nothing: it must be made"
        " again, too.",
    ),
    (
        _SILENT,
        "A bookie that is registered and does not answer the other bookies: no client can read its"
        " copies, so they must be made again.",
    ),
)
_TOO_MANY = (
    "Missing is what cannot be read, and nothing else: each copy too many is made again for"
    " nothing."
)
_TOO_MANY_OR_FEW = (
    "Missing are the copies of bookies that are not registered and of those that did not give what"
    " they were asked for, each place once, and no others."
)


def _copies_rule_of(case: Arguments, answer: list[int]) -> str:
    return _TOO_MANY if set(answer) - set(missing_places(*case)) else _TOO_MANY_OR_FEW


@exercise(
    "repair.fragments",
    hints=(
        "Go through the places of the ensemble. For each there are two ways to be short: the"
        " bookie is not there, or it is there and did not give what it was asked for.",
        "Recovery must tell a denial from silence: it decides whether an entry exists. Here the"
        " entry exists, and the question is whether this copy can be read. Does it matter why not?",
        "A place is short if its bookie is not in `registered`, or if `failures` has something for"
        " it.",
    ),
    like=missing_places,
    cases=Cases(drawn.checked_copies, missing_places, _copies_rule_of, counts=in_any_order),
)
def fragments(learner: Function) -> str:
    """Whatever cannot be read is missing: why makes no difference here."""
    guest = Guest(partial(_places_of, learner))
    is_too_many = False

    def places(
        fragment: Fragment, registered: Collection[str], said: Mapping[int, Sequence[BKException]]
    ) -> tuple[int, ...]:
        nonlocal is_too_many
        failures = {n: [type(each).__name__ for each in said[n]] for n in said if said[n]}
        question = list(fragment.ensemble), sorted(registered), failures
        answer = guest(*question)
        is_too_many |= not set(answer) <= set(missing_places(*question))
        return tuple(answer)

    def run_one(scenario: Scenario) -> Trace:
        trace = guest.run(scenario, rules=Rules(missing_places=places))
        if is_too_many:
            raise Refused(_TOO_MANY)
        return trace

    with shown_as(RepairCounterexample):
        for scenario, rule in _GONE:
            _must_repair(run_one(scenario), rule)
    for scenario, rule in _THERE:
        _must_repair(run_one(scenario), rule)
    count = len(_GONE + _THERE)
    return f"Every ledger came back to all its copies in {count} runs of the real system."


def _places_of(learner: Function, ensemble: Sequence[str], *arguments: object) -> list[int]:
    answer: list[int] = learner(ensemble, *arguments)
    if any(place not in range(len(ensemble)) for place in answer):
        raise Refused(
            f"The places of the ensemble {', '.join(ensemble)} are 0 to {len(ensemble) - 1};"
            f" yours are {answer}."
        )
    if len(answer) > len(ensemble):
        raise Refused(_TOO_MANY_OR_FEW)
    return answer


_TELLING = ("bookie.lost", "read.failed")


def _must_repair(trace: Trace, rule: str) -> None:
    """b1's copies must be made again, and all be there at the end."""
    events = list(before_the_end(trace))
    named = [e.note.split(",") for e in events if e.kind == "ensemble.set"][-1]
    short = [e for e in trace.events if e.node == EPILOGUE and e.kind == "read.failed"]
    if "b1" in named or short:
        denied = [e for e in events if e.kind in _TELLING]
        last = (short or denied)[0]
        why = f"{last.peer} does not give entry {last.entry}" if short else "it was not repaired"
        reason = f"ledger 0 is stored on {', '.join(named)}; {why}"
        raise Refused(rule, found(trace, last.seq, reason))


# In which order to repair

_NEVER_ENDS = (
    "The test goes by the metadata: before the new bookies are named there it finds the ledger"
    " short, and the repair begins again, for ever."
)

# What breaks when the first step does not come before the second; the first match is reported.
_ORDER_RULES = (
    (
        STORE,
        NAME,
        "The metadata must name a bookie only when it has every copy that it should have: a client"
        " that reads it asks there, and a worker that dies in between leaves holes behind.",
    ),
    (
        NAME,
        REMOVE,
        "While the metadata names a bookie that is gone, the ledger must stay marked: when the"
        " worker dies, the mark is all that other workers have.",
    ),
    (
        TEST,
        REMOVE,
        "A repair can fail without raising an error, for example when there is no other bookie"
        " to copy to. Only a test may say that nothing is missing.",
    ),
    (
        NAME,
        TEST,
        _NEVER_ENDS,
    ),
)


_QUICK_RETRY = {"lock_release_of_failed_ledger_grace_period_ms": 4000}
_LEDGER = (Write(entries=10, write_quorum=2),)
_QUIET = a_loss(Crash("b1", when=At(LOST_MS)), workload=_LEDGER, **_QUICK_RETRY)
_NO_SPARE = a_loss(
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
        "Ask of every two neighbours: what if the worker dies between them? What do the metadata"
        " and the mark tell the next one?",
        "The mark is the only note that something is to be done, so it goes last. The metadata are"
        " what every client reads, so they must be true at every moment.",
        "First the copies, then the bookies' names. The test goes by the names, and the mark by"
        " the test.",
    ),
)
def order(learner: object) -> str:
    """Metadata and marks are true whenever a worker dies."""
    steps = in_order(STEPS, learner)
    at = {step: number for number, step in enumerate(steps)}
    wrong = next((rule for a, b, rule in _ORDER_RULES if at[a] > at[b]), None)
    with shown_as(RepairCounterexample), working(steps) as run:
        rules = {"RepairIsComplete": wrong} if wrong else {}
        traces = must_hold([_QUIET], run, rules)
        _must_end(traces[0])
        traces += must_hold([_NO_SPARE, *_dying(traces[0])], run, rules)
        for trace in traces:
            _must_end(trace)
    if wrong:
        raise Refused(wrong)
    return (
        f"In {len(traces)} runs, with the worker dying at every turn, the metadata were true, and"
        " the ledger came back to all its copies."
    )


def _dying(quiet: Trace) -> Iterable[Scenario]:
    """The worker of the quiet run dies at each turn of its repair, and starts again."""
    begun = next((e for e in quiet.events if e.kind == "replication.started"), None)
    if begun is None:
        return
    for kind in _DEATHS:
        count = sum(e.kind == kind and e.node == begun.node for e in before_the_end(quiet))
        for nth in sorted({1, count // 2, count} - {0}):
            death = Crash(begun.node, down_ms=500, when=On(kind, nth=nth, node=begun.node))
            yield _QUIET.with_fault(death)


def _must_end(trace: Trace) -> None:
    events = list(before_the_end(trace))
    if all(event.kind != "replication.done" for event in events):
        reason = f"the ledger is still marked after {events[-1].time_us / 1e6:.0f} s"
        raise Refused(_NEVER_ENDS, found(trace, events[-1].seq, reason))
