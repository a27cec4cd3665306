"""The space-time diagram: lanes are nodes, time runs downwards, and messages are arrows.

Simultaneous events on a node share a dot. The arrow of an unanswered message ends in a cross. A
lane is broken while its node is down, paused or cut off.

Read `words` (the text of labels) first, then `model` (lanes, messages, breaks), `layout` (rows and
lanes), `labels` (the positions of labels), `arrows` and `marks`, `picture` (the scene), and
`SpaceTime`.
"""

from collections.abc import Sequence
from math import inf
from typing import Any

from labkit.system.check import Verdict
from labkit.system.trace.events import Event
from labkit.views.widgets.acts import NO_ACTS, Acts
from labkit.views.widgets.captions import hide_explanations
from labkit.views.widgets.controls import Control, choice, number
from labkit.views.widgets.playing import PlayingView
from labkit.views.widgets.run import DisplayedRun, RunSource, events_of
from labkit.views.widgets.space_time.layout import ShownPart
from labkit.views.widgets.space_time.model import diagram_of
from labkit.views.widgets.space_time.picture import SpaceTimePicture
from labkit.views.widgets.verdict_words import failure_of

DEFAULT_ENTRY_COUNT = 8
"""The maximum number of entries that are shown by default."""
ROWS, STILL_ROWS = 14, 60
"""The number of visible rows while the view plays, and in a stored picture."""

_SCALES = (("order", "one per moment"), ("time", "spaced by time"))


class SpaceTime(PlayingView):
    """Shows which node sent which message to which other node, and when.

    source: a trace, or its events.
    ledger: the id of the ledger to show; by default, the newest one.
    entries: the first and the last entry to show. By default, at most `DEFAULT_ENTRY_COUNT` entries
        are shown: those near the broken promise, or the first ones.
    window_ms: the period of the run to show, from start to end.
    follow: the entry whose causal chain is emphasized.
    broken: a promise that was broken in this run. The event that broke it is marked, except in
        forks of the run, in which it may not happen.
    at: the `seq` of the event at which the view opens. By default, this is the last event before
        the epilogue, or the last event of all if a promise was broken in the epilogue.
    """

    question = "Which node sent what to whom, and when? Time runs downwards."
    linked_as = "SpaceTime"

    def __init__(
        self,
        source: RunSource,
        *,
        ledger: int | None = None,
        entries: tuple[int, int] | None = None,
        window_ms: tuple[float, float] | None = None,
        follow: int | None = None,
        broken: Verdict | None = None,
        at: int | None = None,
    ) -> None:
        self._ledger, self._broke, self.opens_at = ledger, broken, at
        self._wanted_entries, self._wanted_ms = entries, window_ms
        self.follow = -1 if follow is None else follow
        self.real_time = False
        super().__init__(source)

    entries: tuple[int, int]
    window_ms: tuple[float, float]
    follow: int
    """The choices of the reader. If `follow` is -1, no entry is followed."""
    real_time: bool
    """Whether rows are spaced according to time instead of evenly."""

    @property
    def _broken(self) -> Verdict | None:
        return None if self.forks else self._broke

    def open_run(self, source: Any) -> None:
        """Show another run. Adapt the entries and the period to it unless the reader has chosen
        them.
        """
        events = self._shown(events_of(source))
        self.entries = self._wanted_entries or _few(
            diagram_of(events, self._ledger).events, self._broken
        )
        last_us = max((event.time_us for event in events), default=0)
        self.window_ms = self._wanted_ms or (0.0, last_us / 1000)
        super().open_run(source)

    def picture(self, run: DisplayedRun, acts: Acts) -> SpaceTimePicture:
        return self._picture_of(run, ROWS, acts)

    def opening(self) -> float:
        if self.opens_at is None and self._shown(self.run.events) is self.run.events:
            return self.run.clock.end
        return super().opening()

    def words(self, beat: Sequence[Event]) -> str:
        broken = self._broken
        is_here = broken is not None and any(event.seq == broken.seq for event in beat)
        return super().words(beat) + (f". {self._story()} (broken here)" if is_here else "")

    def choices(self) -> list[Control]:
        if not self.run.events:
            return super().choices()
        last = max(event.entry for event in self.run.events)
        last_ms = self.run.events[-1].time_us / 1000
        (first_entry, last_entry), (begin, end) = self.entries, self.window_ms
        shown = range(first_entry, last_entry + 1)
        entries = [("-1", "nothing"), *((str(entry), f"entry {entry}") for entry in shown)]
        return [
            number("first", "Entries", first_entry, 0, last),
            number("last", "to", last_entry, 0, last),
            number("begin", "from ms", begin, 0, last_ms, "any"),
            number("end", "to ms", end, 0, last_ms, "any"),
            choice("follow", "Follow", str(self.follow), entries),
            choice("real_time", "Rows", "time" if self.real_time else "order", _SCALES),
            *super().choices(),
        ]

    def chosen(self, name: str, value: Any) -> None:
        """Apply the choice, and stop following an entry if it is no longer shown."""
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

    def selection(self) -> dict[str, Any]:
        (first_entry, last_entry), (begin_ms, end_ms) = self.entries, self.window_ms
        return {
            **{"ledger": self._ledger, "first_entry": first_entry, "last_entry": last_entry},
            **{"begin_ms": begin_ms, "end_ms": end_ms, "follow": self.follow},
            **{"real_time": self.real_time, "promise": self._broken.name if self._broken else ""},
        }

    def still_picture(self) -> SpaceTimePicture:
        picture = self.at_opening(self._picture_of(self.run, STILL_ROWS, NO_ACTS))
        hide_explanations(picture.explainers, inf)
        return picture

    def __repr__(self) -> str:
        words = str(self.scene().attributes["aria-label"])
        return f"{words}; broken: {self._broken.name}" if self._broken else words

    def _picture_of(self, run: DisplayedRun, rows: int, acts: Acts) -> SpaceTimePicture:
        broken = (self._broken.seq, self._story()) if self._broken else None
        choice = ShownPart(self.entries, self.window_ms, self.follow, self.real_time)
        diagram = diagram_of(self._shown(run.events), self._ledger)
        return SpaceTimePicture(run, diagram, choice, broken, acts, rows)

    def _story(self) -> str:
        broken = self._broken
        return f"✘ {failure_of(broken.name)}: {broken.explanation}" if broken else ""

    def _shown(self, events: Sequence[Event]) -> Sequence[Event]:
        """Return the events to show. The epilogue is omitted unless a promise was broken in it."""
        start = next((i for i, e in enumerate(events) if e.kind == "epilogue.started"), None)
        if start is None or (self._broken and self._broken.seq >= events[start].seq):
            return events
        return events[:start]


def _few(events: Sequence[Event], broken: Verdict | None) -> tuple[int, int]:
    last = max((event.entry for event in events), default=0)
    if last < DEFAULT_ENTRY_COUNT:
        return 0, max(last, 0)
    at = next((e.entry for e in events if broken is not None and e.seq == broken.seq), 0)
    first = max(0, at - DEFAULT_ENTRY_COUNT // 2)
    return first, min(last, first + DEFAULT_ENTRY_COUNT - 1)
