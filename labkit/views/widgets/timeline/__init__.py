"""The timeline: a run from its first event to its last, and beside it another future of the run.

It shows every node's state at the moment, every event with its causes, and the event at which a
promise broke.  A fault from the palette, after the moment's event, makes a fork: the real code runs
again, and the other future is shown beside the first, with their first difference.

    TimelineView(PlayedRun(events))

`labkit.course.runs.timeline.timeline` opens a simulated run in this view, with its verdicts and
faults.

Read in this order: `runs`, `steps` (two runs as one list), `fold` (what surrounds the entries),
`panel` (one run at a moment), `story` (events and causes), `picture` (the scene), `palette`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from labkit.system.model.errors import LabkitError
from labkit.system.trace.events import Event
from labkit.system.trace.sentence import describe
from labkit.views.widgets.cluster.cells import legend
from labkit.views.widgets.playing import FAULTS, PlayingView
from labkit.views.widgets.run import DisplayedRun
from labkit.views.widgets.scene import Mark
from labkit.views.widgets.scene_view import Message
from labkit.views.widgets.timeline.palette import Form
from labkit.views.widgets.timeline.picture import TimelinePicture
from labkit.views.widgets.timeline.runs import BrokenPromise, Palette, PlayedRun
from labkit.views.widgets.timeline.steps import BOTH, FIRST, MergedStep, first_difference, steps_of

__all__ = ["BrokenPromise", "Palette", "PlayedRun", "TimelineView"]

_TROUBLES = ("node.killed", "node.paused", "node.failed", "link.cut", "session.lost")


class TimelineView(PlayingView):
    """Shows a run, or two runs beside each other.

    at: the `seq` of the event of the first run at which the view opens; by default the event at
    which its first promise broke, else the first difference of the two runs, else the end.
    """

    def __init__(
        self,
        run: PlayedRun,
        other: PlayedRun | None = None,
        at: int | None = None,
        palette: Palette | None = None,
    ) -> None:
        self._form = None if palette is None else Form(palette)
        self._fork_of = None if palette is None else palette.fork
        self._ledger: int | None = None
        self._filters = {"of node": "", "of kind": ""}
        self._show(run, other)
        self.at = self._opening(at)
        super().__init__(self._merged())

    shown: tuple[PlayedRun, ...]
    """The run, and the other future if there is one."""
    at: int
    """The number of steps after which the view opens."""

    def picture(self, run: DisplayedRun) -> TimelinePicture:
        """Both runs before their first event."""
        picture = TimelinePicture(self.shown, self._steps, run, self._ledger, self.acts())
        node, kind = self._filters["of node"], self._filters["of kind"]
        picture.story.listed = [
            event.seq
            for event in run.events
            if node in ("", event.node, event.peer) and _is_kind(event, kind)
        ]
        return picture

    def legend(self) -> Mark:
        """The legend of the signs."""
        return legend()

    def texts(self) -> list[tuple[str, str]]:
        """The code of each run that has one."""
        codes = [f"{run.title}\n{run.code}" for run in self.shown if run.code]
        return [("What makes it happen again", "\n\n".join(codes))] if codes else []

    def acts(self) -> tuple[str, ...]:
        """The faults for a bookie that the palette has."""
        return () if self._form is None else FAULTS

    def opening(self) -> float:
        """The position at which the view opens, and to which it plays."""
        return self.run.at(self.at - 1) if self.at else 0

    def beats(self, events: Sequence[Event]) -> list[list[Event]]:
        """Each event is a step, after which a fault may happen."""
        return [[event] for event in events]

    def words(self, beat: Sequence[Event]) -> str:
        """The words about an event: its run, what happened, and a promise that broke."""
        number = beat[-1].seq
        which, event = self.current_picture.story.event(number)
        step = self._steps[number].which
        whose = {BOTH: "", FIRST: "Only in the first run: "}.get(step, "Only in the other: ")
        broke = next((each for each in self.shown[which].broken if each.seq == event.seq), None)
        why = f". ✘ {broke.name} broke here. {broke.promise} {broke.reason}" if broke else ""
        return f"{whose}{describe(event)}{why}"

    def choices(self) -> list[Message]:
        """The choices: the ledger, the list's events, and the palette."""
        events = self.run.events
        nodes = sorted({event.node for event in events})
        groups = sorted({event.kind.split(".")[0] for event in events})
        kinds = [["", "all kinds"], ["!", "faults only"], *([f"{g}.", f"{g} …"] for g in groups)]
        ledgers = sorted({event.ledger for event in events if event.ledger >= 0}, reverse=True)
        found = [
            _choice(
                "of node", "List", self._filters, [["", "all nodes"], *([n, n] for n in nodes)]
            ),
            _choice("of kind", "of", self._filters, kinds),
        ]
        if len(ledgers) > 1:
            options = [["", "the newest ledger"], *([str(i), f"ledger {i}"] for i in ledgers)]
            value = "" if self._ledger is None else str(self._ledger)
            found.insert(0, _choice("ledger", "Shows", {"ledger": value}, options))
        found += self._form.choices() if self._form else []
        if len(self.shown) > 1 and self._form:
            label = "Go on from the other future"
            found.append({"name": "keep", "label": label, "kind": "button"})
        return found

    def choose(self, name: str, value: Any, seq: int) -> None:
        """Handle a choice; one without effect on the picture makes no new film."""
        if name == "keep":
            self.put(self.shown[1], None, self._steps[seq].of_other if seq >= 0 else 0)
        elif name == "fork" and self._form:
            self._fork_at(seq, self._form.fault())
        elif self._form and name in self._form.values:
            self._form.values[name] = value
            self.controls = self.choices()
        elif name == "ledger":
            self._ledger = int(value) if value else None
            self.redraw()
        else:
            self._filters[name] = value
            self.redraw()

    def pressed(self, act: str, on: str, seq: int) -> None:
        """Handle a fault in the button's run."""
        if act not in FAULTS or self._form is None:
            super().pressed(act, on, seq)
            return
        crash = {"name": "crash", "disk": "kept"}
        cut = {"name": "cut", "target": "", "direction": "both"}
        fault = {"kill": crash, "pause": {"name": "pause"}, "cut": cut}[act]
        which, _, node = on.partition(":")
        self._fork_at(seq, {"for_ms": 0, **fault, "node": node}, int(which))

    def __repr__(self) -> str:
        step = self._steps[self.at - 1] if self.at else MergedStep(BOTH, 0, 0)
        parts = [f"Timeline: {len(self.shown[0].events)} events, here after {step.of_first}"]
        if step.of_first:
            parts.append(describe(self.shown[0].events[step.of_first - 1]))
        parts += [each.words for each in self.shown if each.words]
        return "; ".join(parts)

    # Runs and forks

    def _show(self, run: PlayedRun, other: PlayedRun | None) -> None:
        self.shown = (run,) if other is None else (run, other)
        self._steps = steps_of(run.events, None if other is None else other.events)

    def _merged(self) -> list[Event]:
        """The steps as events: numbered as steps, and so are their causes."""
        numbers: tuple[dict[int, int], ...] = ({}, {})
        merged = []
        for number, step in enumerate(self._steps):
            which = int(step.which not in (BOTH, FIRST))
            row = (step.of_first, step.of_other)[which]
            event = self.shown[which].events[row - 1]
            merged.append(event._replace(seq=number, cause=numbers[which].get(event.cause, -1)))
            numbers[which][event.seq] = number
            if step.which == BOTH and len(self.shown) > 1:
                numbers[1][self.shown[1].events[step.of_other - 1].seq] = number
        return merged

    def _opening(self, seq: int | None) -> int:
        """The number of steps to the event with this `seq`, or to the default opening."""
        run = self.shown[0]
        if seq is None and run.broken:
            seq = run.broken[0].seq
        if seq is None:
            return min(first_difference(self._steps) + 1, len(self._steps))
        wanted = next((n for n, each in enumerate(run.events, 1) if each.seq == seq), 0)
        return next((n for n, step in enumerate(self._steps, 1) if step.of_first == wanted), 0)

    def _fork_at(self, number: int, fault: Mapping[str, Any], which: int = -1) -> None:
        """The future in which the fault happens just after the step, in the given run or the step's
        own.  A fork runs for a fraction of a second, in this process.
        """
        if self._fork_of is None:
            return
        step = self._steps[number] if number >= 0 else MergedStep(BOTH, 0, 0)
        which = which if which >= 0 else int(step.which not in (BOTH, FIRST))
        base, row = self.shown[which], (step.of_first, step.of_other)[which]
        try:
            other = self._fork_of(base, base.events[row - 1].seq if row else -1, fault)
        except LabkitError as error:
            self.notice = str(error)
        else:
            self.put(base, other)

    def put(self, run: PlayedRun, other: PlayedRun | None, at: int | None = None) -> None:
        """Show the run, and a fork of it beside it.

        at: the number of steps after which it opens; by default where the two begin to differ.
        """
        self._show(run, other)
        differ = min(first_difference(self._steps) + 1, len(self._steps))
        self.at = differ if at is None else at
        self.open_run(self._merged())
        self.redraw()


def _choice(name: str, label: str, values: Mapping[str, str], options: list[Any]) -> Message:
    choice = {"name": name, "label": label, "kind": "choice", "options": options}
    return {**choice, "value": values[name]}


def _is_kind(event: Event, kind: str) -> bool:
    if kind == "!":
        return event.kind in _TROUBLES or event.kind.startswith(("message.", "disk.", "clock."))
    return event.kind.startswith(kind)
