"""The space-time diagram as a scene: a lane for each node, a row for each moment."""

from collections.abc import Iterator, Sequence

from labkit.system.trace.events import Event
from labkit.system.trace.sentence import describe
from labkit.views.widgets.acts import NO_ACTS, Acts
from labkit.views.widgets.captions import Explainer, note
from labkit.views.widgets.cluster.heads import ACTS, act_lines
from labkit.views.widgets.drawing.kin import entry_kin, node_kin
from labkit.views.widgets.drawing.plurals import counted
from labkit.views.widgets.drawing.scene import Mark, PartCache, group, picture, rounded, text
from labkit.views.widgets.drawing.text_metrics import lines_of, width_of
from labkit.views.widgets.run import DisplayedRun, in_ms, time_words
from labkit.views.widgets.space_time.arrows import ROW, y_of
from labkit.views.widgets.space_time.labels import LabelPlace, place_labels
from labkit.views.widgets.space_time.layout import (
    BETWEEN,
    Dot,
    ShownPart,
    causal_chain,
    effects_of,
    plan_of,
)
from labkit.views.widgets.space_time.marks import (
    NAMES,
    WIDTH,
    WRITE,
    LaneState,
    dot_marks,
    future_dot,
    ink_of,
    lane_mark,
    legend_of,
    now_mark,
    time_mark,
    write_mark,
)
from labkit.views.widgets.space_time.messages import Messages
from labkit.views.widgets.space_time.model import METADATA, Diagram
from labkit.views.widgets.space_time.words import label_of, ranges_of

ROWS_AHEAD = 3
"""The number of rows that are visible below the current row."""
MIN_LANE_WIDTH = 60
"""If the lanes need more space than there is, the picture gets wider and scrolls."""


