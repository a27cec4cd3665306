"""Lesson 14: a schedule that loses an entry, the answer that prevents a loss, and an invariant."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from labkit.course.checking.cases import Arguments, Cases
from labkit.course.checking.exercise import Refused, exercise
from labkit.course.exercises.generated import cluster as drawn
from labkit.course.runs.cluster_trial import Guest, failures
from labkit.course.runs.timeline import RunCounterexample, timeline
from labkit.system.bookie.node import Bookie
from labkit.system.bookie.refusals import UNREADABLE
from labkit.system.check import Verdict, broken, check_all
from labkit.system.check.promises.durability import AcknowledgedIsDurable
from labkit.system.check.promises.writing import AckQuorumIsReached
from labkit.system.model.errors import NoEntryException, NoLedgerException, StorageDamagedException
from labkit.system.trace.events import Event
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
"""What the learner's schedule begins with."""
_MOST_PARTS = 50
_NAMED = '"delay w>b0 1" or "lose w>b0 1"'


@dataclass(frozen=True, slots=True)
class UnbrokenRun:
    """A run in which no promise broke, and what it shows."""

    trace: Trace
    words: str
    at: int | None = None

    def __str__(self) -> str:
        return self.words

    def view(self) -> TimelineView:
        """The run in the timeline."""
        return timeline(self.trace, at=self.at)


def _loss(trace: Trace) -> Verdict | None:
    """How an acknowledged entry was lost, if one was."""
    return next(iter(broken(check_all(trace, [AcknowledgedIsDurable]))), None)


@exercise(
    "break_protocol.schedule",
    hints=(
        "The entry is confirmed to w after two acknowledgements. Recovery gives an entry up after"
        " two bookies said that they do not have it. There are three bookies, so one of them must"
        " do both: deny the entry first, and store it later.",
        "That bookie must not be fenced: lose the fencing read to it. Its copy of the add comes"
        " late, after its denial. Of the other two, one gets the add in time, and the other one so"
        " late that it refuses it.",
        "Three decisions, each about message 1 of a link: w's add to one bookie is very late (10"
        " ms), to another one a little late (5 ms), and r's message to the second of them is lost.",
    ),
)
def schedule(learner: object) -> str:
    """The schedule loses an acknowledged entry, and only because recovery's reads do not fence."""
    if not isinstance(learner, Scenario):
        raise Refused("The answer must be a Scenario: `base` with decisions or faults of yours.")
    if len(learner.decisions) + len(learner.faults) > _MOST_PARTS:
        raise Refused(f"Three decisions are enough; a schedule has at most {_MOST_PARTS} parts.")
    if replace(learner, decisions={}, faults=()) != BASE:
        raise Refused(
            "Cluster, workload and variant must stay those of `base`, and no seed may choose: only"
            " the decisions and the faults are yours."
        )
    real = run(replace(learner, variant=""))
    if (loss := _loss(real)) is not None:
        raise Refused(
            "With these faults the real protocol loses the entry, too: they are more than it"
            " promises to survive.",
            RunCounterexample(real, loss),
        )
    trace = run(learner)
    if _loss(trace) is None:
        for name in learner.decisions:
            if learner.decisions[name] and name not in trace.decisions:
                raise Refused(
                    f"This run has nothing that {name!r} could change. The box names the message of"
                    f" an event: w → b0 1 stands for {_NAMED}.",
                    UnbrokenRun(trace, "The run with your other decisions."),
                )
        raise Refused(*_why_nothing_is_lost(trace))
    count = len(learner.decisions) + len(learner.faults)
    spare = next(_without_one(learner), "")
    return (
        f"Entry 0 was confirmed to w, and it is lost. Your schedule has {count} parts; with reads"
        f" that fence the same schedule loses nothing.{spare}"
    )


def _without_one(schedule: Scenario) -> Iterator[str]:
    """Parts of the schedule without which the entry is lost as well."""
    for name in schedule.decisions:
        others = {each: value for each, value in schedule.decisions.items() if each != name}
        if _loss(run(replace(schedule, decisions=others))) is not None:
            yield f" It is lost without {name!r} too: can you do with fewer?"
    for number, fault in enumerate(schedule.faults):
        left = (*schedule.faults[:number], *schedule.faults[number + 1 :])
        if _loss(run(replace(schedule, faults=left))) is not None:
            yield f" It is lost without the fault {fault} too: can you do with fewer?"


