"""A run in the timeline: what opens it, forks it, and shows it under a refused answer.

    timeline(Scenario(faults=(Crash("b1", when=At(5)),)))      one line in a notebook
    raise Refused("the rule", RunCounterexample(trace, verdict))        under a card, where it broke

The view itself knows events and plain values; here it gets a run's verdicts, the faults that can be
put at an event, and the real code to run again.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from labkit.course.checking.exercise import Refused
from labkit.course.runs.timeline_messages import messages_of
from labkit.system.check import Outcome, Verdict, check_all
from labkit.system.trace.events import Event
from labkit.system.trace.log import TraceLog
from labkit.views.widgets.timeline import BrokenPromise, Palette, PlayedRun, TimelineView
from labkit.worlds.sim.machine.zookeeper import METADATA_SERVER
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import (
    Crash,
    Fault,
    Partition,
    Pause,
    PowerCut,
    Reset,
    SlowDisk,
)
from labkit.worlds.sim.scenario.metadata_faults import SessionLoss
from labkit.worlds.sim.scenario.rerun_with_fault import CannotForkError, moment_of, reach
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import START, On
from labkit.worlds.sim.trace import Trace

Again = Callable[[Scenario], Trace]
"""Runs a scenario: `labkit.worlds.sim.run.run`, or with the learner's code in the real one."""

_MOST_LINES = 14


def timeline(
    source: Scenario | Trace | TraceLog | Sequence[Event],
    *,
    other: Scenario | Trace | None = None,
    at: int | None = None,
    promise: str = "",
    again: Again | None = run,
) -> TimelineView:
    """Open a run in the timeline; a scenario is run first.

    other: another future of it, shown beside.
    at: the `seq` of the event at which it opens; by default where the promise of that name (a
    check's), or the first that broke, broke.
    again: how a fork runs; None: no forks.  A log or bare events cannot be forked.
    """
    rerun = again or run
    if isinstance(source, Scenario):
        source = rerun(source)
    if not isinstance(source, Trace):
        events = source.events if isinstance(source, TraceLog) else source
        return TimelineView(_played(tuple(events), check_all(events), "The log"), at=at)
    first = played(source, promise=promise)
    second = None
    if other is not None:
        future = rerun(other) if isinstance(other, Scenario) else other
        second = played(future, _difference(source.scenario, future.scenario), promise)
    return TimelineView(first, second, at, _palette(source, again) if again else None)


def played(trace: Trace, title: str = "This run", promise: str = "") -> PlayedRun:
    """A simulated run as the timeline shows it; `promise` comes first of those that broke."""
    run_ = _played(trace.events, check_all(trace), title, promise)
    first, last = reach(trace.scenario, trace.events)
    return PlayedRun(
        run_.events,
        title,
        run_.words,
        repr(trace.scenario),
        run_.broken,
        trace.scenario.cluster.names,
        messages_of(trace),
        first,
        last,
        trace,
    )


@dataclass(frozen=True, slots=True)
class RunCounterexample:
    """The counterexample of a refused answer: a run, and the promise that broke in it.

    again: runs another scenario with the learner's code, for forks; None: it cannot be forked.
    """

    trace: Trace
    verdict: Verdict
    again: Again | None = None

    def __str__(self) -> str:
        return _words(self.verdict)

    def view(self) -> TimelineView:
        """The run in the timeline, opened where the promise broke."""
        seq = self.verdict.seq if self.verdict.seq >= 0 else None
        return timeline(self.trace, at=seq, promise=self.verdict.name, again=self.again)


@contextmanager
def shown_as(other: Callable[[Trace, Verdict], object]) -> Iterator[None]:
    """Show the counterexamples of answers that are refused inside in another view."""
    try:
        yield
    except Refused as refused:
        found = refused.counterexample
        if not isinstance(found, RunCounterexample):
            raise
        raise Refused(refused.message, other(found.trace, found.verdict)) from None


@dataclass(frozen=True, slots=True, repr=False)
class LiveRunCounterexample:
    """The same for a live run, which cannot be forked."""

    log: TraceLog
    verdict: Verdict

    def __str__(self) -> str:
        return _words(self.verdict)

    def view(self) -> TimelineView:
        """The run in the timeline, opened where the verdict says."""
        return timeline(self.log, at=self.verdict.seq if self.verdict.seq >= 0 else None)


def _words(verdict: Verdict) -> str:
    lines = verdict.sequence.splitlines()
    if len(lines) > _MOST_LINES:
        lines = ["  ...", *lines[-_MOST_LINES:]]
    return "\n".join((f"{verdict.name}: {verdict.reason}", *lines))


