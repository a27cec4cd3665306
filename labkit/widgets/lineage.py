"""The lineage of a message: from the four numbers of its MessageID down to bytes in files.

MessageID -> partition -> ledger of its chain -> entry -> place in the batch -> bookies of the write
set -> file, offset and bytes on each.  A part of the id has one colour: in the id, in the rows
below it, and in the bytes.
"""

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from typing import Any

import traitlets

from labkit.model.layout import Span
from labkit.model.lineage import Lineage
from labkit.model.piece import Piece
from labkit.widgets.lineage_rows import hue_of, id_boxes, legend_of, rows_of
from labkit.widgets.lineage_svg import lineage_svg
from labkit.widgets.view import View, joined
from labkit.widgets.xray_rows import drawn

_WIDTH = 16


class MessageIdLineage(View):
    """Shows where one message lies; `bookie` is the one whose bytes are shown."""

    _esm = joined("elements.js", "xray_piece.js", "lineage.js")
    _css = joined("view.css", "xray.css", "lineage.css")

    id_boxes: traitlets.List[Any] = traitlets.List().tag(sync=True)
    rows: traitlets.List[Any] = traitlets.List().tag(sync=True)
    legend: traitlets.List[Any] = traitlets.List().tag(sync=True)
    copies: traitlets.List[Any] = traitlets.List().tag(sync=True)
    bookie = traitlets.Unicode().tag(sync=True)

    def __init__(self, lineage: Lineage) -> None:
        self._lineage = lineage
        there = [copy.bookie for copy in lineage.copies if copy.piece.data]
        super().__init__(
            id_boxes=[list(box) for box in id_boxes(lineage)],
            legend=[list(each) for each in legend_of(lineage)],
            rows=[asdict(row) for row in rows_of(lineage)],
            copies=[
                {"bookie": copy.bookie, "piece": drawn(copy.piece, _WIDTH, self._hues(copy.piece))}
                for copy in lineage.copies
            ],
            bookie=there[0] if there else lineage.copies[0].bookie,
        )

    def svg(self) -> str:
        """All of it, with the bytes of the chosen bookie."""
        piece = next(c.piece for c in self._lineage.copies if c.bookie == self.bookie)
        return lineage_svg(self._lineage, piece, repr(self))

    def __repr__(self) -> str:
        it, lineage = self._lineage.message_id, self._lineage
        count = lineage.batch_size
        place = f"message {it.batch_index} of 0 to {count - 1}" if count else "one message"
        where = ", ".join(
            f"{copy.bookie} {copy.piece.file}@{copy.piece.offset}"
            if copy.piece.data
            else f"{copy.bookie} {copy.piece.absent}"
            for copy in lineage.copies
        )
        return (
            f"MessageID {it}: {lineage.topic}, chain of {len(lineage.chain)},"
            f" ledger {it.ledger_id}, entry {it.entry_id}, {place}; {where}"
        )

    def _hues(self, piece: Piece) -> Callable[[Span], int]:
        return partial(hue_of, self._lineage, piece_offset=piece.offset)
