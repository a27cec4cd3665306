"""Draws the messages that are visible at a moment, each up to the point that it has reached."""

from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import NamedTuple

from labkit.views.widgets.display_clock import Hop
from labkit.views.widgets.run import DisplayedRun
from labkit.views.widgets.scene import Mark, PartCache, group
from labkit.views.widgets.space_time.arrows import (
    ExchangeProgress,
    MessageArrow,
    Point,
    flight,
    look_of,
    path_parts,
    title_of,
)
from labkit.views.widgets.space_time.layout import Plan
from labkit.views.widgets.space_time.model import Exchange


class _Leg(NamedTuple):
    """The path of a request or response between two events, given by their indices and lanes."""

    hop: Hop
    begin: int
    end: int
    source: int
    target: int
    look: str


class Messages:
    """Draws the messages of a plan. lit: the indices of the emphasized events, or None to emphasize
    all events.
    """

    def __init__(self, run: DisplayedRun, plan: Plan, lit: Collection[int] | None) -> None:
        self._plan, self._lit = plan, lit
        self._all = plan.diagram.messages
        self._cache = PartCache()
        self.symbols: set[str] = set()
        """The looks of the arrows that have been drawn so far."""
        self._in_row: dict[int, list[int]] = {}
        self._legs: dict[int, list[_Leg]] = {}
        self._titles = [title_of(plan.diagram, message) for message in self._all]
        for number, message in enumerate(self._all):
            rows = [plan.row.get(at, -1) for at in _ends_of(message)]
            if rows[0] >= 0:
                self._legs[number] = list(self._legs_of(run, message))
                for row in range(rows[0], max(rows) + 1):
                    self._in_row.setdefault(row, []).append(number)

    def marks(self, sight: range, upto: int) -> Mark:
        marks = [self._message(n, sight.start, upto) for n in self._numbers(sight)]
        return self._cache.part("messages", _together, *marks)

    def arrows(self, row: int) -> set[tuple[Point, Point]]:
        """Return the lines of all messages that will cross a row, or start or end in it."""
        found = set[tuple[Point, Point]]()
        for number in self._in_row.get(row, ()):
            message = self._all[number]
            progress = self._progress(message, len(self._plan.diagram.events), 0)
            x = self._plan.x[message.source], self._plan.x[message.target]
            found |= {(way.begin, way.end) for way in path_parts(progress, *x)}
        return found

    def flying(self, sight: range, upto: int) -> Mark:
        ways = (
            (f"{n}-{way.end}", way)
            for n in self._numbers(sight)
            for way in self._legs[n]
            if way.begin < upto <= way.end
        )
        return group("flying", *(self._flight(key, way) for key, way in ways))

    def _numbers(self, sight: range) -> list[int]:
        return sorted({n for row in sight for n in self._in_row.get(row, ())})

    def _message(self, number: int, first: int, upto: int) -> Mark:
        message, diagram = self._all[number], self._plan.diagram
        progress = self._progress(message, upto, first)
        kin = f"e{diagram.ledger}-{message.entry}" if message.entry >= 0 else "fence"
        faded = self._lit is not None and message.sent not in self._lit
        x, title = self._plan.x, self._titles[number]
        arrow = MessageArrow(str(number), message, progress, x, kin, title, faded)
        return self._cache.part(number, self._draw_message, arrow)

    def _draw_message(self, arrow: MessageArrow) -> Mark:
        self.symbols.update(look_of(way, arrow.message, arrow.faded) for way in arrow.path_parts())
        return arrow.marks()

    def _progress(self, message: Exchange, upto: int, first: int) -> ExchangeProgress:
        sent, arrived, left, answered = (
            self._plan.row.get(at, -1) if at < upto else -1 for at in _ends_of(message)
        )
        cut = first if 0 <= sent < first else 0
        return ExchangeProgress(sent, arrived, left, answered, _is_lost(message, upto), cut)

    def _legs_of(self, run: DisplayedRun, message: Exchange) -> Iterator[_Leg]:
        events = self._plan.diagram.events
        lanes, look = (message.source, message.target), message.what
        ways = [(message.sent, message.arrived, *lanes, look)]
        if message.end != "silence":
            back = "refused" if message.end == "refused" else look
            ways.append((message.left, message.answered, *lanes[::-1], back))
        for begin, end, source, target, colour in ways:
            if begin in self._plan.row and end in self._plan.row:
                at = run.at(events[begin].seq), run.at(events[end].seq)
                hop = Hop(events[begin], events[end], *at)
                yield _Leg(hop, begin, end, source, target, colour)

    def _flight(self, key: str, way: _Leg) -> Mark:
        start = self._plan.x[way.source], self._plan.row[way.begin]
        end = self._plan.x[way.target], self._plan.row[way.end]
        return _flight(key, way.look, start, end, way.hop)


def _ends_of(message: Exchange) -> tuple[int, int, int, int]:
    return message.sent, message.arrived, message.left, message.answered


def _is_lost(message: Exchange, upto: int) -> bool:
    if message.end not in ("", "silence"):
        return False
    return message.arrived < 0 or (message.arrived < upto and message.left < upto)


def _together(*messages: Mark) -> Mark:
    return group("messages", *messages)


_flight = lru_cache(1024)(flight)
