"""Draws the messages that are visible at a moment, each up to the point that it has reached."""

from collections.abc import Collection, Iterator
from typing import NamedTuple

from labkit.views.widgets.drawing.kin import entry_kin
from labkit.views.widgets.drawing.scene import Mark, PartCache, group, path
from labkit.views.widgets.run import DisplayedRun
from labkit.views.widgets.space_time.arrows import (
    LOOKS,
    ROW,
    ExchangeProgress,
    PathPart,
    Point,
    flight,
    look_of,
    path_of,
    path_parts,
    title_of,
)
from labkit.views.widgets.space_time.layout import Plan
from labkit.views.widgets.space_time.model import Exchange


class _Flight(NamedTuple):
    """The mark of a request or response in flight between two events, given by their indices."""

    begin: int
    end: int
    mark: Mark


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
        self._flights: dict[int, list[_Flight]] = {}
        self._titles = [title_of(plan.diagram, message) for message in self._all]
        for number, message in enumerate(self._all):
            rows = [plan.row.get(at, -1) for at in _ends_of(message)]
            if rows[0] >= 0:
                self._flights[number] = list(self._flights_of(run, number, message))
                for row in range(rows[0], max(rows) + 1):
                    self._in_row.setdefault(row, []).append(number)

    def marks(self, sight: range, upto: int) -> Mark:
        marks = [self._message(n, sight.start, upto) for n in self._numbers(sight)]
        return self._cache.group("messages", *marks)

    def arrows(self, row: int) -> set[tuple[Point, Point]]:
        """Return the lines of all messages that will cross a row, or start or end in it."""
        found = set[tuple[Point, Point]]()
        for number in self._in_row.get(row, ()):
            progress = self._progress(self._all[number], len(self._plan.diagram.events), 0)
            found |= {(way.begin, way.end) for way in self._path_parts(number, progress)}
        return found

    def flying(self, sight: range, upto: int) -> Mark:
        flights = (each for n in self._numbers(sight) for each in self._flights[n])
        return group("flying", *(each.mark for each in flights if each.begin < upto <= each.end))

    def _numbers(self, sight: range) -> list[int]:
        return sorted({n for row in sight for n in self._in_row.get(row, ())})

    def _message(self, number: int, first: int, upto: int) -> Mark:
        progress = self._progress(self._all[number], upto, first)
        return self._cache.part(number, self._draw_message, number, progress)

    def _draw_message(self, number: int, progress: ExchangeProgress) -> Mark:
        message, title = self._all[number], self._titles[number]
        is_of_entry = message.entry >= 0
        kin = entry_kin(self._plan.diagram.ledger, message.entry) if is_of_entry else "fence"
        faded = self._lit is not None and message.sent not in self._lit
        parts = list[Mark]()
        for way in self._path_parts(number, progress):
            look = look_of(way, message, faded)
            self.symbols.add(look)
            if way.row >= progress.first:
                d = path_of(way, ROW * progress.first)
                parts.append(path(way.key, d, kin=kin, title=title, **LOOKS[look]))
        return group(str(number), *parts)

    def _path_parts(self, number: int, progress: ExchangeProgress) -> Iterator[PathPart]:
        message, x = self._all[number], self._plan.x
        return path_parts(progress, x[message.source], x[message.target])

    def _progress(self, message: Exchange, upto: int, first: int) -> ExchangeProgress:
        sent, arrived, left, answered = (
            self._plan.row.get(at, -1) if at < upto else -1 for at in _ends_of(message)
        )
        cut = first if 0 <= sent < first else 0
        return ExchangeProgress(sent, arrived, left, answered, _is_lost(message, upto), cut)

    def _flights_of(self, run: DisplayedRun, number: int, message: Exchange) -> Iterator[_Flight]:
        plan, events = self._plan, self._plan.diagram.events
        lanes, look = (message.source, message.target), message.what
        ways = [(message.sent, message.arrived, *lanes, look)]
        if message.end != "silence":
            back = "refused" if message.end == "refused" else look
            ways.append((message.left, message.answered, *lanes[::-1], back))
        for begin, end, source, target, colour in ways:
            if begin in plan.row and end in plan.row:
                times = run.at(events[begin].seq), run.at(events[end].seq)
                ends = (plan.x[source], plan.row[begin]), (plan.x[target], plan.row[end])
                yield _Flight(begin, end, flight(f"{number}-{end}", colour, ends, times))


def _ends_of(message: Exchange) -> tuple[int, int, int, int]:
    return message.sent, message.arrived, message.left, message.answered


def _is_lost(message: Exchange, upto: int) -> bool:
    if message.end not in ("", "silence"):
        return False
    return message.arrived < 0 or (message.arrived < upto and message.left < upto)
