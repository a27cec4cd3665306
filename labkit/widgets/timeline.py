"""The timeline: a run from its first event to its last, and another future of it beside.

Scrub, play, step and rewind; every node's state at the moment; every event with what led to it; the
event at which a promise broke.  A fault of the palette, put at the chosen event, makes a fork: the
real code runs again, and the other future is shown beside the first, with their first difference.
Only a fork calls Python.

    TimelineView(PlayedRun(events))

`labkit.lessons.timeline.timeline` opens a simulated run here, with its verdicts and its faults.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import traitlets

from labkit.trace.events import Event
from labkit.trace.export import to_columns
from labkit.trace.sentence import COPIES, SENTENCES, describe
from labkit.widgets.cluster_svg import LEGEND
from labkit.widgets.feed import Message
from labkit.widgets.timeline_steps import BOTH, Step, first_difference, steps_of
from labkit.widgets.timeline_svg import timeline_svg
from labkit.widgets.view import View, joined


@dataclass(frozen=True, slots=True)
class Broken:
    """A promise that did not hold, the `seq` of the event where it broke, and those of the events
    that led there.
    """

    name: str
    promise: str
    reason: str
    seq: int
    lineage: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class PlayedRun:
    """A run as the timeline shows it.

    title: in a few words.  words: how its promises fared, in one sentence.  code: what makes it
    happen again, as Python.  bookies: those that exist whether or not an event names them.
    messages: `seq` of an event -> the message that it sent or that led to it.  first, last: `seq`
    between which faults can strike.  source: whatever `fork` needs.
    """

    events: Sequence[Event]
    title: str = "This run"
    words: str = ""
    code: str = ""
    broken: Sequence[Broken] = ()
    bookies: Sequence[str] = ()
    messages: Mapping[int, str] = field(default_factory=dict)
    first: int = 0
    last: int = -1
    source: Any = None

    def as_dict(self) -> dict[str, Any]:
        """What the browser gets."""
        return {
            "title": self.title,
            "words": self.words,
            "code": self.code,
            "broken": [
                [each.name, each.promise, each.reason, each.seq, list(each.lineage)]
                for each in self.broken
            ],
            "bookies": list(self.bookies),
            "messages": {str(seq): name for seq, name in self.messages.items()},
            "first": self.first,
            "last": self.last,
            "columns": to_columns(self.events),
        }


class CannotForkError(Exception):
    """This fault cannot be put there; the message says why."""


@dataclass(frozen=True, slots=True)
class Palette:
    """What can go wrong at an event.

    faults: name, label and the fields to fill in, in order: `node`, `target`, `disk`, `direction`,
    `extra_ms`, `for_ms`; `message` says that the event must have one.
    nodes: the names to choose from, the bookies first.
    fork: makes the other future of a run, given the `seq` of an event and the fault's name and
    fields.  Raises `CannotForkError`.
    """

    faults: Sequence[tuple[str, str, Sequence[str]]]
    nodes: Sequence[str]
    fork: Callable[[PlayedRun, int, Mapping[str, Any]], PlayedRun]


class TimelineView(View):
    """Shows a run, or two beside each other.

    at: the `seq` of the event of the first run at which it opens; by default where the first of its
    broken promises broke, else where the two part, else the end.
    """

    _esm = joined(
        *("elements.js", "events.js", "cluster_fold.js", "player.js", "cluster_grid.js"),
        *("timeline_fold.js", "timeline_scene.js", "timeline_list.js", "timeline_palette.js"),
        "timeline.js",
    )
    _css = joined("view.css", "cluster_view.css", "timeline.css")

    runs = traitlets.List(traitlets.Dict()).tag(sync=True)
    at = traitlets.Int(0).tag(sync=True)
    words = traitlets.Dict().tag(sync=True)
    palette = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        run: PlayedRun,
        other: PlayedRun | None = None,
        at: int | None = None,
        palette: Palette | None = None,
    ) -> None:
        self._fork = None if palette is None else palette.fork
        self._show(run, other)
        super().__init__(
            runs=[each.as_dict() for each in self.shown],
            at=self._opening(at),
            words={"sentences": SENTENCES, "copies": COPIES, "legend": LEGEND},
            palette={}
            if palette is None
            else {"faults": [list(each) for each in palette.faults], "nodes": list(palette.nodes)},
        )
        self.on_msg(self._received)

    shown: tuple[PlayedRun, ...]
    """The run, and the other future if there is one."""

    def svg(self) -> str:
        """The moment at which the view opens, as an SVG document."""
        return timeline_svg(self.shown, self._steps, self.at, repr(self))

    def __repr__(self) -> str:
        step = self._steps[self.at - 1] if self.at else Step(BOTH, 0, 0)
        parts = [f"Timeline: {len(self.shown[0].events)} events, here after {step.of_first}"]
        if step.of_first:
            parts.append(describe(self.shown[0].events[step.of_first - 1]))
        parts += [each.words for each in self.shown if each.words]
        return "; ".join(parts)

    def _show(self, run: PlayedRun, other: PlayedRun | None) -> None:
        self.shown = (run,) if other is None else (run, other)
        self._steps = steps_of(run.events, None if other is None else other.events)

    def _opening(self, seq: int | None) -> int:
        """The number of steps to the event of that `seq`, or to what is worth seeing first."""
        run = self.shown[0]
        if seq is None and run.broken:
            seq = run.broken[0].seq
        if seq is None:
            parting = first_difference(self._steps)
            return min(parting + 1, len(self._steps))
        wanted = next((n for n, each in enumerate(run.events, 1) if each.seq == seq), 0)
        return next((n for n, step in enumerate(self._steps, 1) if step.of_first == wanted), 0)

    # Forks

    def _received(self, _view: object, command: Message, _buffers: object) -> None:
        """A click.  A fork runs for a fraction of a second, right here."""
        if command["do"] == "keep" and len(self.shown) > 1:
            self._put(self.shown[1], None)
        elif command["do"] == "fork" and self._fork is not None:
            base = self.shown[min(command["run"], len(self.shown) - 1)]
            try:
                other = self._fork(base, command["seq"], command["fault"])
            except CannotForkError as error:
                self.send({"notice": str(error)})
            else:
                self._put(base, other)

    def _put(self, run: PlayedRun, other: PlayedRun | None) -> None:
        self._show(run, other)
        with self.hold_sync():
            self.at = min(first_difference(self._steps) + 1, len(self._steps))
            self.runs = [each.as_dict() for each in self.shown]
