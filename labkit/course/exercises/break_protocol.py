"""The exercises of lesson 14: a schedule that loses an entry, bookie responses that prevent a loss,
and an invariant.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from labkit.course.checking.cases import Arguments, Cases
from labkit.course.checking.exercise import exercise
from labkit.course.checking.refused import Refused
from labkit.course.exercises.generated import cluster as generated
from labkit.course.runs.cluster_trial import ClusterTrial, failures
from labkit.course.runs.timeline import RunCounterexample, timeline
from labkit.system.bookie.error_codes import STORAGE_ERRORS
from labkit.system.bookie.node import Bookie
from labkit.system.check import Verdict, broken, check_all
from labkit.system.check.promises.durability import AcknowledgedIsDurable
from labkit.system.check.promises.writing import AckQuorumIsReached
from labkit.system.model.errors import NoEntryException, NoLedgerException, StorageDamagedException
from labkit.system.trace.events import Event
from labkit.system.trace.sentence import describe
from labkit.views.widgets.timeline import TimelineView
from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import BitRot, Crash
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Read, Recover, Write

BASE = Scenario(
    Cluster(3),
    (Write(entries=1), Recover(when=On("add.sent", nth=3))),
    variant="no fencing on recovery reads",
    limit_s=2.0,
)
"""The scenario to which the learner adds decisions and faults."""
_MAX_CHANGES = 50
_DECISIONS = '"delay w>b0 1" or "lose w>b0 1"'


@dataclass(frozen=True, slots=True)
class UnbrokenRun:
    """A run that broke no promise, and an explanation of what the run shows."""

    trace: Trace
    message: str
    at: int | None = None

    def __str__(self) -> str:
        return self.message

    def view(self) -> TimelineView:
        return timeline(self.trace, at=self.at)


def _loss(trace: Trace) -> Verdict | None:
    return next(iter(broken(check_all(trace, [AcknowledgedIsDurable]))), None)


@exercise(
    "break_protocol.schedule",
    hints=(
        "The entry is confirmed to w after two acknowledgements. Recovery gives up on an entry"
        " after two bookies have denied it. There are only three bookies, so one of them must do"
        " both: deny the entry first and store it later.",
        "That bookie must not be fenced, so lose the fencing request to it. The add must reach it"
        " late, after its denial. Of the other two bookies, one receives the add in time, and the"
        " other so late that it rejects the add.",
        "You need three decisions, each about message 1 of a link: w's add to one bookie is very"
        " late (10 ms), w's add to another is slightly late (5 ms), and r's message to the second"
        " one is lost.",
    ),
)
def schedule(learner: object) -> str:
    """The schedule loses an acknowledged entry, but only because recovery reads do not fence."""
    if not isinstance(learner, Scenario):
        raise Refused("The schedule must be a Scenario: `base` with your decisions or faults.")
    if len(learner.decisions) + len(learner.faults) > _MAX_CHANGES:
        raise Refused(
            "Three decisions are enough; a schedule can have at most"
            f" {_MAX_CHANGES} decisions and faults."
        )
    if replace(learner, decisions={}, faults=()) != BASE:
        raise Refused(
            "Change only the decisions and the faults: the cluster, the workload, the variant and"
            " the seed must be those of `base`."
        )
    real = run(replace(learner, variant=""))
    if (loss := _loss(real)) is not None:
        raise Refused(
            "With these faults, the real protocol loses the entry, too, because they exceed what"
            " it can survive.",
            RunCounterexample(real, loss),
        )
    trace = run(learner)
    if _loss(trace) is None:
        for name in learner.decisions:
            if learner.decisions[name] and name not in trace.decisions:
                raise Refused(
                    f"The decision {name!r} has no effect, because there is no such message in this"
                    f" run. The box shows the name of an event's message: for w → b0 1, write"
                    f" {_DECISIONS}.",
                    UnbrokenRun(trace, "The run with your other decisions."),
                )
        raise Refused(*_why_nothing_is_lost(trace))
    count = len(learner.decisions) + len(learner.faults)
    spare = next(_without_one(learner), "")
    return (
        f"Entry 0 was confirmed to w and then lost. Your schedule has {count} decisions and faults."
        f" If reads fence, the same schedule loses nothing.{spare}"
    )


def _without_one(schedule: Scenario) -> Iterator[str]:
    """Yield a note about each decision or fault without which the entry would still be lost."""
    for name in schedule.decisions:
        others = {each: value for each, value in schedule.decisions.items() if each != name}
        if _loss(run(replace(schedule, decisions=others))) is not None:
            yield f" The entry is lost even without {name!r}: can you find a shorter schedule?"
    for number, fault in enumerate(schedule.faults):
        left = (*schedule.faults[:number], *schedule.faults[number + 1 :])
        if _loss(run(replace(schedule, faults=left))) is not None:
            note = f" The entry is lost even without the fault {fault}"
            yield f"{note}: can you find a shorter schedule?"


def _why_nothing_is_lost(trace: Trace) -> tuple[str, UnbrokenRun]:
    confirmed = next((e for e in trace.events if (e.kind, e.node) == ("lac.advanced", "w")), None)
    closed = next((e for e in trace.events if e.kind == "ledger.closed"), None)
    if closed is not None and closed.node == "w":
        return (
            "Nothing is lost: w closed its ledger itself. Its adds must take longer than the"
            " recovery.",
            UnbrokenRun(trace, "w closed the ledger after its entry.", closed.seq),
        )
    if closed is None or closed.node != "r":
        return (
            "Nothing is lost: recovery did not finish. It needs two fenced bookies, and responses"
            " to its reads.",
            UnbrokenRun(trace, "r did not close the ledger."),
        )
    if closed.entry >= 0:
        return (
            "Nothing is lost: recovery found the entry. It gives up on an entry only if two bookies"
            " deny it before a bookie that has it responds.",
            UnbrokenRun(trace, f"r closed the ledger at entry {closed.entry}.", closed.seq),
        )
    assert confirmed is None, "an entry that was confirmed and not recovered is lost"
    return (
        "Nothing is lost, because the entry was never confirmed to w. Two bookies must store the"
        " entry, and one of them must deny it first.",
        UnbrokenRun(
            trace,
            "r closed the ledger empty, and w did not receive two acknowledgements.",
            closed.seq,
        ),
    )


NO_LEDGER, NO_ENTRY, IO_ERROR = "NO_LEDGER", "NO_ENTRY", "IO_ERROR"
_ERRORS: dict[str, type[Exception]] = {
    NO_LEDGER: NoLedgerException,
    NO_ENTRY: NoEntryException,
    IO_ERROR: StorageDamagedException,
}
_OUTCOMES: dict[type[Exception], str] = {
    NoLedgerException: "no such ledger",
    NoEntryException: "no such entry",
}
_UNREADABLE = "the entry is damaged"
_PARTS = (0.8, 0.85, 0.9, 0.95)
"""Relative positions in the entry log at which a bit flips, each in a different entry."""


def answer(found: str) -> str:
    """Return the response that a bookie sends, given the outcome of its search for an entry."""
    responses = {_OUTCOMES[NoLedgerException]: NO_LEDGER, _OUTCOMES[NoEntryException]: NO_ENTRY}
    return responses.get(found, IO_ERROR)


def _response_rule(case: Arguments, response: str) -> str:
    if response == NO_LEDGER and case[0] == _OUTCOMES[NoEntryException]:
        return (
            "NO_LEDGER means that the bookie has no entries of the ledger at all. If only this"
            " entry is missing, the response is NO_ENTRY."
        )
    return (
        "NO_LEDGER and NO_ENTRY mean that the bookie does not have the entry. IO_ERROR means that"
        " it cannot read the entry."
    )


def _without_synonym(case: Arguments, response: str) -> str:
    """Treat NO_ENTRY like NO_LEDGER if the ledger does not exist, because both responses are then
    true.
    """
    is_true = response == NO_ENTRY and case[0] == _OUTCOMES[NoLedgerException]
    return NO_LEDGER if is_true else response


@exercise(
    "break_protocol.answer",
    hints=(
        "Recovery treats NO_LEDGER and NO_ENTRY as proof that this bookie never acknowledged the"
        " entry. IO_ERROR proves nothing.",
        "Two of the three outcomes prove that the bookie does not have the entry. The third proves"
        " that it does.",
        "Return NO_LEDGER if there is no such ledger, NO_ENTRY if there is no such entry, and"
        " IO_ERROR if the entry is damaged.",
    ),
    like=answer,
    cases=Cases(
        lambda draw: (draw.one_of([*_OUTCOMES.values(), _UNREADABLE]),),
        answer,
        _response_rule,
        comparable=_without_synonym,
    ),
)
def fixed(learner: Callable[[str], str]) -> str:
    """A bookie responds that it does not have an entry if and only if it does not have the
    entry.
    """

    def judged(found: str) -> str:
        response = learner(found)
        if response not in _ERRORS:
            raise Refused(
                f"answer({found!r}) must be one of {', '.join(_ERRORS)}, got {response!r}."
            )
        return response

    trial = ClusterTrial(judged)

    class Answering(Bookie):
        def read(self, ledger_id: int, entry_id: int) -> bytes:
            try:
                return super().read(ledger_id, entry_id)
            except (NoLedgerException, NoEntryException, *STORAGE_ERRORS) as error:
                response = trial(_OUTCOMES.get(type(error), _UNREADABLE))
                raise _ERRORS[response](str(error)) from error

    run_count = 0
    for scenario in _damaged():
        trace = trial.run(scenario, bookie=Answering)
        run_count += 1
        if (loss := _loss(trace)) is not None:
            raise Refused(
                "A bookie may deny an entry only if it does not have it. An entry that it cannot"
                " read may have been acknowledged, and recovery would close the ledger before it.",
                RunCounterexample(trace, loss),
            )
    for scenario in _sound():
        trace = trial.run(scenario, bookie=Answering)
        run_count += 1
        if stuck := [why for why in failures(trace) if not why.startswith("write")]:
            raise Refused(
                "A bookie that does not have an entry must deny it. Recovery and readers wait for"
                " the denials, and without them the ledger of a dead writer is never closed.",
                UnbrokenRun(trace, stuck[0]),
            )
    return f"Nothing was lost in {run_count} runs, and every undamaged ledger was read to its end."


def _damaged() -> Iterator[Scenario]:
    """Yield runs in which a bit flips on two of three bookies, and recovery starts while the ledger
    is still open.
    """
    # All four entries are in flight at the same time, so none of them contains a useful
    # LastAddConfirmed.
    work = (Write(entries=4, close=False), Recover(when=At(140.0)))
    for part in _PARTS:
        for other in _PARTS:
            rot = (
                BitRot("b0", "entry log", part, At(130)),
                BitRot("b1", "entry log", other, At(130)),
            )
            yield Scenario(Cluster(3), work, rot, limit_s=2.0)


def _sound() -> Iterator[Scenario]:
    """Yield runs in which the ledger is left open after its last entry, or the writer dies before
    its first entry is stored.
    """
    for entries in (1, 4):
        work = (Write(entries=entries, close=False), Recover(when=At(140.0)))
        yield Scenario(Cluster(3), work, limit_s=2.0)
    died = Crash("w", when=On("add.pushed"))
    yield Scenario(Cluster(3), (Write(), Read(when=At(20.0))), (died,), limit_s=2.0)


TOO_EARLY = "ack after one bookie"
_WORK = Scenario(
    Cluster(4),
    (Write(entries=6, every_ms=1.0), Recover(when=On("add.sent", nth=12))),
    limit_s=2.0,
)


def keeps(events: list[Event]) -> bool:
    """Return whether at least two bookies acknowledged each entry before it was confirmed."""
    return _first_violation(events) is None


def _first_violation(events: Sequence[Event]) -> Event | None:
    acked: dict[tuple[str, int, int], set[str]] = {}
    for event in events:
        key = event.node, event.ledger, event.entry
        if event.kind == "add.acked":
            acked.setdefault(key, set()).add(event.peer)
        if event.kind == "lac.advanced" and len(acked.get(key, ())) < 2:
            return event
    return None


def _list_events(case: Arguments) -> str:
    lines = "\n".join(
        f"    {e.kind} on {e.node}: ledger {e.ledger}, entry {e.entry}"
        + f", peer {e.peer}" * bool(e.peer)
        for e in case[0]
    )
    return f"about these events\n{lines or '    (none)'}"


def _explain_violation(case: Arguments) -> str:
    event = _first_violation(case[0])
    if event is None:
        return "Every entry was confirmed after acknowledgements from two bookies."
    return (
        f"{event.node} confirmed entry {event.entry} of ledger {event.ledger} before two bookies"
        " had acknowledged it to that client."
    )


@exercise(
    "break_protocol.invariant",
    hints=(
        "The rule is broken when an entry is confirmed, long before anything is lost. Which events"
        " of the same client and the same entry must have happened by then?",
        "Go through the events in order. Collect the peers of `add.acked` by node, ledger and"
        " entry. At `lac.advanced`, check how many there are.",
        'At each event of kind "lac.advanced", there must be two different peers for (event.node,'
        " event.ledger, event.entry). If not, return False.",
    ),
    like=keeps,
    cases=Cases(
        generated.confirmations,
        keeps,
        "Your invariant must hold if and only if every client received acknowledgements from two"
        " different bookies for each entry before it confirmed the entry.",
        describe=_list_events,
        explain=_explain_violation,
    ),
)
def invariant(learner: Callable[[list[Event]], bool]) -> str:
    """The invariant holds in every run of the real protocol and in no run of the variant."""
    right = [run(storm(_WORK, seed, 3, 20.0)) for seed in range(16)]
    for trace in right:
        if not learner(list(trace.events)):
            raise Refused(
                "Your invariant must hold in every run of the real protocol, no matter which faults"
                " occur. It does not hold in this run, in which no promise was broken.",
                _first_objection(learner, trace),
            )
    quiet = replace(_WORK, variant=TOO_EARLY)
    wrong = [run(each) for each in (quiet, *(storm(quiet, seed, 3, 20.0) for seed in range(6)))]
    for trace in wrong:
        found = broken(check_all(trace, [AckQuorumIsReached]))
        if found and learner(list(trace.events)):
            raise Refused(
                "Your invariant must detect the bug as soon as the rule is broken. Here an entry"
                " was confirmed with one acknowledgement, but your invariant holds.",
                RunCounterexample(trace, found[0]),
            )
    return (
        f"Your invariant holds in {len(right)} runs of the real protocol and in none of"
        f" {len(wrong)} runs of the variant."
    )


def _first_objection(learner: Callable[[list[Event]], bool], trace: Trace) -> UnbrokenRun:
    """Find, by bisection, an event at which the result of the learner's function changes from True
    to False.
    """
    if not learner([]):
        return UnbrokenRun(trace, "Your function returns False even for an empty list of events.")
    holds, fails = 0, len(trace.events)
    while fails - holds > 1:
        middle = (holds + fails) // 2
        if learner(list(trace.events[:middle])):
            holds = middle
        else:
            fails = middle
    event = trace.events[fails - 1]
    message = (
        f"Your function returns True for the events before event {event.seq} and False with it:"
        f" {describe(event)}."
    )
    return UnbrokenRun(trace, message, event.seq)