def _played(
    events: Sequence[Event], verdicts: Sequence[Verdict], title: str, promise: str = ""
) -> PlayedRun:
    broken = [each for each in verdicts if each.outcome is Outcome.INVALID]
    broken.sort(key=lambda each: each.name != promise)
    words = ", ".join(each.name for each in broken)
    tested = sum(each.outcome is not Outcome.UNKNOWN for each in verdicts)
    held = f"no promise broke; {tested} of {len(verdicts)} checks had something to check here"
    return PlayedRun(
        events,
        title,
        f"✘ broken: {words}" if broken else f"✔ {held}",
        broken=[
            BrokenPromise(
                each.name,
                each.promise,
                each.reason,
                each.seq,
                [event.seq for event in each.lineage],
            )
            for each in broken
        ],
    )


# Forks

_FAULTS = (
    ("lose", "Lose this message", ("message",)),
    ("delay", "Delay this message", ("message", "extra_ms")),
    ("crash", "Crash a node", ("node", "disk", "for_ms")),
    ("pause", "Pause a node", ("node", "for_ms")),
    ("cut", "Cut a link", ("node", "target", "direction", "for_ms")),
    ("reset", "Break the connections", ("node", "target")),
    ("session", "Lose a metadata session", ("node",)),
    ("slow", "Slow a bookie's disks", ("node", "extra_ms", "for_ms")),
    ("power", "Cut the power of all bookies", ("disk", "for_ms")),
)


def _palette(trace: Trace, again: Again) -> Palette:
    clients = dict.fromkeys(step.client for step in trace.scenario.workload)
    nodes = (*trace.scenario.cluster.names, *clients, METADATA_SERVER)

    def fork(base: PlayedRun, seq: int, fields: Mapping[str, Any]) -> PlayedRun:
        scenario = base.source.scenario
        changed = forked(base.source, seq, fields)
        return played(again(changed), _difference(scenario, changed))

    return Palette(_FAULTS, nodes, fork)


def forked(trace: Trace, seq: int, fields: Mapping[str, Any]) -> Scenario:
    """The run's scenario with a fault of the palette at that event.

    Raises `CannotForkError` where no fault can strike, and `BKIncorrectParameterException`.
    """
    name = fields["name"]
    if name in ("lose", "delay"):
        message = messages_of(trace).get(seq)
        if message is None:
            raise CannotForkError("this event sent no message, and none led to it")
        value = 1.0 if name == "lose" else float(fields["extra_ms"])
        return trace.scenario.with_decision(f"{name} {message}", value)
    if name == "slow" and fields["node"] not in trace.scenario.cluster.names:
        raise CannotForkError("only bookies have disks")
    if name not in ("cut", "reset") and fields.get("node") == METADATA_SERVER:
        raise CannotForkError("the metadata server never fails; its links and sessions do")
    return trace.scenario.with_fault(
        _fault(name, fields, moment_of(trace.scenario, trace.events, seq))
    )


def _fault(name: str, fields: Mapping[str, Any], when: On) -> Fault:
    node, target = str(fields.get("node", "")), str(fields.get("target", ""))
    disk = str(fields.get("disk", "kept"))
    for_ms, extra_ms = float(fields.get("for_ms", 0)), float(fields.get("extra_ms", 20))
    direction = str(fields.get("direction", "both"))
    makers: dict[str, Callable[[], Fault]] = {
        "crash": lambda: Crash(node, disk, for_ms, when),
        "pause": lambda: Pause(node, for_ms, when),
        "cut": lambda: Partition((node,), (target,) * bool(target), direction, for_ms, when),
        "reset": lambda: Reset(node, target, when),
        "session": lambda: SessionLoss(node, when),
        "slow": lambda: SlowDisk(node, extra_ms, for_ms, when),
        "power": lambda: PowerCut(disk, for_ms, when),
    }
    return makers[name]()


def _difference(scenario: Scenario, other: Scenario) -> str:
    """What the other scenario has that the first has not, as a title."""
    parts = [
        repr(replace(fault, when=START)) for fault in other.faults if fault not in scenario.faults
    ]
    parts += [
        f"{name}: {value:g}"
        for name, value in other.decisions.items()
        if scenario.decisions.get(name) != value
    ]
    if other.variant != scenario.variant:
        parts.append(other.variant or "the real thing")
    return f"With {', '.join(parts)}" if parts else "The other run"