def _why_nothing_is_lost(trace: Trace) -> tuple[str, UnbrokenRun]:
    confirmed = next((e for e in trace.events if (e.kind, e.node) == ("lac.advanced", "w")), None)
    closed = next((e for e in trace.events if e.kind == "ledger.closed"), None)
    if closed is not None and closed.node == "w":
        return (
            "Nothing is lost: w closed its ledger itself. Its adds must take longer than recovery.",
            UnbrokenRun(trace, "w closed the ledger behind its entry.", closed.seq),
        )
    if closed is None or closed.node != "r":
        return (
            "Nothing is lost: recovery did not come to an end. It needs two bookies that fence, and"
            " answers to its reads.",
            UnbrokenRun(trace, "r closed nothing."),
        )
    if closed.entry >= 0:
        return (
            "Nothing is lost: recovery found the entry. It gives up only when two bookies deny it"
            " before one that has it answers.",
            UnbrokenRun(trace, f"r closed the ledger at entry {closed.entry}.", closed.seq),
        )
    assert confirmed is None, "an entry that was confirmed and not recovered is lost"
    return (
        "Nothing is lost: the entry was never confirmed to w, so no reader misses it. Two bookies"
        " must store the add, one of them after it denied the entry.",
        UnbrokenRun(
            trace, "r closed the ledger empty, and w got no two acknowledgements.", closed.seq
        ),
    )


NO_LEDGER, NO_ENTRY, IO_ERROR = "NO_LEDGER", "NO_ENTRY", "IO_ERROR"
_SAID: dict[str, type[Exception]] = {
    NO_LEDGER: NoLedgerException,
    NO_ENTRY: NoEntryException,
    IO_ERROR: StorageDamagedException,
}
_MET: dict[type[Exception], str] = {
    NoLedgerException: "nothing of that ledger is here",
    NoEntryException: "the ledger is here, the entry is not",
}
_UNREADABLE = "the entry is here, and its bytes are damaged"
_PARTS = (0.8, 0.85, 0.9, 0.95)
"""Where in the entry log a bit flips: in one entry after the other."""


def answer(met: str) -> str:
    """What a bookie says when it met this while it looked for an entry."""
    return {_MET[NoLedgerException]: NO_LEDGER, _MET[NoEntryException]: NO_ENTRY}.get(met, IO_ERROR)


@exercise(
    "break_protocol.answer",
    hints=(
        "Recovery takes NO_LEDGER and NO_ENTRY as proof that this bookie never acknowledged the"
        " entry. IO_ERROR proves nothing.",
        "Of the three things that a bookie may meet, two prove that it does not have the entry. The"
        " third proves that it has it.",
        "NO_LEDGER when nothing of the ledger is here, NO_ENTRY when just the entry is not, and"
        " IO_ERROR when its bytes are damaged.",
    ),
    like=answer,
    cases=Cases(
        lambda draw: (draw.one_of([*_MET.values(), _UNREADABLE]),),
        answer,
        "NO_LEDGER and NO_ENTRY say what the bookie does not have, IO_ERROR that it cannot read.",
        # For recovery the two denials are the same.
        counts=lambda _, answer: "denied" if answer in (NO_LEDGER, NO_ENTRY) else answer,
    ),
)
def fixed(learner: Callable[[str], str]) -> str:
    """A bookie denies only what it does not have, and denies that."""

    def judged(met: str) -> str:
        said = learner(met)
        if said not in _SAID:
            raise Refused(f"answer({met!r}) must be one of {', '.join(_SAID)}.")
        return said

    guest = Guest(judged)

    class Answering(Bookie):
        """Says what the learner's function makes of what it met."""

        def read(self, ledger_id: int, entry_id: int) -> bytes:
            try:
                return super().read(ledger_id, entry_id)
            except (NoLedgerException, NoEntryException, *UNREADABLE) as error:
                said = guest(_MET.get(type(error), _UNREADABLE))
                raise _SAID[said](str(error)) from error

    run_count = 0
    for scenario in _damaged():
        trace = guest.run(scenario, bookie=Answering)
        run_count += 1
        if (loss := _loss(trace)) is not None:
            raise Refused(
                "A bookie may deny an entry only if it does not have it: what it cannot read was"
                " perhaps acknowledged, and recovery takes the denial for the end of the ledger.",
                RunCounterexample(trace, loss),
            )
    for scenario in _sound():
        trace = guest.run(scenario, bookie=Answering)
        run_count += 1
        if stuck := [why for why in failures(trace) if not why.startswith("write")]:
            raise Refused(
                "A bookie that does not have an entry must say so: recovery and readers wait for"
                " that, and without it the ledger of a dead writer is never closed.",
                UnbrokenRun(trace, stuck[0]),
            )
    return f"Nothing lost in {run_count} runs, and every sound ledger was read to its end."


