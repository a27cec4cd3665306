"""Entry logs as bars: which ledgers share each log, and what of it still lives.

A living ledger has a colour, garbage is hatched.  A still picture only: it changes when you draw it
again.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from labkit.widgets.drawing import BOX, CONFIRMED, FAINT, LINE, STORED, Drawing, bundle

WIDTH = 720
MARGIN = 14
LABEL_WIDTH = 64
BAR_WIDTH = 470
BAR_HEIGHT = 24
ROW = 34
LEGEND_HEIGHT = 18
NARROWEST_NAME = 64  # segments below this bear the ledger's number alone
NARROWEST_NUMBER = 20
COLOURS = ("#007a5a", CONFIRMED, STORED)
HATCH = (
    "<defs><pattern id='garbage' width='6' height='6' patternUnits='userSpaceOnUse'"
    f" patternTransform='rotate(45)'><rect width='6' height='6' fill='{BOX}'/>"
    f"<path d='M0 0V6' stroke='{LINE}' stroke-width='4'/></pattern></defs>"
)


@dataclass(frozen=True, slots=True)
class LogBar:
    """One log: its file's name, and the bytes of each ledger in it."""

    name: str
    ledger_bytes: Mapping[int, int]

    @property
    def total_bytes(self) -> int:
        """All that lies in the log."""
        return sum(self.ledger_bytes.values())

    def living_bytes(self, existing: Collection[int]) -> int:
        """What belongs to ledgers that exist."""
        return sum(size for ledger, size in self.ledger_bytes.items() if ledger in existing)


class LogUsage:
    """Shows logs; entries of ledgers that are not in `existing` are garbage."""

    def __init__(self, bars: Sequence[LogBar], existing: Collection[int]) -> None:
        self.bars = [bar for bar in bars if bar.total_bytes]
        self.existing = frozenset(existing)

    def __repr__(self) -> str:
        total = sum(bar.total_bytes for bar in self.bars)
        lines = [f"{len(self.bars)} logs, {total} bytes of entries"]
        lines += (f"  {bar.name}: {self._words(bar)}" for bar in self.bars)
        return "\n".join(lines)

    def svg(self) -> str:
        """The picture as an SVG document that needs nothing from elsewhere."""
        drawing = Drawing()
        has_garbage = any(bar.living_bytes(self.existing) < bar.total_bytes for bar in self.bars)
        height = 2 * MARGIN + ROW * max(1, len(self.bars)) + LEGEND_HEIGHT * has_garbage
        drawing.begin(WIDTH, height, repr(self), HATCH)
        if not self.bars:
            drawing.text(MARGIN, MARGIN + 21, "no log has an entry", fill=FAINT)
        for row, bar in enumerate(self.bars):
            self._bar(drawing, MARGIN + ROW * row + 5, bar)
        if has_garbage:
            self._legend(drawing, height - MARGIN - 4)
        return drawing.end()

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        return bundle(repr(self), self.svg())

    def _repr_html_(self) -> str:
        return str(self._repr_mimebundle_()["text/html"])

    def _words(self, bar: LogBar) -> str:
        parts = (
            f"ledger {ledger} {size} bytes" + ("" if ledger in self.existing else " (garbage)")
            for ledger, size in sorted(bar.ledger_bytes.items())
        )
        return f"{', '.join(parts)}; {self._share(bar)}"

    def _share(self, bar: LogBar) -> str:
        return f"{bar.living_bytes(self.existing) / bar.total_bytes:.0%} lives"

    def _legend(self, drawing: Drawing, y: float) -> None:
        x = MARGIN + LABEL_WIDTH
        drawing.rect(x, y - 10, 22, 12, f"fill='url(#garbage)' stroke='{LINE}'")
        drawing.text(x + 28, y, "garbage: a ledger that no longer exists", fill=FAINT, size=11)

    def _bar(self, drawing: Drawing, y: float, bar: LogBar) -> None:
        largest = max(each.total_bytes for each in self.bars)
        drawing.text(MARGIN, y + 16, bar.name, bold=True)
        x: float = MARGIN + LABEL_WIDTH
        for ledger, size in sorted(bar.ledger_bytes.items()):
            width = BAR_WIDTH * size / largest
            self._segment(drawing, x, y, width, ledger)
            x += width
        part = f"{bar.living_bytes(self.existing) / bar.total_bytes:.0%}"
        words = f"{part} of {bar.total_bytes:,} B lives"
        drawing.text(WIDTH - MARGIN, y + 16, words, fill=FAINT, anchor="end")

    def _segment(self, drawing: Drawing, x: float, y: float, width: float, ledger: int) -> None:
        lives = ledger in self.existing
        fill = COLOURS[ledger % len(COLOURS)] if lives else ""
        style = f"fill='{fill or 'url(#garbage)'}' stroke='{LINE}'"
        drawing.rect(x, y, width, BAR_HEIGHT, style)
        if width >= NARROWEST_NUMBER:
            name = f"ledger {ledger}" if width >= NARROWEST_NAME else str(ledger)
            ink = "#fff" if lives else FAINT
            drawing.text(x + width / 2, y + 16, name, fill=ink, size=11, middle=True)