class SpaceTimePicture:
    """Draws the diagram of a run.

    rows: the number of visible rows.
    broken: the `seq` of the event at which a promise was broken, and a description, or None.
    acts: the buttons of the bookies.
    """

    def __init__(
        self,
        run: DisplayedRun,
        diagram: Diagram,
        choice: ShownPart,
        broken: tuple[int, str] | None,
        acts: Acts,
        rows: int,
    ) -> None:
        self.diagram, self._broken, self._acts = diagram, broken, acts
        last_us = max((event.time_us for event in diagram.events), default=0)
        # If the period is shorter than a second, seconds would not show the order of events.
        first_us = max(
            choice.window_ms[0] * 1000, diagram.events[0].time_us if diagram.events else 0
        )
        is_short = min(choice.window_ms[1] * 1000, last_us) - first_us < 1_000_000
        self._time = in_ms if is_short else time_words
        # The label of the last moment before one second may be wider than that of the last moment.
        widest = max(width_of(self._time(us)) for us in (last_us, min(last_us, 999_990)))
        self._left = rounded(widest + 18)
        self._width = max(WIDTH, self._left + 4 + MIN_LANE_WIDTH * len(diagram.lanes))
        width = self._width - self._left - 4
        self.plan = plan_of(diagram, choice, self._left, width, 88 if acts.offered else 70)
        self.rows = min(max(len(self.plan.times), 1), rows)
        self._explainer = Explainer(run)
        self.explainers = (self._explainer,)
        self._lit = causal_chain(diagram, choice.follow) if choice.follow >= 0 else None
        self._place = {event.seq: at for at, event in enumerate(diagram.events)}
        self._bookies = {diagram.lanes[message.target] for message in diagram.messages}
        rooms = zip(diagram.lanes, self.plan.room, strict=True)
        widths = [room + BETWEEN for name, room in rooms if name in self._bookies]
        self._top = NAMES + ACTS * max((act_lines(acts, each) for each in widths), default=0)
        self._upto = self._count = 0
        self._now = -1
        self._last: Event | None = None
        self._story: tuple[str, ...] = ()
        self._cache = PartCache()
        self._dots: dict[int, list[Dot]] = {}
        for dot in self.plan.dots:
            self._dots.setdefault(dot.row, []).append(dot)
        self._label_places: dict[int, dict[int, LabelPlace]] = {}
        self._run, self._effects = run, effects_of(self.plan)
        self._messages = Messages(run, self.plan, self._lit)
        self.symbols = self._messages.symbols
        """The looks of the arrows, lanes and dots that have been drawn so far."""

    def take(self, event: Event) -> None:
        self._explainer.take(event)
        place = self._place.get(event.seq)
        if place is not None:
            self._upto = place + 1
            row = self.plan.row.get(place, -1)
            if row >= 0:
                self._now, self._last, self._count = row, event, self._count + 1
        if self._broken and event.seq == self._broken[0]:
            self._story = lines_of(self._broken[1], WIDTH - 32)

    def legend(self) -> Mark | None:
        return legend_of(frozenset(self.symbols))

    def scene(self) -> Mark:
        first = max(min(self._now + 1 + ROWS_AHEAD, len(self.plan.times)) - self.rows, 0)
        sight = range(first, first + self.rows)
        top = self._top
        bottom = top + ROW * self.rows
        room = len(lines_of(self._broken[1], WIDTH - 32)) if self._broken else 0
        return picture(
            self._width,
            bottom + 10 + 17 * room,
            self.summary(),
            group("lanes", *(self._lane(at, top, sight) for at in range(len(self.plan.x)))),
            group("sheet", *self._sheet(sight), y=top - ROW * first),
            *(
                text(f"story {n}", 16, bottom + 17 * (n + 1), line, fill="lost")
                for n, line in enumerate(self._story)
            ),
            *self._note(sight, top),
        )

    def summary(self) -> str:
        lanes = ", ".join(name for name in self.diagram.lanes if name != METADATA)
        events = counted(self._count, "event")
        words = f"Space-time diagram of ledger {self.diagram.ledger}: {events} on {lanes}"
        return words + (f"; most recently {describe(self._last)}" if self._last else "")

    # Lanes

    def _lane(self, lane: int, top: float, sight: range) -> Mark:
        name, height = self.diagram.lanes[lane], ROW * len(sight)
        parts, y, state = list[LaneState](), 0.0, ""
        for each in self.diagram.breaks:
            if each.lane != lane or each.begin >= self._upto:
                continue
            is_over = 0 <= each.end < self._upto
            begin = self._height_of(each.begin, sight)
            end = self._height_of(each.end, sight) if is_over else height
            parts += [LaneState(y, begin, ""), LaneState(begin, end, each.state)]
            y, state = end, "" if is_over else each.state
        parts.append(LaneState(y, height, ""))
        visible = tuple(part for part in parts if part.bottom > part.top)
        self.symbols.update(part.state for part in visible)
        acts = self._acts if name in self._bookies else NO_ACTS
        room = self.plan.room[lane]
        return lane_mark(name, self.plan.x[lane], room, visible, top, state or "up", acts)

    def _height_of(self, place: int, sight: range) -> float:
        y = y_of(self.plan.row_near(place)) - ROW * sight.start
        return min(max(y, 0.0), ROW * len(sight))

    # Parts that change over time

    def _sheet(self, sight: range) -> list[Mark]:
        visible = [dot for row in sight for dot in self._dots.get(row, ())]
        dots = [dot for dot in visible if dot.events[0] < self._upto]
        future = [dot for dot in visible if dot.events[0] >= self._upto]
        times, quiet = self.plan.times, self.plan.quiet
        clock = [
            time_mark(
                row,
                self._time(times[row]),
                quiet.get(row, 0) if row > sight.start else 0,
                self._left,
                self._width,
            )
            for row in sight
            if row in self._dots
        ]
        return [
            *([now_mark(self._now, self._width)] if self._now in sight else []),
            self._cache.group("times", *clock),
            self._messages.marks(sight, self._upto),
            self._cache.group("writes", *(mark for dot in dots for mark in self._writes(dot))),
            self._messages.flying(sight, self._upto),
            group("future", *(future_dot(self.plan.x[dot.lane], dot.row) for dot in future)),
            self._cache.group("dots", *(self._dot(dot) for dot in dots)),
        ]

    def _writes(self, dot: Dot) -> list[Mark]:
        writers = self._writers(dot, [at for at in dot.events if at < self._upto])
        if writers:
            self.symbols.add("metadata")
        return [
            write_mark(
                at,
                self.plan.x[lane],
                self.plan.x[dot.lane],
                dot.row,
                self._lit is not None and at not in self._lit,
            )
            for lane, at in writers.items()
        ]

    def _writers(self, dot: Dot, places: Sequence[int]) -> dict[int, int]:
        """If the dot is on the metadata store's lane, return, for each lane that wrote to the
        store, the index of the event that did so.
        """
        lanes, events = self.diagram.lanes, self.diagram.events
        if lanes[dot.lane] != METADATA:
            return {}
        return {lanes.index(events[at].node): at for at in places}

    def _dot(self, dot: Dot) -> Mark:
        shown = tuple(at for at in dot.events if at < self._upto)
        return self._cache.part((dot.lane, dot.row), self._draw_dot, dot, shown)

    def _draw_dot(self, dot: Dot, shown: tuple[int, ...]) -> Mark:
        """Return a dot. A click on the dot moves the view to the dot's event, and highlights the
        causes of this event.
        """
        events = [self.diagram.events[at] for at in shown]
        label = self._label(dot, shown)
        if any(event.kind == "lac.advanced" for event in events):
            self.symbols.add("lac")
        is_metadata = self.diagram.lanes[dot.lane] == METADATA
        is_lit = self._lit is None or any(at in self._lit for at in shown)
        ink = "line" if not is_lit else "well" if is_metadata else ink_of(events, label)
        kin = dict.fromkeys(entry_kin(self.diagram.ledger, e.entry) for e in events if e.entry >= 0)
        led = dict.fromkeys(self._chain(to) for at in shown for to in self._effects[at])
        words = "; ".join(_described(events))
        labelled = next((at for at in shown if self._is_in_label(at, label)), shown[-1])
        spot = self._labels_of(dot.row).get(dot.lane, LabelPlace())
        x, y, is_broken = self.plan.x[dot.lane], y_of(dot.row), self._is_broken(shown)
        return group(
            f"{dot.row}-{dot.lane}",
            *dot_marks(x, y, label, spot, ink, is_broken),
            title=f"{time_words(events[0].time_us)}: {words}",
            kin=" ".join([*kin, node_kin(self.diagram.lanes[dot.lane]), *led]),
            pin=self._chain(labelled),
            act="seek",
            on=str(round(self._run.at(events[-1].seq), 1)),
            tab=False,
        )

    def _label(self, dot: Dot, places: Sequence[int]) -> str:
        lit = [at for at in places if self._lit is None or at in self._lit]
        label = self.plan.label(dot, lit)
        return f"✘ {label}" if self._is_broken(places) else label

    def _is_broken(self, places: Sequence[int]) -> bool:
        broken = self._broken
        return broken is not None and any(self.diagram.events[at].seq == broken[0] for at in places)

    def _labels_of(self, row: int) -> dict[int, LabelPlace]:
        """Return the position of each label of a row, by lane."""
        if row not in self._label_places:
            labels = [(dot.lane, self._label(dot, dot.events)) for dot in self._dots[row]]
            x, y = self.plan.x, y_of(row) + WRITE
            arrows = self._messages.arrows(row) | {
                ((x[lane], y), (x[dot.lane], y))
                for dot in self._dots[row]
                for lane in self._writers(dot, dot.events)
            }
            self._label_places[row] = place_labels(
                row, labels, x, arrows, (self._left, self._width)
            )
        return self._label_places[row]

    def _chain(self, place: int) -> str:
        return f"c{self.diagram.events[place].seq}"

    def _is_in_label(self, place: int, label: str) -> bool:
        words, entry = self.diagram.words[place], self.diagram.events[place].entry
        return bool(words) and label_of([(words, entry)]) in label

    def _note(self, sight: range, top: float) -> list[Mark]:
        event = self._explainer.event
        place = -1 if event is None else self._place.get(event.seq, -1)
        row = self.plan.row.get(place, -1)
        if event is None or row not in sight:
            return []
        x = self.plan.x[self.diagram.lanes.index(event.node)]
        y = top + y_of(row) - ROW * sight.start + 14
        return [note(self._explainer.words, x + 8, y, self._width - 6, top + ROW * len(sight))]


def _described(events: Sequence[Event]) -> Iterator[str]:
    by_kind: dict[str, list[Event]] = {}
    for event in events:
        by_kind.setdefault(event.kind, []).append(event)
    for same in by_kind.values():
        entries = sorted({event.entry for event in same})
        many = f" ({len(same)} events)" if len(same) > 1 else ""
        yield describe(same[-1]) + (f" (entries {ranges_of(entries)})" if entries[1:] else many)
