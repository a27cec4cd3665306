"""The timeline: a run from its first event to its last, optionally with an alternative future next
to it.

The timeline shows the state of every node at the current moment, every event with its causes, and
the event at which a promise was broken. The reader can choose a fault from the palette to inject it
right after the current event. This forks the run: the real code runs again with the fault, and the
alternative future is shown next to the original run, starting at the first difference between them.

    TimelineView(PlayedRun(events))

`labkit.course.runs.timeline.timeline` opens a simulated run in this view, with its verdicts and
faults.

Read the modules in this order: `runs`, `steps` (two runs as one list), `fold` (everything except
the entries), `panel` (one run at a moment), `story` (events and causes), `picture` (the scene),
`fault_form`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from labkit.system.model.errors import LabkitError
from labkit.system.trace.cluster_state import by_number
from labkit.system.trace.events import Event
from labkit.views.widgets.acts import Acts
from labkit.views.widgets.controls import Control, button, choice
from labkit.views.widgets.drawing.plurals import counted
from labkit.views.widgets.future_search import Foreseeable
from labkit.views.widgets.playing import FAULTS, PlayingView
from labkit.views.widgets.run import DisplayedRun
from labkit.views.widgets.timeline.fault_form import FaultForm
from labkit.views.widgets.timeline.picture import TimelinePicture
from labkit.views.widgets.timeline.runs import BrokenPromise, Palette, PlayedRun
from labkit.views.widgets.timeline.steps import (
    BOTH,
    MergedStep,
    epilogue_of,
    first_difference,
    steps_of,
)
from labkit.views.widgets.verdict_words import failure_of

__all__ = ["BrokenPromise", "Palette", "PlayedRun", "TimelineView"]

WITH_FAULTS = "What happened in this run, why, and what if a fault struck at this moment?"
"""The question of a timeline in which the reader can inject faults."""
_FAULT_KINDS = frozenset(
    {
        *("node.killed", "node.paused", "node.failed", "link.cut", "session.lost"),
        *("message.lost", "message.copied", "message.swapped", "clock.skewed"),
        *("disk.bad", "disk.rotted", "bookie.formatted", "metadata.hung"),
    }
)


class TimelineView(PlayingView):
    """Shows a run, or two runs side by side.

    at: the event at which the view opens, given as its `seq` in the first run. The default is the
    event at which the run's first promise was broken; if none was broken, the first difference
    between the two runs; and if there is no difference, the end.
    """

    question = "What happened in this run, and why?"
    linked_as = "TimelineView"
    names: ClassVar[tuple[str, str]] = ("original", "fork")
    """The names of the two runs in sentences."""

    def __init__(
        self,
        run: PlayedRun,
        other: PlayedRun | None = None,
        at: int | None = None,
        palette: Palette | None = None,
    ) -> None:
        self._fault_form = None if palette is None else FaultForm(palette)
        if palette:
            self.question = WITH_FAULTS
        self._ledger: int | None = None
        self._filters = {"of node": "", "of kind": ""}
        # The fault of the fork and the fault's bookie, if that bookie can have a button that undoes
        # the fault.
        self._fault: tuple[str, str] = ("", "")
        self._show(run, other)
        self.at = self._opening(at)
        super().__init__(self._merged())

    shown: tuple[PlayedRun, ...]
    """The run and, if there is one, the alternative future."""
    at: int
    """The number of steps after which the view opens."""

    def picture(self, run: DisplayedRun, acts: Acts) -> TimelinePicture:
        picture = TimelinePicture(self.shown, self.names, self._steps, run, self._ledger, acts)
        node, kind = self._filters["of node"], self._filters["of kind"]
        picture.event_list.listed = [
            event.seq
            for event in run.events
            if node in ("", event.node, event.peer)
            and (event.kind in _FAULT_KINDS if kind == "!" else event.kind.startswith(kind))
        ]
        return picture

    def texts(self) -> list[tuple[str, str]]:
        codes = [f"{run.title}\n{run.code}" for run in self.shown if run.code]
        return [("Code that reproduces this run", "\n\n".join(codes))] if codes else []

    def acts(self) -> Acts:
        return Acts() if self._fault_form is None else Acts(FAULTS, *self._fault)

    def verdict(self) -> str:
        run = self.shown[-1]
        broken = "; ".join(failure_of(each.name) for each in run.broken)
        return f"✘ {broken}" if broken else run.words

    def selection(self) -> dict[str, Any]:
        node, kind = self._filters["of node"], self._filters["of kind"]
        return {"ledger": self._ledger, "event_node": node, "event_kind": kind}

    def link(self) -> str:
        source = self.shown[0].source
        if source is None:
            return ""
        fork = self.shown[1].source if len(self.shown) > 1 else None
        return str(source.link(self.linked_as, self.selection(), fork=fork))

    def opening(self) -> float:
        return self.run.at(self.at - 1) if self.at else 0

    def beats(self, events: Sequence[Event]) -> list[list[Event]]:
        """Return each event as a separate beat, because a fault can be injected after each."""
        return [[event] for event in events]

    def words(self, beat: Sequence[Event]) -> str:
        """Describe an event: the run to which it belongs, what happened, and the promise that it
        broke, if any.
        """
        number = beat[-1].seq
        events = self.current_picture.event_list
        which, event = events.event(number)
        name = events.only_in(number)
        whose = f"Only in the {name}: " if name else ""
        broke = next((each for each in self.shown[which].broken if each.seq == event.seq), None)
        why = f". ✘ Broken here: {broke.explanation} {broke.promise}" if broke else ""
        return f"{whose}{self.shown[which].sentence(event)}{why}"

    def choices(self) -> list[Control]:
        events = self.run.events
        nodes = sorted({event.node for event in events}, key=by_number)
        groups = sorted({event.kind.split(".")[0] for event in events})
        kinds = [("", "all kinds"), ("!", "only faults"), *((f"{g}.", f"{g} …") for g in groups)]
        ledgers = sorted({event.ledger for event in events if event.ledger >= 0}, reverse=True)
        of_node = [("", "all nodes"), *((name, name) for name in nodes)]
        found = []
        if len(ledgers) > 1:
            options = [("", "the newest ledger"), *((str(i), f"ledger {i}") for i in ledgers)]
            value = "" if self._ledger is None else str(self._ledger)
            found.append(choice("ledger", "Shows", value, options))
        found.append(choice("of node", "Events of", self._filters["of node"], of_node))
        found.append(choice("of kind", "kind", self._filters["of kind"], kinds))
        found += self.search_control()
        found += self._fault_form.choices() if self._fault_form else []
        if len(self.shown) > 1 and self._fault_form:
            found.append(button("keep", "Continue with the fork"))
            found.append(button("undo", "Undo the fork"))
        return found

    def choose(self, name: str, value: Any, seq: int) -> None:
        """Handle a choice; rebuild the film only if the choice affects the picture."""
        if name == "keep":
            self.put(self.shown[1], None, self._steps[seq].of_other if seq >= 0 else 0)
        elif name == "futures":
            super().choose(name, value, seq)
        elif name == "undo":
            self._undo()
        elif name == "fork" and self._fault_form:
            self._fork_at(seq, self._fault_form.fault())
        elif self._fault_form and name in self._fault_form.values:
            self._fault_form.values[name] = value
            self.controls = self.choices()
        elif name == "ledger":
            self._ledger = int(value) if value else None
            self.redraw()
        else:
            self._filters[name] = value
            self.redraw()

    def pressed(self, act: str, on: str, seq: int) -> None:
        if act == "undo" and len(self.shown) > 1:
            self._undo()
            return
        if act not in FAULTS or self._fault_form is None:
            super().pressed(act, on, seq)
            return
        crash = {"name": "crash", "disk": "kept"}
        cut = {"name": "cut", "target": "", "direction": "both"}
        fault = {"kill": crash, "pause": {"name": "pause"}, "cut": cut}[act]
        which, _, node = on.partition(":")
        self._fork_at(seq, {"for_ms": 0, **fault, "node": node}, int(which))

    def __repr__(self) -> str:
        step = self._steps[self.at - 1] if self.at else MergedStep(BOTH, 0, 0)
        parts = [
            f"Timeline: {counted(len(self.shown[0].events), 'event')}, shown after {step.of_first}"
        ]
        if step.of_first:
            parts.append(self.shown[0].sentence(self.shown[0].events[step.of_first - 1]))
        parts += [each.words for each in self.shown if each.words]
        return "; ".join(parts)

    def foreseeable(self) -> tuple[Foreseeable, str] | None:
        run = self.shown[0]
        is_foreseeable = self._fault_form and isinstance(run.source, Foreseeable)
        if len(self.shown) > 1 or not run.broken or not is_foreseeable:
            return None
        return run.source, run.broken[0].name

    # Runs and forks

    def _show(self, run: PlayedRun, other: PlayedRun | None) -> None:
        self.shown = (run,) if other is None else (run, other)
        self._steps = steps_of(run.events, None if other is None else other.events)
        one, two = (epilogue_of(each.events) for each in (run, other or run))
        self._last = sum(step.of_first <= one and step.of_other <= two for step in self._steps)

    def _merged(self) -> list[Event]:
        """Return the steps as events, in which step numbers replace the values of `seq` and
        `cause`.
        """
        numbers: tuple[dict[int, int], ...] = ({}, {})
        merged = []
        for number, step in enumerate(self._steps):
            which, at = step.place
            event = self.shown[which].events[at]
            merged.append(event._replace(seq=number, cause=numbers[which].get(event.cause, -1)))
            numbers[which][event.seq] = number
            if step.which == BOTH and len(self.shown) > 1:
                numbers[1][self.shown[1].events[step.of_other - 1].seq] = number
        return merged

    def _opening(self, seq: int | None) -> int:
        """Return the number of steps up to the event with this `seq` or, if it is None, up to the
        default opening.
        """
        run = self.shown[0]
        if seq is None and run.broken:
            seq = run.broken[0].seq
        if seq is None:
            return min(first_difference(self._steps) + 1, self._last)
        wanted = next((n for n, each in enumerate(run.events, 1) if each.seq == seq), 0)
        return next((n for n, step in enumerate(self._steps, 1) if step.of_first == wanted), 0)

    def _fork_at(self, number: int, fault: Mapping[str, Any], which: int = -1) -> None:
        """Fork a run right after the step with this number. `which` selects the run; by default, it
        is the run to which the step belongs. The fork runs in this process and takes a fraction of
        a second.
        """
        if self._fault_form is None:
            return
        step = self._steps[number] if number >= 0 else MergedStep(BOTH, 0, 0)
        which = which if which >= 0 else step.place[0]
        base, row = self.shown[which], (step.of_first, step.of_other)[which]
        try:
            other = self._fault_form.palette.fork(
                base, base.events[row - 1].seq if row else -1, fault
            )
        except LabkitError as error:
            self.notice = str(error)
        else:
            undo = {"crash": "kill", "pause": "pause", "cut": "cut"}.get(fault["name"], "")
            self.put(base, other, fault=(undo, fault["node"] if undo else ""))

    def _undo(self) -> None:
        self.put(self.shown[0], None, first_difference(self._steps))

    def put(
        self,
        run: PlayedRun,
        other: PlayedRun | None,
        at: int | None = None,
        fault: tuple[str, str] = ("", ""),
    ) -> None:
        """Show the run and, if `other` is given, a fork of the run next to it.

        at: the number of steps after which the view opens. By default, it opens at the first
        difference between the two runs.
        """
        self._show(run, other)
        self._fault = fault
        differ = min(first_difference(self._steps) + 1, self._last)
        self.at = differ if at is None else at
        self.open_run(self._merged())
        self.update_page()