def _damaged() -> Iterator[Scenario]:
    """The writer is gone, and two of three bookies have a flipped bit in their entry log."""
    # All four under way at once: none of them tells that those before it are confirmed.
    work = (Write(entries=4, close=False), Recover(when=At(140.0)))
    for part in _PARTS:
        for other in _PARTS:
            rot = (
                BitRot("b0", "entry log", part, At(130)),
                BitRot("b1", "entry log", other, At(130)),
            )
            yield Scenario(Cluster(3), work, rot, limit_s=2.0)


def _sound() -> Iterator[Scenario]:
    """The writer is gone: after its last entry, or before its first one was under way."""
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
    """Whether every entry was confirmed with acknowledgements of two bookies at least."""
    acked: dict[tuple[str, int, int], set[str]] = {}
    for event in events:
        key = event.node, event.ledger, event.entry
        if event.kind == "add.acked":
            acked.setdefault(key, set()).add(event.peer)
        if event.kind == "lac.advanced" and len(acked.get(key, ())) < 2:
            return False
    return True


def _what_happened(case: Arguments) -> str:
    lines = "\n".join(
        f"    {e.kind} on {e.node}: ledger {e.ledger}, entry {e.entry}"
        + f", peer {e.peer}" * bool(e.peer)
        for e in case[0]
    )
    return f"about these events\n{lines or '    (none)'}"


@exercise(
    "break_protocol.invariant",
    hints=(
        "The mistake is made when an entry is confirmed, long before anything is lost. Which events"
        " of the same client and the same entry must be there by then?",
        "Go through the events in order. Note the peers of `add.acked` by node, ledger and entry;"
        " at `lac.advanced` look how many there are.",
        'At each event of kind "lac.advanced" two different peers must have been noted under'
        " (event.node, event.ledger, event.entry). If not, return False.",
    ),
    like=keeps,
    cases=Cases(
        drawn.confirmations,
        keeps,
        "Your invariant must hold exactly if every client got acknowledgements of two different"
        " bookies for an entry before it confirmed it.",
        words=_what_happened,
    ),
)
def invariant(learner: Callable[[list[Event]], bool]) -> str:
    """True for what the real protocol does, False whenever one acknowledgement was enough."""
    right = [run(storm(_WORK, seed, 3, 20.0)) for seed in range(16)]
    for trace in right:
        if not learner(list(trace.events)):
            raise Refused(
                "Your invariant must hold in every run of the real protocol, whatever goes wrong in"
                " it; here it does not, and nothing broke.",
                UnbrokenRun(
                    trace, f"A run of {len(trace.events)} events in which no promise broke."
                ),
            )
    quiet = replace(_WORK, variant=TOO_EARLY)
    wrong = [run(each) for each in (quiet, *(storm(quiet, seed, 3, 20.0) for seed in range(6)))]
    for trace in wrong:
        found = broken(check_all(trace, [AckQuorumIsReached]))
        if found and learner(list(trace.events)):
            raise Refused(
                "Your invariant must see the mistake when it is made: here an entry was confirmed"
                " with one acknowledgement, and your invariant holds.",
                RunCounterexample(trace, found[0]),
            )
    return f"True in {len(right)} runs of the real protocol, False in {len(wrong)} of the variant."
