"""A bookie's inside as a scene: memory at the top, then its journal, entry logs and index."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from labkit.system.trace.bookie_fold import BookieFold, BookieState
from labkit.system.trace.events import Event
from labkit.views.widgets.bookie_inside.bands import Band, Item, bands_of
from labkit.views.widgets.bookie_inside.blocks import GAP, HIGH, NOTE, WIDTH, block, width_of_item
from labkit.views.widgets.captions import FirstTimes, note
from labkit.views.widgets.cluster.heads import GLYPHS, HEAD, buttons
from labkit.views.widgets.run import DisplayedRun
from labkit.views.widgets.scene import Mark, PartCache, group, picture, rect, text
from labkit.views.widgets.text_metrics import fitted, width_of

GUTTER, RIGHT = 150, WIDTH - 12
TOP, BETWEEN, PART = 46, 4, 10
"""The top of the first band, and the space below a band and above a band of another part."""
LINE = HIGH + NOTE + 5
MOMENTS = 300
"""In a longer run, a sample of this many moments determines the height of the picture."""

_INKS = {"up": "well", "down": "lost"}
_STATES = {"down": "down: memory lost, files kept", "paused": "paused: it does not answer"}
_READS = {
    "memtable": "tailing read: memtable, no disk",
    "entry log": "catch-up read: index, then entry log",
}
_SAID_OF = {"journal.synced": "journal disk"}
"""The part beside which the first event of a kind is explained; by default the memory."""


class Placed(NamedTuple):
    """A block, its key, its kin, and its place in its band."""

    item: Item
    key: str
    kin: str
    x: float
    y: float


class LaidOut(NamedTuple):
    """A band and the places of its blocks."""

    band: Band
    placed: tuple[Placed, ...]
    height: float


class Lines:
    """Breaks bands into lines; a band that did not change is kept."""

    def __init__(self) -> None:
        self._last: dict[str, LaidOut] = {}

    def laid_out(self, bands: Sequence[Band]) -> list[LaidOut]:
        """The bands with their blocks; a band that did not change is the same as before."""
        found = []
        for band in bands:
            last = self._last.get(band.title)
            if last is None or last.band != band:
                placed = _placed(band)
                height = placed[-1].y + LINE + 3 if placed else LINE + 10.0
                last = self._last[band.title] = LaidOut(band, placed, height)
            found.append(last)
        return found


class BookiePicture:
    """Draws one bookie of a run.

    acts: the faults that the reader can cause.  events: all events of the run, so that the picture
    is high enough from the start; without them it grows.
    """

    def __init__(
        self,
        run: DisplayedRun,
        name: str,
        page_size: int,
        acts: tuple[str, ...],
        events: Sequence[Event],
    ) -> None:
        self._name, self._page_size, self._acts = name, page_size, acts
        self._fold = BookieFold()
        self._firsts = FirstTimes(run)
        self._kept = PartCache()
        self._lines = Lines()
        self._least = _height_for(events, page_size)

    @property
    def hush_at(self) -> float | None:
        """The position on the clock at which the words about a first event end."""
        return self._firsts.hush_at

    def hush(self) -> None:
        """Those words end."""
        self._firsts.hush()

    def take(self, event: Event) -> None:
        """Take the next event of this bookie."""
        self._fold.apply(event)
        self._firsts.take(event)

    def scene(self) -> Mark:
        """The picture now."""
        state = self._fold.state()
        bands = bands_of(state, self._page_size)
        laid_out = self._lines.laid_out(bands)
        tops, bottom = _tops(laid_out)
        shown = [
            self._kept.part(band.band.title, _band, band, top, named, state.state == "down")
            for band, (top, named) in zip(laid_out, tops, strict=True)
        ]
        return picture(
            WIDTH,
            max(bottom, self._least),
            summary(self._name, state),
            self._kept.part("head", self._head, state.state, state.found and state.found.where),
            *shown,
            *self._note(laid_out, tops, max(bottom, self._least)),
        )

    def _head(self, state: str, found: str | None) -> Mark:
        ink, name = ("lost" if state == "down" else "ink"), fitted(self._name, 200, 14, bold=True)
        about = group(
            "about",
            text("glyph", 16, 26, GLYPHS[state], fill=_INKS.get(state, "faint"), bold=True),
            text("name", 34, 26, name, fill=ink, size=14, bold=True),
            title=f"{self._name}: {state}",
            kin=f"n-{self._name}",
        )
        x = 46 + width_of(name, 14, bold=True)
        acts = group(
            "acts", *buttons(self._name, state, self._acts, self._name, 100), x=x, y=9 - HEAD
        )
        said = text("state", x + (92 if self._acts else 0), 26, _STATES.get(state, ""), fill=ink)
        read = _READS.get(found or "", "")
        where = text("read", RIGHT, 26, read, fill="confirmed", bold=True, anchor="end")
        return group("head", about, acts, said, where)

    def _note(
        self, bands: Sequence[LaidOut], tops: Sequence[tuple[float, bool]], bottom: float
    ) -> list[Mark]:
        event = self._firsts.event
        if event is None:
            return []
        part = _SAID_OF.get(event.kind, "memory")
        band, top = next(
            (b, t) for b, (t, _) in zip(bands, tops, strict=True) if b.band.part == part
        )
        places = [p for p in band.placed if p.kin == f"e{event.ledger}-{event.entry}"]
        x, y = (places[0].x, places[0].y) if places else (GUTTER + 8, 7)
        return [note(self._firsts.words, x, top + y + HIGH + NOTE + 4, RIGHT, bottom)]


def summary(name: str, state: BookieState) -> str:
    """The picture in one line of words."""
    record_count = sum(len(records) for records in state.journals.values())
    stored_count = sum(len(entries) for entries in state.logs.values())
    mark = f"{state.mark.file} {state.mark.offset}" if state.mark else "none"
    return (
        f"{name or 'no bookie'}, {state.state}: {len(state.memtable)} in the memtable,"
        f" {record_count} in the journal, {stored_count} in entry logs, LastLogMark {mark}"
    )


def _height_for(events: Sequence[Event], page_size: int) -> float:
    """The largest height of the picture over a sample of the moments."""
    fold, lines, most, step = BookieFold(), Lines(), 0.0, len(events) // MOMENTS + 1
    for at, event in enumerate(events):
        fold.apply(event)
        if at % step == 0 or event is events[-1]:
            most = max(most, _tops(lines.laid_out(bands_of(fold.state(), page_size)))[1])
    return most


def _tops(bands: Sequence[LaidOut]) -> tuple[list[tuple[float, bool]], float]:
    """The top of each band, whether it begins another part, and the bottom of the last one."""
    tops, y = list[tuple[float, bool]](), float(TOP)
    for _, part in groupby(bands, key=lambda each: each.band.part):
        y += PART
        for at, band in enumerate(part):
            tops.append((y, at == 0))
            y += band.height + BETWEEN
    return tops, y + BETWEEN


def _band(laid_out: LaidOut, top: float, is_named: bool, is_down: bool) -> Mark:
    """A band with its name at the left."""
    band, height = laid_out.band, laid_out.height
    is_dark = is_down and band.part == "memory"  # Memory without power.
    frame = rect(
        "frame",
        GUTTER,
        0,
        RIGHT - GUTTER,
        height,
        rx=5,
        fill="page" if is_dark else "box",
        stroke="lost" if is_dark else "line",
        dash="6 3" if is_dark else "",
    )
    title = fitted(band.title, GUTTER - 22, bold=True)
    return group(
        band.title,
        frame,
        *([text("part", 16, 3, band.part, fill="faint")] if is_named else []),
        text("title", 16, 20, title, bold=True),
        text("subtitle", 16, 36, fitted(band.subtitle, GUTTER - 18), fill="faint"),
        *(block(*placed) for placed in laid_out.placed),
        y=top,
    )


def _placed(band: Band) -> tuple[Placed, ...]:
    """The blocks of a band, broken into lines that fit."""
    placed, x, y, before = list[Placed](), float(RIGHT), 7.0 - LINE, ""
    for item in band.items:
        width = width_of_item(item)
        if x + width > RIGHT - 8:
            x, y = GUTTER + 8, y + LINE
        key, kin = _names_of(item, band.title, before)
        placed.append(Placed(item, key, kin, x, y))
        x, before = x + width + GAP, key
    return tuple(placed)


def _names_of(item: Item, title: str, before: str) -> tuple[str, str]:
    """A key that stays the same for the item, and its kin: the names of what it shows."""
    if item.kind == "entry":
        name = f"e{item.ledger}-{item.entry}"
        return name, name
    if item.kind == "special":
        return f"r{item.note}", f"r{title}-{item.note}"
    return f"{item.kind} {item.label if item.kind == 'page' else before}", ""
