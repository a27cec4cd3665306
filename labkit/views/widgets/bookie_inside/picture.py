"""The inside of a bookie as a scene: memory at the top, then its journal, entry logs and index."""

from collections.abc import Sequence
from itertools import groupby
from typing import NamedTuple

from labkit.system.trace.bookie_state import BookieState
from labkit.system.trace.cluster_state import ClusterFold
from labkit.system.trace.events import Event
from labkit.views.widgets.acts import Acts
from labkit.views.widgets.bookie_inside.bands import Band, Item, bands_of
from labkit.views.widgets.bookie_inside.blocks import (
    GAP,
    HIGH,
    NOTE,
    WIDTH,
    block,
    legend_of,
    symbols_of,
    width_of_item,
)
from labkit.views.widgets.captions import Explainer, note
from labkit.views.widgets.cluster.heads import GLYPH_INKS, GLYPHS, HEAD, acts_width, buttons
from labkit.views.widgets.drawing.kin import entry_kin, node_kin
from labkit.views.widgets.drawing.scene import Mark, PartCache, group, picture, rect, rounded, text
from labkit.views.widgets.drawing.text_metrics import fitted, width_of
from labkit.views.widgets.run import DisplayedRun

GUTTER, RIGHT = 150, WIDTH - 12
TOP, BETWEEN, PART = 46, 4, 10
"""The vertical position of the first band, the space below each band, and the space above each
component.
"""
LINE = HIGH + NOTE + 5
SAMPLED_MOMENTS = 300
"""If a run has more moments than this, a sample of this size determines the height of the
picture.
"""

_STATES = {"down": "down: memory is lost, files remain", "paused": "paused: not responding"}
_READS = {
    "memtable": "tailing read: from the memtable, without disk access",
    "entry log": "catch-up read: index, then entry log",
}
_EXPLAINED_AT = {"journal.synced": "journal disk"}
"""The component next to which the first event of a kind is explained; by default, the memory."""


class PlacedItem(NamedTuple):
    item: Item
    key: str
    kin: str
    x: float
    y: float


class BandLayout(NamedTuple):
    band: Band
    placed: tuple[PlacedItem, ...]
    height: float


class BookiePicture:
    """Draws one bookie of a run.

    acts: the buttons of the bookie.
    events: the events for which the picture reserves space; later events make the picture grow.
    """

    def __init__(
        self,
        run: DisplayedRun,
        name: str,
        page_size: int,
        acts: Acts,
        events: Sequence[Event],
    ) -> None:
        self._name, self._page_size, self._acts = name, page_size, acts
        self._fold = ClusterFold([name])
        self._explainer = Explainer(run)
        self.explainers = (self._explainer,)
        self._cache = PartCache()
        self._least = _height_for(events, name, page_size)
        self.symbols: set[str] = set()
        """The symbols that have been drawn so far."""
        self._came: dict[tuple[str, str], str] = {}

    def take(self, event: Event) -> None:
        self._fold.apply(event)
        self._explainer.take(event)

    def legend(self) -> Mark | None:
        return legend_of(frozenset(self.symbols))

    def scene(self) -> Mark:
        state = self._fold.inside(self._name)
        laid_out = _layouts(state, self._page_size, self._cache)
        tops, bottom = _tops(laid_out)
        self._move_flushed(laid_out, tops)
        shown = [
            self._cache.part(
                band.band.title,
                self._draw_band,
                band,
                top,
                named,
                state.state == "down",
                tuple(self._came.get((band.band.title, each.key), "") for each in band.placed),
            )
            for band, (top, named) in zip(laid_out, tops, strict=True)
        ]
        return picture(
            WIDTH,
            max(bottom, self._least),
            summary(self._name, state),
            self._cache.part("head", self._head, state.state, state.served and state.served.where),
            *shown,
            *self._note(laid_out, tops, max(bottom, self._least)),
        )

    def _move_flushed(
        self, bands: Sequence[BandLayout], tops: Sequence[tuple[float, bool]]
    ) -> None:
        """Animate flushed entries, which slide from the memtable to an entry log."""
        held = {
            placed.kin: (placed.x, top + placed.y)
            for band, (top, _) in zip(bands, tops, strict=True)
            if band.band.part == "memory"
            for placed in band.placed
        }
        for band, (top, _) in zip(bands, tops, strict=True):
            for placed in band.placed:
                if placed.item.look == "written" and band.band.part == "ledger disk":
                    x, y = held.get(placed.kin, (placed.x, top + placed.y - 40))
                    offset = f"{rounded(x - placed.x):g} {rounded(y - top - placed.y):g}"
                    self._came.setdefault((band.band.title, placed.key), offset)

    def _draw_band(
        self,
        laid_out: BandLayout,
        top: float,
        is_named: bool,
        is_down: bool,
        origins: Sequence[str],
    ) -> Mark:
        self.symbols.update(*(symbols_of(each.item) for each in laid_out.placed))
        band, height = laid_out.band, laid_out.height
        is_dark = is_down and band.part == "memory"  # the memory of a process that is down
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
            *(block(*each, came) for each, came in zip(laid_out.placed, origins, strict=True)),
            y=top,
        )

    def _head(self, state: str, found: str | None) -> Mark:
        ink, name = ("lost" if state == "down" else "ink"), fitted(self._name, 200, 14, bold=True)
        about = group(
            "about",
            text("glyph", 16, 26, GLYPHS[state], fill=GLYPH_INKS.get(state, "faint"), bold=True),
            text("name", 34, 26, name, fill=ink, size=14, bold=True),
            title=f"{self._name}: {state}",
            kin=node_kin(self._name),
        )
        x = 46 + width_of(name, 14, bold=True)
        acts = group("acts", *buttons(self._name, state, self._acts, 300), x=x, y=9 - HEAD)
        state_text = text(
            "state",
            x + (acts_width(self._acts) + 6 if self._acts.offered else 0),
            26,
            _STATES.get(state, ""),
            fill=ink,
        )
        read = _READS.get(found or "", "")
        where = text("read", RIGHT, 26, read, fill="confirmed", bold=True, anchor="end")
        return group("head", about, acts, state_text, where)

    def _note(
        self, bands: Sequence[BandLayout], tops: Sequence[tuple[float, bool]], bottom: float
    ) -> list[Mark]:
        event = self._explainer.event
        if event is None:
            return []
        part = _EXPLAINED_AT.get(event.kind, "memory")
        band, top = next(
            (b, t) for b, (t, _) in zip(bands, tops, strict=True) if b.band.part == part
        )
        places = [p for p in band.placed if p.kin == entry_kin(event.ledger, event.entry)]
        x, y = (places[0].x, places[0].y) if places else (GUTTER + 8, 7)
        return [note(self._explainer.words, x, top + y + HIGH + NOTE + 4, RIGHT, bottom)]


