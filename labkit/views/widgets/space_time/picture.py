"""The space-time diagram as a scene: a lane for each node, a row for each moment."""

from collections.abc import Iterator, Sequence

from labkit.system.trace.events import Event
from labkit.system.trace.sentence import describe
from labkit.views.widgets.captions import FirstTimes, note
from labkit.views.widgets.run import DisplayedRun, in_ms
from labkit.views.widgets.scene import Mark, PartCache, group, picture, rounded, text
from labkit.views.widgets.space_time.arrows import ROW, y_of
from labkit.views.widgets.space_time.layout import (
    BESIDE,
    Dot,
    ShownPart,
    chain_of,
    leading_to,
    plan_of,
)
from labkit.views.widgets.space_time.marks import (
    NAMES,
    WIDTH,
    LaneState,
    dot_mark,
    ink_of,
    lane_mark,
    now_mark,
    time_mark,
    write_mark,
)
from labkit.views.widgets.space_time.messages import Messages
from labkit.views.widgets.space_time.model import METADATA, Diagram
from labkit.views.widgets.space_time.words import label_of, ranges_of
from labkit.views.widgets.text_metrics import fitted, lines_of, width_of

ACTS = 30
AHEAD = 3
"""The number of visible rows below the moment's row."""


class SpaceTimePicture:
    """Draws the diagram of a run.

    rows: the number of visible rows.  broken: the `seq` of the event at which a promise broke, and
    how; or None.  acts: the faults that a reader can cause.
    """

    def __init__(
        self,
        run: DisplayedRun,
        diagram: Diagram,
        choice: ShownPart,
        broken: tuple[int, str] | None,
        acts: tuple[str, ...],
        rows: int,
    ) -> None:
        self.diagram, self._broken, self._acts = diagram, broken, acts
        last_us = max((event.time_us for event in diagram.events), default=0)
        self._left = rounded(width_of(in_ms(last_us)) + 18)
        width = WIDTH - self._left - 4
        self.plan = plan_of(diagram, choice, self._left, width, 88 if acts else 70)
        self.rows = min(max(len(self.plan.times), 1), rows)
        self.firsts = FirstTimes(run)
        self._lit = chain_of(diagram, choice.follow) if choice.follow >= 0 else None
        self._place = {event.seq: at for at, event in enumerate(diagram.events)}
        self._bookies = {diagram.lanes[message.target] for message in diagram.messages}
        self._upto = self._count = 0
        self._now = -1
        self._last: Event | None = None
        self._story: tuple[str, ...] = ()
        self._kept = PartCache()
        self._dots: dict[int, list[Dot]] = {}
        for dot in self.plan.dots:
            self._dots.setdefault(dot.row, []).append(dot)
        self._run, self._led = run, leading_to(self.plan)
        self._messages = Messages(run, self.plan, self._lit)

    @property
    def hush_at(self) -> float | None:
        """The position on the clock at which the words about a first event end."""
        return self.firsts.hush_at

    def hush(self) -> None:
        """Those words end."""
        self.firsts.hush()

    def take(self, event: Event) -> None:
        """Take the next event."""
        self.firsts.take(event)
        place = self._place.get(event.seq)
        if place is not None:
            self._upto = place + 1
            row = self._row(place)
            if row >= 0:
                self._now, self._last, self._count = row, event, self._count + 1
        if self._broken and event.seq == self._broken[0]:
            self._story = lines_of(self._broken[1], WIDTH - 32)

    def scene(self) -> Mark:
        """The picture now."""
        first = max(min(self._now + 1 + AHEAD, len(self.plan.times)) - self.rows, 0)
        sight = range(first, first + self.rows)
        top = NAMES + (ACTS if self._acts else 0)
        bottom = top + ROW * self.rows
        room = len(lines_of(self._broken[1], WIDTH - 32)) if self._broken else 0
        return picture(
            WIDTH,
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
        """The picture in one line of words."""
        lanes = ", ".join(name for name in self.diagram.lanes if name != METADATA)
        words = (
            f"Space-time diagram of ledger {self.diagram.ledger}: {self._count} events on {lanes}"
        )
        return words + (f"; at last {describe(self._last)}" if self._last else "")

    def _row(self, place: int) -> int:
        """The row of an event, -1 if it is not shown or there is none."""
        return self.plan.row.get(place, -1)

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
        seen = tuple(part for part in parts if part.bottom > part.top)
        acts = self._acts if name in self._bookies else ()
        room = self.plan.room[lane]
        return lane_mark(name, self.plan.x[lane], room, seen, top, state or "up", acts)

    def _height_of(self, place: int, sight: range) -> float:
        y = y_of(self.plan.row_near(place)) - ROW * sight.start
        return min(max(y, 0.0), ROW * len(sight))

    # The parts that change with time

    def _sheet(self, sight: range) -> list[Mark]:
        dots = [
            dot for row in sight for dot in self._dots.get(row, ()) if dot.events[0] < self._upto
        ]
        times, quiet = self.plan.times, self.plan.quiet
        clock = [
            time_mark(row, times[row], quiet.get(row, 0) if row > sight.start else 0, self._left)
            for row in sight
            if row <= self._now and row in self._dots
        ]
        return [
            *([now_mark(self._now)] if self._now in sight else []),
            self._kept.part("times", _group, "times", *clock),
            self._messages.marks(sight, self._upto),
            self._kept.part(
                "writes", _group, "writes", *(mark for dot in dots for mark in self._writes(dot))
            ),
            self._kept.part("dots", _group, "dots", *(self._dot(dot) for dot in dots)),
            self._messages.flying(sight, self._upto),
        ]

    def _writes(self, dot: Dot) -> list[Mark]:
        """The lines of metadata writes."""
        if self.diagram.lanes[dot.lane] != METADATA:
            return []
        nodes = {self.diagram.events[at].node: at for at in dot.events if at < self._upto}
        return [
            write_mark(
                at,
                self.plan.x[self.diagram.lanes.index(node)],
                self.plan.x[dot.lane],
                dot.row,
                self._lit is not None and at not in self._lit,
            )
            for node, at in nodes.items()
        ]

    def _dot(self, dot: Dot) -> Mark:
        shown = [at for at in dot.events if at < self._upto]
        return self._kept.part((dot.lane, dot.row), self._draw_dot, dot, len(shown))

    def _draw_dot(self, dot: Dot, count: int) -> Mark:
        shown = dot.events[:count]
        events = [self.diagram.events[at] for at in shown]
        lit = [at for at in shown if self._lit is None or at in self._lit]
        is_metadata = self.diagram.lanes[dot.lane] == METADATA
        label = self.plan.label(dot, lit)
        is_broken = self._broken is not None and any(e.seq == self._broken[0] for e in events)
        label = f"✘ {label}" if is_broken else label
        ink = "line" if not lit else "well" if is_metadata else ink_of(events, label)
        kin = dict.fromkeys(f"e{self.diagram.ledger}-{e.entry}" for e in events if e.entry >= 0)
        led = dict.fromkeys(self._chain(to) for at in shown for to in self._led[at])
        words = "; ".join(_described(events))
        told = next((at for at in shown if self._is_told(at, label)), shown[-1])
        return dot_mark(
            f"{dot.row}-{dot.lane}",
            (self.plan.x[dot.lane], y_of(dot.row)),
            fitted(label, self._room_of(dot)),
            ink,
            is_broken,
            f"{in_ms(events[0].time_us)}: {words}",
            " ".join([*kin, f"n-{self.diagram.lanes[dot.lane]}", *led]),
            self._chain(told),
            str(round(self._run.at(self.diagram.events[shown[-1]].seq), 1)),
        )

    def _room_of(self, dot: Dot) -> float:
        """The width of the words beside a dot: up to the next dot of its row."""
        lanes = [other.lane for other in self._dots[dot.row] if other.lane > dot.lane]
        right = self.plan.x[min(lanes)] if lanes else WIDTH
        return right - self.plan.x[dot.lane] - BESIDE - 2

    def _chain(self, place: int) -> str:
        """The kin of the event's causes."""
        return f"c{self.diagram.events[place].seq}"

    def _is_told(self, place: int, label: str) -> bool:
        """Whether the words beside a dot name that event."""
        words, entry = self.diagram.words[place], self.diagram.events[place].entry
        return bool(words) and label_of([(words, entry)]) in label

    def _note(self, sight: range, top: float) -> list[Mark]:
        event = self.firsts.event
        place = -1 if event is None else self._place.get(event.seq, -1)
        row = self._row(place)
        if event is None or row not in sight:
            return []
        x = self.plan.x[self.diagram.lanes.index(event.node)]
        y = top + y_of(row) - ROW * sight.start + 14
        return [note(self.firsts.words, x + 8, y, WIDTH - 6, top + ROW * len(sight))]


def _described(events: Sequence[Event]) -> Iterator[str]:
    """A sentence for each kind of event."""
    by_kind: dict[str, list[Event]] = {}
    for event in events:
        by_kind.setdefault(event.kind, []).append(event)
    for same in by_kind.values():
        entries = sorted({event.entry for event in same})
        many = f" ({len(same)} events)" if len(same) > 1 else ""
        yield describe(same[-1]) + (f" (entries {ranges_of(entries)})" if entries[1:] else many)


def _group(key: str, *parts: Mark) -> Mark:
    return group(key, *parts)
