"""What the front end of the lineage draws a piece of bytes from."""

from collections.abc import Callable
from typing import Any

from labkit.model.layout import Span
from labkit.model.piece import Piece
from labkit.widgets.xray.rows import bytes_of, notes_of, rows_of


def drawn(piece: Piece, width: int, hue_of: Callable[[Span], int]) -> dict[str, Any]:
    """What the front end draws a piece from; a hue of -1 is none."""
    return {
        "title": piece.title,
        "file": piece.file,
        "state": piece.state,
        "words": piece.words,
        "offset": piece.offset,
        "safe_size": piece.safe_size,
        "rows": [
            [
                row.offset,
                row.lead,
                row.left_out,
                list(bytes_of(piece, row)),
                [*notes_of(piece, row)],
            ]
            for row in rows_of(piece, width)
        ],
        "width": width,
        "spans": [
            {
                "name": span.name,
                "hue": hue_of(span),
                "offset": span.offset,
                "size": span.size,
                "value": span.value,
                "meaning": span.meaning,
            }
            for span in piece.spans
        ],
    }