def summary(name: str, state: BookieState) -> str:
    record_count = sum(len(records) for records in state.journals.values())
    stored_count = sum(len(entries) for entries in state.logs.values())
    mark = f"{state.mark.file} {state.mark.offset}" if state.mark else "none"
    return (
        f"{name or 'no bookie'}, {state.state}: {len(state.memtable)} in the memtable,"
        f" {record_count} in the journal, {stored_count} in entry logs, LastLogMark {mark}"
    )


def _height_for(events: Sequence[Event], name: str, page_size: int) -> float:
    fold, cache, most = ClusterFold([name]), PartCache(), 0.0
    step = len(events) // SAMPLED_MOMENTS + 1
    for at, event in enumerate(events):
        fold.apply(event)
        if at % step == 0 or event is events[-1]:
            most = max(most, _tops(_layouts(fold.inside(name), page_size, cache))[1])
    return most


def _layouts(state: BookieState, page_size: int, cache: PartCache) -> list[BandLayout]:
    bands = bands_of(state, page_size)
    return [cache.part(f"layout of {band.title}", _layout, band) for band in bands]


def _layout(band: Band) -> BandLayout:
    placed = _placed(band)
    return BandLayout(band, placed, placed[-1].y + LINE + 3 if placed else LINE + 10.0)


def _tops(bands: Sequence[BandLayout]) -> tuple[list[tuple[float, bool]], float]:
    """For each band, return its top and whether it is the first band of its component; also return
    the bottom of the last band.
    """
    tops, y = list[tuple[float, bool]](), float(TOP)
    for _, part in groupby(bands, key=lambda each: each.band.part):
        y += PART
        for at, band in enumerate(part):
            tops.append((y, at == 0))
            y += band.height + BETWEEN
    return tops, y + BETWEEN


def _placed(band: Band) -> tuple[PlacedItem, ...]:
    placed, x, y, before = list[PlacedItem](), float(RIGHT), 7.0 - LINE, ""
    for item in band.items:
        width = width_of_item(item)
        if x + width > RIGHT - 8:
            x, y = GUTTER + 8, y + LINE
        key, kin = _names_of(item, band.title, before)
        placed.append(PlacedItem(item, key, kin, x, y))
        x, before = x + width + GAP, key
    return tuple(placed)


def _names_of(item: Item, title: str, before: str) -> tuple[str, str]:
    """Return a key that identifies the item across scenes, and the item's kin, which groups related
    marks.
    """
    if item.kind == "entry":
        name = entry_kin(item.ledger, item.entry)
        return name, name
    if item.kind == "special":
        # If a file was lost in a crash and written again, two ledgers can have the same offset.
        return f"r{item.ledger}-{item.note}", f"r{title}-{item.note}"
    if item.kind == "mark":  # Use one key at all offsets, so that readers see the mark advance.
        return "mark", ""
    return f"{item.kind} {item.label if item.kind == 'page' else before}", ""
