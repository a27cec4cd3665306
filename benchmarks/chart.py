"""Draws the report's SVG charts: bars that compare systems, and lines that show growth.

A bar chart compares up to three systems; each row has its own scale. A bar shows the median of the
repeats, and the line across it shows their range.

A line chart has logarithmic axes and one line per series. A flat line means that the cost does not
depend on the size.
"""

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape

_COLOURS = ("#0072b2", "#b84e00", "#00796b", "#8e44ad", "#7a6000", "#c2185b", "#444c56", "#2e7d32")
_WIDTH, _INK, _PALE = 860, "#1f2328", "#d0d7de"

# The bar chart
_NAMES, _RIGHT, _ROWS_TOP = 270, 150, 56
_BAR, _BETWEEN_BARS, _BETWEEN_ROWS = 16, 3, 14
_SCALE = _WIDTH - _NAMES - _RIGHT

# The line chart
_LEFT, _TOP, _PLOT, _HEIGHT, _ROW = 70, 44, 420, 260, 18
_LEGEND = _LEFT + _PLOT + 30


@dataclass(frozen=True, slots=True)
class Bars:
    """A row of the chart: the results of all repeats, for each system.

    Higher is better for rates, and lower for times.
    """

    name: str
    unit: str
    repeats: Mapping[str, Sequence[float]]


@dataclass(frozen=True, slots=True)
class Line:
    """A series; points with a value of zero or less are not drawn."""

    name: str
    points: Sequence[tuple[float, float]]


def bar_chart(title: str, rows: Sequence[Bars]) -> str:
    systems = list(rows[0].repeats)
    row_height = (_BAR + _BETWEEN_BARS) * len(systems) + _BETWEEN_ROWS
    parts = []
    for at, (system, colour) in enumerate(zip(systems, _COLOURS, strict=False)):
        x = _NAMES + 130 * at
        parts.append(f"<rect x='{x}' y='38' width='12' height='12' fill='{colour}'/>")
        parts.append(f"<text x='{x + 18}' y='48'>{escape(system)}</text>")
    for number, row in enumerate(rows):
        parts += _bars(row, _ROWS_TOP + row_height * number)
    return _framed(title, _ROWS_TOP + row_height * len(rows) + 12, 12, parts)


def line_chart(title: str, axis: str, series: Sequence[Line]) -> str:
    drawn = [[(x, y) for x, y in line.points if x > 0 and y > 0] for line in series]
    across = _Scale([x for points in drawn for x, _ in points], _LEFT, _LEFT + _PLOT)
    up = _Scale([y for points in drawn for _, y in points], _TOP + _HEIGHT, _TOP)
    parts = []
    for value in up.powers:
        y = up.coordinate(value)
        parts.append(f"<path d='M{_LEFT} {y:.1f} h{_PLOT}' stroke='{_PALE}'/>")
        parts.append(f"<text x='{_LEFT - 8}' y='{y + 4:.1f}' text-anchor='end'>{value:g}</text>")
    foot = _TOP + _HEIGHT
    for value in across.powers:
        x = across.coordinate(value)
        parts.append(f"<path d='M{x:.1f} {_TOP} v{_HEIGHT}' stroke='{_PALE}'/>")
        parts.append(f"<text x='{x:.1f}' y='{foot + 16}' text-anchor='middle'>{value:,.0f}</text>")
    middle = _LEFT + _PLOT / 2
    parts.append(f"<text x='{middle}' y='{foot + 36}' text-anchor='middle'>{escape(axis)}</text>")
    for number, (line, points) in enumerate(zip(series, drawn, strict=True)):
        parts += _line(
            line.name, number, [(across.coordinate(x), up.coordinate(y)) for x, y in points]
        )
    return _framed(title, max(foot + 50, _TOP + _ROW * len(series) + 20), 11, parts)


def _framed(title: str, height: float, font_size: int, parts: Iterable[str]) -> str:
    head = (
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {height}' role='img'"
        f" font-family='DejaVu Sans, Verdana, sans-serif' font-size='{font_size}' fill='{_INK}'>",
        f"<title>{escape(title)}</title>",
        f"<rect x='.5' y='.5' width='{_WIDTH - 1}' height='{height - 1}' rx='8' fill='#fff'"
        f" stroke='{_PALE}'/>",
        f"<text x='16' y='27' font-size='14' font-weight='bold'>{escape(title)}</text>",
    )
    return "\n".join([*head, *parts, "</svg>\n"])


def _bars(row: Bars, top: int) -> list[str]:
    largest = max(max(values) for values in row.repeats.values()) or 1.0
    better = "higher is better" if row.unit == "a second" else "lower is better"
    parts = [
        f"<text x='16' y='{top + 18}'>{escape(row.name)}</text>",
        f"<text x='16' y='{top + 34}' font-size='10.5' fill='#57606a'>{better}</text>",
    ]
    for at, (values, colour) in enumerate(zip(row.repeats.values(), _COLOURS, strict=False)):
        y, median = top + 6 + (_BAR + _BETWEEN_BARS) * at, statistics.median(values)
        length, low, high = (
            _SCALE * value / largest for value in (median, min(values), max(values))
        )
        middle = y + _BAR / 2
        text = f"{_number(median)} {row.unit}"
        parts += [
            f"<rect x='{_NAMES}' y='{y}' width='{length:.1f}' height='{_BAR}' fill='{colour}'/>",
            f"<path d='M{_NAMES + low:.1f} {middle} H{_NAMES + high:.1f}' stroke='{_INK}'"
            " stroke-width='1.5'/>",
            f"<text x='{_NAMES + max(length, high) + 8:.1f}' y='{y + 12}'>{escape(text)}</text>",
        ]
    return parts


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


class _Scale:
    """Maps values to coordinates between `start` and `end`, on a logarithmic scale that begins and
    ends at a power of ten.
    """

    def __init__(self, values: Sequence[float], start: float, end: float) -> None:
        self._low = math.floor(math.log10(min(values, default=1)))
        self._high = max(self._low + 1, math.ceil(math.log10(max(values, default=10))))
        self._start, self._end = start, end
        self.powers = [10.0**power for power in range(self._low, self._high + 1)]

    def coordinate(self, value: float) -> float:
        fraction = (math.log10(value) - self._low) / (self._high - self._low)
        return self._start + fraction * (self._end - self._start)


def _line(name: str, number: int, coordinates: Sequence[tuple[float, float]]) -> list[str]:
    colour, y = _COLOURS[number % len(_COLOURS)], _TOP + 8 + _ROW * number
    path = " L".join(f"{x:.1f} {top:.1f}" for x, top in coordinates)
    return [
        f"<path d='M{path}' fill='none' stroke='{colour}' stroke-width='2'/>",
        *(f"<circle cx='{x:.1f}' cy='{top:.1f}' r='3' fill='{colour}'/>" for x, top in coordinates),
        f"<rect x='{_LEGEND}' y='{y - 9}' width='11' height='11' fill='{colour}'/>",
        f"<text x='{_LEGEND + 17}' y='{y}'>{escape(name)}</text>",
    ]
