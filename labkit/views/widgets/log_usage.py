"""Draws entry logs as bars: which ledgers share each log, and how many of its bytes are live.

Bytes of existing ledgers are coloured, and garbage is hatched. The picture is not interactive; to
see changes, draw it again.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

from labkit.views.widgets.drawing.plurals import counted
from labkit.views.widgets.drawing.scene import Mark, group, hatch, path, picture, rect, text
from labkit.views.widgets.view import StillPicture

WIDTH, MARGIN = 720, 14
LABEL_WIDTH, BAR_WIDTH = 64, 470
BAR_HEIGHT, ROW, LEGEND_HEIGHT = 24, 34, 20
MIN_NAME_WIDTH = 68
"""Segments narrower than this are labelled with only the ledger id."""
MIN_NUMBER_WIDTH = 20
COLOURS = ("well", "confirmed", "stored")


@dataclass(frozen=True, slots=True)
class LogBar:
    name: str
    ledger_bytes: Mapping[int, int]

    @property
    def total_bytes(self) -> int:
        return sum(self.ledger_bytes.values())

    def living_bytes(self, existing: Collection[int]) -> int:
        return sum(size for ledger, size in self.ledger_bytes.items() if ledger in existing)


class LogUsage(StillPicture):
    """Draws entry logs. Entries of ledgers that are not in `existing` are garbage."""

    def __init__(self, bars: Sequence[LogBar], existing: Collection[int]) -> None:
        self.bars = [bar for bar in bars if bar.total_bytes]
        self.existing = frozenset(existing)

    def __repr__(self) -> str:
        total = sum(bar.total_bytes for bar in self.bars)
        lines = [f"{counted(len(self.bars), 'log')}, {total} bytes of entries"]
        lines += (f"  {bar.name}: {self._words(bar)}" for bar in self.bars)
        return "\n".join(lines)

    def scene(self) -> Mark:
        has_garbage = any(bar.living_bytes(self.existing) < bar.total_bytes for bar in self.bars)
        height = 2 * MARGIN + ROW * max(1, len(self.bars)) + LEGEND_HEIGHT * has_garbage
        marks = [self._bar(MARGIN + ROW * row + 5, bar) for row, bar in enumerate(self.bars)]
        if not marks:
            marks.append(
                text("none", MARGIN, MARGIN + 21, "no log contains an entry", fill="faint")
            )
        if has_garbage:
            words = "garbage: entries of deleted ledgers"
            label = text("words", 28, 10.5, words, fill="faint")
            x, y = MARGIN + LABEL_WIDTH, height - MARGIN - 14
            marks.append(group("legend", *_garbage(22, 13), label, x=x, y=y))
        return picture(WIDTH, height, repr(self), *marks)

    def _words(self, bar: LogBar) -> str:
        parts = (
            f"ledger {ledger} {size} bytes" + ("" if ledger in self.existing else " (garbage)")
            for ledger, size in sorted(bar.ledger_bytes.items())
        )
        return f"{', '.join(parts)}; {self._share(bar)}"

    def _share(self, bar: LogBar) -> str:
        return f"{bar.living_bytes(self.existing) / bar.total_bytes:.0%} live"

    def _bar(self, y: float, bar: LogBar) -> Mark:
        largest = max(each.total_bytes for each in self.bars)
        ledgers = sorted(bar.ledger_bytes.items())
        widths = [BAR_WIDTH * size / largest for _, size in ledgers]
        places = accumulate(widths, initial=float(MARGIN + LABEL_WIDTH))
        part = f"{bar.living_bytes(self.existing) / bar.total_bytes:.0%}"
        words = f"{part} of {bar.total_bytes:,} B live"
        return group(
            bar.name,
            text("name", MARGIN, 16, bar.name, bold=True),
            *(
                self._segment(ledger, x, width)
                for (ledger, _), x, width in zip(ledgers, places, widths, strict=False)
            ),
            text("live", WIDTH - MARGIN, 16, words, fill="faint", anchor="end"),
            y=y,
        )

    def _segment(self, ledger: int, x: float, width: float) -> Mark:
        lives = ledger in self.existing
        fill = COLOURS[ledger % len(COLOURS)]
        box = [rect("box", 0, 0, width, BAR_HEIGHT, fill=fill, stroke="line")]
        parts = box if lives else _garbage(width, BAR_HEIGHT)
        if width >= MIN_NUMBER_WIDTH:
            name = f"ledger {ledger}" if width >= MIN_NAME_WIDTH else str(ledger)
            ink = "page" if lives else "ink"
            parts.append(
                text("name", width / 2, 16, name, fill=ink, anchor="middle", halo=not lives)
            )
        return group(str(ledger), *parts, x=x)


def _garbage(width: float, height: float) -> list[Mark]:
    return [
        rect("box", 0, 0, width, height, fill="box", stroke="line"),
        path("garbage", hatch(width, height), stroke="line", thick=2),
    ]
