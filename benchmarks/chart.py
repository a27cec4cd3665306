"""Draws an SVG bar chart that compares up to three systems; each row has its own scale.

A bar shows the median of the repeats, and the line across it shows their range.
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

_COLOURS = ("#0072b2", "#b84e00", "#00796b")
_WIDTH, _LEFT, _RIGHT, _TOP = 860, 270, 150, 56
_BAR, _BETWEEN_BARS, _BETWEEN_ROWS = 16, 3, 14
_SCALE = _WIDTH - _LEFT - _RIGHT


@dataclass(frozen=True, slots=True)
class Bars:
    """A row of the chart: the results of all repeats, for each system.

    Higher is better for rates, and lower for times.
    """

    name: str
    unit: str
    repeats: Mapping[str, Sequence[float]]


def chart(title: str, rows: Sequence[Bars]) -> str:
    systems = list(rows[0].repeats)
    row_height = (_BAR + _BETWEEN_BARS) * len(systems) + _BETWEEN_ROWS
    height = _TOP + row_height * len(rows) + 12
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {_WIDTH} {height}' role='img'"
        " font-family='DejaVu Sans, Verdana, sans-serif' font-size='12' fill='#1f2328'>",
        f"<title>{escape(title)}</title>",
        f"<rect x='.5' y='.5' width='{_WIDTH - 1}' height='{height - 1}' rx='8' fill='#fff'"
        " stroke='#d0d7de'/>",
        f"<text x='16' y='27' font-size='14' font-weight='bold'>{escape(title)}</text>",
    ]
    for at, (system, colour) in enumerate(zip(systems, _COLOURS, strict=False)):
        x = _LEFT + 130 * at
        parts.append(f"<rect x='{x}' y='38' width='12' height='12' fill='{colour}'/>")
        parts.append(f"<text x='{x + 18}' y='48'>{escape(system)}</text>")
    for number, row in enumerate(rows):
        parts += _row(row, _TOP + row_height * number)
    return "\n".join([*parts, "</svg>\n"])


def _row(row: Bars, top: int) -> list[str]:
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
            f"<rect x='{_LEFT}' y='{y}' width='{length:.1f}' height='{_BAR}' fill='{colour}'/>",
            f"<path d='M{_LEFT + low:.1f} {middle} H{_LEFT + high:.1f}' stroke='#1f2328'"
            " stroke-width='1.5'/>",
            f"<text x='{_LEFT + max(length, high) + 8:.1f}' y='{y + 12}'>{escape(text)}</text>",
        ]
    return parts


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"
