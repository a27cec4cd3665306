"""The space-time diagram: a lane for each node, time downwards, messages as arrows from lane to
lane, drawn only from a trace.

The events on a node at one moment are one dot.  Messages without an answer end in a cross; while a
node is down, paused or cut off, its lane is broken.  An entry can be followed: the chain of causes
of its events stands out.  A click on a dot goes to its moment and marks its causes.

Read in this order: `words` (the words beside an event), `model` (lanes, messages, breaks), `layout`
(rows and lanes), `arrows` and `marks`, `picture` (the scene), and `SpaceTime` below.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from labkit.system.trace.events import Event
from labkit.views.widgets.playing import PlayingView
from labkit.views.widgets.run import DisplayedRun, RunSource, events_of
from labkit.views.widgets.scene import Mark
from labkit.views.widgets.scene_view import Message
from labkit.views.widgets.space_time.layout import ShownPart
from labkit.views.widgets.space_time.marks import legend
from labkit.views.widgets.space_time.model import diagram_of
from labkit.views.widgets.space_time.picture import SpaceTimePicture

FEW_ENTRIES = 8
"""The largest number of entries that are shown by default."""
ROWS, STILL_ROWS = 15, 60
"""The number of visible moments, while the view plays and in a stored picture."""

_SCALES = [["order", "each moment"], ["time", "real time"]]


class BrokenPromise(Protocol):
    """What the view needs from a verdict of `labkit.system.check`."""

    @property
    def name(self) -> str:
        """Of the promise."""

    @property
    def reason(self) -> str:
        """One sentence: how it broke."""

    @property
    def seq(self) -> int:
        """The event at which it broke, or -1."""


class SpaceTime(PlayingView):
    """Shows which node sent which message to which node, and when.

    source: a trace, or its events.
    ledger: its id; by default the newest.
    entries: the first and the last entry to show; by default all, up to `FEW_ENTRIES`, and around a
    broken promise the entries near it.
    window_ms: show only events in this period of the run.
    follow: the entry whose chain of causes stands out.
    broken: a promise that broke in that run; its event is marked.  A fork of the run is shown
    without it: there the event may be another one, or never come.
    at: the `seq` of the event at which the view opens; by default the last one before the epilogue,
    or the last one of all if a promise broke in the epilogue.
    """

    def __init__(
        self,
        source: RunSource,
        *,
        ledger: int | None = None,
        entries: tuple[int, int] | None = None,
        window_ms: tuple[float, float] | None = None,
        follow: int | None = None,
        broken: BrokenPromise | None = None,
        at: int | None = None,
    ) -> None:
        self._ledger, self._broke, self._at = ledger, broken, at
        self._wanted_entries, self._wanted_ms = entries, window_ms
        self.follow = -1 if follow is None else follow
        self.real_time = False
        super().__init__(source)

    entries: tuple[int, int]
    window_ms: tuple[float, float]
    follow: int
    """The choices; -1: no entry is followed."""
    real_time: bool
    """Whether the distances of rows follow their times, instead of one row for each moment."""

    @property
    def _broken(self) -> BrokenPromise | None:
        """The promise that broke in the run that is shown."""
        return None if self.forked_from else self._broke

    def open_run(self, source: Any) -> None:
        """Show another run; what the reader did not choose fits this one."""
        events = self._shown(events_of(source))
        self.entries = self._wanted_entries or _few(
            diagram_of(events, self._ledger).events, self._broken
        )
        last_us = max((event.time_us for event in events), default=0)
        self.window_ms = self._wanted_ms or (0.0, last_us / 1000)
        super().open_run(source)

    def picture(self, run: DisplayedRun) -> SpaceTimePicture:
        """The diagram before the first event."""
        return self._picture_of(run, ROWS)

    def legend(self) -> Mark:
        """The legend of the lines."""
        return legend()

    def opening(self) -> float:
        """The position at which the view opens, and to which it plays."""
        if self._at is not None:
            past = [event.seq for event in self.run.events if event.seq <= self._at]
            return self.run.at(past[-1]) if past else 0
        shown = self._shown(self.run.events)
        return super().opening() if len(shown) < len(self.run.events) else self.run.pace.end

    def words(self, beat: Sequence[Event]) -> str:
        """The words about a beat, and about a promise that broke."""
        broken = self._broken
        is_here = broken is not None and any(event.seq == broken.seq for event in beat)
        return super().words(beat) + (f". {self._story()} (broke here)" if is_here else "")

    def choices(self) -> list[Message]:
        """The choices: the entries and times to show, and the entry to follow."""
        last = max((event.entry for event in self.run.events), default=0)
        (first_entry, last_entry), (begin, end) = self.entries, self.window_ms
        options = [["-1", "nothing"]]
        options += [[str(entry), f"entry {entry}"] for entry in range(first_entry, last_entry + 1)]
        return (
            [
                _number("first", "Entries", first_entry, last, 1),
                _number("last", "to", last_entry, last, 1),
                _number("begin", "from ms", begin, self.run.events[-1].time_us / 1000, "any"),
                _number("end", "to ms", end, self.run.events[-1].time_us / 1000, "any"),
                {
                    **{"name": "follow", "label": "Follow", "kind": "choice"},
                    **{"options": options, "value": str(self.follow)},
                },
                {
                    **{"name": "real_time", "label": "Rows", "kind": "choice"},
                    **{"options": _SCALES, "value": "time" if self.real_time else "order"},
                },
                *super().choices(),
            ]
            if self.run.events
            else super().choices()
        )

    def chosen(self, name: str, value: Any) -> None:
        """Show other entries or times; an entry that is no longer shown is not followed."""
        (first, last), (begin, end) = self.entries, self.window_ms
        if name == "follow":
            self.follow = int(value)
        elif name == "real_time":
            self.real_time = value == "time"
        elif name in ("first", "last"):
            value = int(value)
            self.entries = self._wanted_entries = (
                (value, max(value, last)) if name == "first" else (min(first, value), value)
            )
        else:
            self.window_ms = self._wanted_ms = (
                (value, max(value, end)) if name == "begin" else (min(begin, value), value)
            )
        if not self.entries[0] <= self.follow <= self.entries[1]:
            self.follow = -1

    def svg(self) -> str:
        """The moment at which the view opens, with more rows than fit on a screen."""
        picture = self._picture_of(self.run, STILL_ROWS)
        for event in self.run.events:
            if self.run.at(event.seq) <= self.opening():
                picture.take(event)
        picture.hush()
        return self.still(picture.scene())

    def __repr__(self) -> str:
        words = str(self.scene().attributes["aria-label"])
        return f"{words}; broken: {self._broken.name}" if self._broken else words

    def _picture_of(self, run: DisplayedRun, rows: int) -> SpaceTimePicture:
        broken = (self._broken.seq, self._story()) if self._broken else None
        choice = ShownPart(self.entries, self.window_ms, self.follow, self.real_time)
        diagram = diagram_of(self._shown(run.events), self._ledger)
        return SpaceTimePicture(run, diagram, choice, broken, self.acts(), rows)

    def _story(self) -> str:
        return f"✘ {self._broken.name}: {self._broken.reason}" if self._broken else ""

    def _shown(self, events: Sequence[Event]) -> Sequence[Event]:
        """The events to show: without the epilogue, unless a promise broke in it."""
        start = next((i for i, e in enumerate(events) if e.kind == "epilogue.started"), None)
        if start is None or (self._broken and self._broken.seq >= events[start].seq):
            return events
        return events[:start]


def _few(events: Sequence[Event], broken: BrokenPromise | None) -> tuple[int, int]:
    """The first entries, or those around the one of the broken promise."""
    last = max((event.entry for event in events), default=0)
    if last < FEW_ENTRIES:
        return 0, max(last, 0)
    at = next((e.entry for e in events if broken is not None and e.seq == broken.seq), 0)
    first = max(0, at - FEW_ENTRIES // 2)
    return first, min(last, first + FEW_ENTRIES - 1)


def _number(name: str, label: str, value: float, most: float, step: Any) -> Message:
    """A field for a number from 0 to `most`."""
    return {"name": name, "label": label, "kind": "number", "value": value} | {
        **{"min": 0, "max": most, "step": step}
    }
