"""Draws an SVG line chart with logarithmic axes and one line per series.

A flat line means that the cost does not depend on the size.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_COLOURS = ("#0072b2", "#b84e00", "#00796b", "#8e44ad", "#7a6000", "#c2185b", "#444c56", "#2e7d32")
_WIDTH, _LEFT, _TOP, _PLOT, _HEIGHT, _ROW = 860, 70, 44, 420, 260, 18
_LEGEND = _LEFT + _PLOT + 30
_INK, _PALE = "#1f2328", "#d0d7de"


@dataclass(frozen=True, slots=True)
class Line:
    """A series; points with a value of zero or less are not drawn."""

    name: str
    points: Sequence[tuple[float, float]]


def lines(title: str, axis: str, series: Sequence[Line]) -> str:
    drawn = [[(x, y) for x, y in line.points if x > 0 and y > 0] for line in series]
    across = _Scale([x for points in drawn for x, _ in points], _LEFT, _LEFT + _PLOT)
    up = _Scale([y for points in drawn for _, y in points], _TOP + _HEIGHT, _TOP)
    height = max(_TOP + _HEIGHT + 50, _TOP + _ROW * len(series) + 20)
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {height}' role='img'"
        f" font-family='DejaVu Sans, Verdana, sans-serif' font-size='11' fill='{_INK}'>",
        f"<title>{escape(title)}</title>",
        f"<rect x='.5' y='.5' width='{_WIDTH - 1}' height='{height - 1}' rx='8' fill='#fff'"
        f" stroke='{_PALE}'/>",
        f"<text x='16' y='27' font-size='14' font-weight='bold'>{escape(title)}</text>",
    ]
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
    return "\n".join([*parts, "</svg>\n"])


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
