"""Opens a run in the timeline, forks it, and shows it as the counterexample of a refused answer.

    timeline(Scenario(faults=(Crash("b1", when=At(5)),)))      in a notebook
    raise Refused("the rule", RunCounterexample(trace, verdict))        shown below a card

The view itself only handles events and plain values. This module provides the broken promises, the
faults that can be injected at an event, and the function that runs a forked scenario.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from labkit.course.checking.refused import Refused
from labkit.course.runs.timeline_messages import messages_of
from labkit.system.check import Outcome, Verdict, check_all
from labkit.system.trace.events import Event
from labkit.system.trace.log import TraceLog
from labkit.views.widgets.playing import PlayingView
from labkit.views.widgets.run import time_words
from labkit.views.widgets.timeline import BrokenPromise, Palette, PlayedRun, TimelineView
from labkit.views.widgets.verdict_words import failure_of
from labkit.worlds.sim.machine.zookeeper import METADATA_SERVER
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import (
    Crash,
    Fault,
    Partition,
    Pause,
    PowerCut,
    Reset,
    SessionLoss,
    SlowDisk,
)
from labkit.worlds.sim.scenario.rerun_with_fault import CannotForkError, moment_of
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.triggers import START, On
from labkit.worlds.sim.trace import Trace

Again = Callable[[Scenario], Trace]
"""Runs a scenario, as `labkit.worlds.sim.run.run` does, possibly with the learner's code."""

_MAX_LINES = 14


def timeline(
    source: Scenario | Trace | TraceLog | Sequence[Event],
    *,
    other: Scenario | Trace | None = None,
    at: int | None = None,
    promise: str = "",
    again: Again | None = run,
) -> TimelineView:
    """Open a run in the timeline; if `source` is a scenario, run it first.

    other: an alternative run, which is shown next to the first one.
    at: the `seq` of the event to open; by default, the event at which the check named `promise`
        failed or, if `promise` is empty, the first event at which a promise broke.
    again: the function that runs a fork; None disables forks. A log or a plain sequence of events
        cannot be forked.
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
    """Return a simulated run in the form that the timeline expects.

    If the run broke `promise`, this promise is listed first among the broken promises.
    """
    run_ = _played(trace.events, check_all(trace), title, promise)
    return replace(
        run_,
        code=repr(trace.scenario),
        bookies=trace.scenario.cluster.names,
        messages=messages_of(trace),
        source=trace,
    )


@dataclass(frozen=True, slots=True)
class RunCounterexample:
    """The counterexample to a rejected answer, consisting of a run and the promise that the run
    broke.

    again: the function that runs a forked scenario with the learner's code; None disables forks.
    """

    trace: Trace
    verdict: Verdict
    again: Again | None = None

    def __str__(self) -> str:
        return _words(self.verdict)

    def link(self, code: str = "") -> str:
        return self.trace.link(at=self.verdict.seq, code=code)

    def view(self) -> PlayingView:
        seq = self.verdict.seq if self.verdict.seq >= 0 else None
        return timeline(self.trace, at=seq, promise=self.verdict.name, again=self.again)


@contextmanager
def showing_counterexamples_in(other: Callable[[Trace, Verdict], object]) -> Iterator[None]:
    """If an answer is refused inside the `with` block, use `other` to show the counterexample."""
    try:
        yield
    except Refused as refused:
        found = refused.counterexample
        if not isinstance(found, RunCounterexample):
            raise
        raise Refused(refused.message, other(found.trace, found.verdict)) from None


@dataclass(frozen=True, slots=True, repr=False)
class LiveRunCounterexample:
    """The counterexample from a live run, which cannot be forked."""

    log: TraceLog
    verdict: Verdict

    def __str__(self) -> str:
        return _words(self.verdict)

    def view(self) -> TimelineView:
        return timeline(self.log, at=self.verdict.seq if self.verdict.seq >= 0 else None)


def _words(verdict: Verdict) -> str:
    lines = verdict.sequence.splitlines()
    if len(lines) > _MAX_LINES:
        lines = ["  ...", *lines[-_MAX_LINES:]]
    return "\n".join((f"{verdict.name}: {verdict.reason}", *lines))


def _played(
    events: Sequence[Event], verdicts: Sequence[Verdict], title: str, promise: str = ""
) -> PlayedRun:
    broken = [each for each in verdicts if each.outcome is Outcome.INVALID]
    broken.sort(key=lambda each: each.name != promise)
    failures = "; ".join(failure_of(each.name) for each in broken)
    tested = sum(each.outcome is not Outcome.UNKNOWN for each in verdicts)
    return PlayedRun(
        events,
        title,
        f"✘ {failures}" if broken else "✔ no promise was broken",
        f"{tested} of {len(verdicts)} checks applied to this run"
        + "".join(f"; event {each.seq} broke {each.name}" for each in broken),
        broken=[
            BrokenPromise(
                each.name,
                each.promise,
                f"At {time_words(each.time_us)}" if each.time_us >= 0 else "",
                each.explanation,
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


_QUESTIONS = {
    "lose": "this message is lost",
    "delay": "this message is late",
    "crash": "{node} crashes here",
    "pause": "{node} pauses here",
    "cut": "the link between {node} and {target} is cut here",
    "isolate": "{node} is cut off here",
    "reset": "the connections between {node} and {target} break here",
    "session": "{node} loses its metadata session here",
    "slow": "the disks of {node} are slow here",
    "power": "the power fails here",
}
"""The question that a fork answers, by the fault's name."""


def _palette(trace: Trace, again: Again) -> Palette:
    clients = dict.fromkeys(step.client for step in trace.scenario.workload)
    nodes = (*trace.scenario.cluster.names, *clients, METADATA_SERVER)

    def fork(base: PlayedRun, seq: int, fields: Mapping[str, Any]) -> PlayedRun:
        name = "isolate" if fields["name"] == "cut" and not fields["target"] else fields["name"]
        title = f"What if {_QUESTIONS[name].format_map(fields)}?"
        return played(again(forked(base.source, seq, fields)), title)

    return Palette(_FAULTS, nodes, fork)


def forked(trace: Trace, seq: int, fields: Mapping[str, Any]) -> Scenario:
    """Return the run's scenario with a fault from the palette injected at that event.

    Raises `CannotForkError` if the fault cannot be injected at the event, and
    `BKIncorrectParameterException` if the fault is invalid.
    """
    name = fields["name"]
    if name in ("lose", "delay"):
        message = messages_of(trace).get(seq)
        if message is None:
            raise CannotForkError("this event neither sent a message nor was caused by one")
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
    """Return a title that lists the additional faults and decisions of the other scenario, and its
    variant.
    """
    parts = [
        repr(replace(fault, when=START)) for fault in other.faults if fault not in scenario.faults
    ]
    parts += [
        f"{name}: {value:g}"
        for name, value in other.decisions.items()
        if scenario.decisions.get(name) != value
    ]
    if other.variant != scenario.variant:
        parts.append(other.variant or "the real protocol")
    return f"With {', '.join(parts)}" if parts else "The other run"
