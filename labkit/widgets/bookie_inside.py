"""Bookie inside: one bookie's memtable, journal, entry log and index over time, drawn only from a
trace.

Blocks are entries.  A flush copies them from the memtable, in order, into the entry log; the index
then knows where they are; LastLogMark moves over the journal records that are no longer needed.
After a crash the records behind the mark flow back into the memtable.
"""

from dataclasses import asdict
from typing import Any

import traitlets

from labkit.trace.bookie_fold import BOOKIE_KINDS, BookieState, fold_bookie
from labkit.trace.export import to_columns
from labkit.trace.log import TraceLog
from labkit.trace.sentence import SENTENCES
from labkit.widgets.bookie_bands import LEGEND, PLACES, bands_of
from labkit.widgets.bookie_svg import bookie_svg
from labkit.widgets.view import View, joined

DEFAULT_PAGE_SIZE = 8192


class BookieInside(View):
    """Shows one bookie of a log.

    log: what happened; the view shows what it holds now.
    bookie: its name; by default the first one that put an entry into its memtable.
    upto: the moment at which the view stands at first, and which the still picture shows: after so
    many of the log's events.  By default after the last.
    page_size: of the index, in bytes (`StorageConfig.page_size`).
    """

    _esm = joined(
        "elements.js",
        "events.js",
        "player.js",
        "bookie_fold.js",
        "bookie_bands.js",
        "bookie_inside.js",
    )
    _css = joined("view.css", "bookie_inside.css")

    journal = traitlets.Dict().tag(sync=True)
    bookie = traitlets.Unicode().tag(sync=True)
    start = traitlets.Int().tag(sync=True)
    page_size = traitlets.Int().tag(sync=True)
    words = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        log: TraceLog,
        bookie: str | None = None,
        upto: int | None = None,
        page_size: int = DEFAULT_PAGE_SIZE,
    ) -> None:
        bookie = bookie or next((e.node for e in log.events if e.kind == "memtable.put"), "")
        self._events = [e for e in log.events if e.node == bookie and e.kind in BOOKIE_KINDS]
        seen = self._events if upto is None else [e for e in self._events if e.seq < upto]
        super().__init__(
            journal={
                "kind": "whole",
                "number": 0,
                "columns": to_columns(self._events),
                "left_out": 0,
            },
            bookie=bookie,
            start=len(seen),
            page_size=page_size,
            words={"sentences": SENTENCES, "places": PLACES, "legend": LEGEND},
        )

    def state(self) -> BookieState:
        """The moment that the still picture shows."""
        return fold_bookie(self._events, self.start)

    def svg(self) -> str:
        """The still picture as an SVG document."""
        state = self.state()
        return bookie_svg(self.bookie, state, bands_of(state, self.page_size), repr(self))

    def bands(self) -> list[dict[str, Any]]:
        """What that picture consists of, as plain data."""
        return [asdict(band) for band in bands_of(self.state(), self.page_size)]

    def __repr__(self) -> str:
        state = self.state()
        record_count = sum(len(records) for records in state.journals.values())
        stored_count = sum(len(entries) for entries in state.logs.values())
        mark = f"{state.mark.file} {state.mark.offset}" if state.mark else "none"
        return (
            f"{self.bookie or 'no bookie'}, {state.state}: {len(state.memtable)} in the memtable,"
            f" {record_count} in the journal, {stored_count} in entry logs, LastLogMark {mark}"
        )
