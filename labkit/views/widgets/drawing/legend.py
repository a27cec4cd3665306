"""The legend of a picture: a sample of each symbol, and what the symbol means.

On a wide page, the legend is open beside the picture; elsewhere, it is below the picture. The
symbols below a picture are in rows, except on narrow pages. Otherwise they are in a column.
"""

from collections.abc import Sequence
from typing import NamedTuple

from labkit.views.widgets.drawing.scene import Mark, group, narrowed, picture, text
from labkit.views.widgets.drawing.text_metrics import width_of

WIDTH, NARROW_WIDTH, MARGIN = 860, 276, 12
SAMPLE, WORDS_X = 28, 36
"""The width of a sample, and the left edge of its meaning."""
TITLE = "What the symbols mean"


class Symbol(NamedTuple):
    """height: the height of the sample."""

    key: str
    sample: Sequence[Mark]
    meaning: str
    height: float = 16


def legend(symbols: Sequence[Symbol]) -> Mark | None:
    """Return the legend of these symbols, or None if there are none."""
    if not symbols:
        return None
    pitch = max(width_of(symbol.meaning) for symbol in symbols) + WORDS_X + 24
    count = max(int((WIDTH - MARGIN) / pitch), 1)
    row = max(symbol.height for symbol in symbols) + 10
    parts = [
        narrowed(
            group(
                symbol.key,
                *symbol.sample,
                text("words", WORDS_X, symbol.height / 2 + 4.5, symbol.meaning, fill="faint"),
                x=MARGIN + pitch * (at % count),
                y=6 + row * (at // count),
            ),
            group("", x=2, y=6 + row * at),
        )
        for at, symbol in enumerate(symbols)
    ]
    wide = picture(WIDTH, 6 + row * -(-len(symbols) // count), TITLE, *parts)
    return narrowed(wide, picture(NARROW_WIDTH, 6 + row * len(symbols), TITLE))
