"""The byte X-ray: pieces of files side by side, every byte under the name of its field.

One field has one colour in every piece, so the eye follows an entry from the client's bytes to the
journal, the entry log and the index.  Given several moments, the view steps through them; bytes
that a power cut would take are hatched.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import traitlets

from labkit.model.layout import Span
from labkit.model.piece import Piece
from labkit.widgets.view import View, joined
from labkit.widgets.xray_rows import Field, drawn, field_of
from labkit.widgets.xray_svg import xray_svg

Moments = Mapping[str, Sequence[Piece]]


class XRay(View):
    """Shows pieces of bytes.

    source: one piece, several, or several by moment (`{"before the sync": [...], ...}`).
    width: bytes a row; 8 by default for several pieces side by side, 16 for one.
    """

    _esm = joined("elements.js", "xray_piece.js", "xray.js")
    _css = joined("view.css", "xray.css")

    moments: traitlets.List[Any] = traitlets.List().tag(sync=True)
    shown = traitlets.Int(0).tag(sync=True)

    def __init__(self, source: Piece | Sequence[Piece] | Moments, width: int | None = None) -> None:
        self._moments = _by_moment(source)
        most = max(len(pieces) for pieces in self._moments.values())
        self._width = width or (8 if most > 1 else 16)
        self._fields = list(_fields(self._moments))
        super().__init__(
            moments=[
                {"label": label, "pieces": [drawn(p, self._width, self._hue) for p in pieces]}
                for label, pieces in self._moments.items()
            ],
            shown=len(self._moments) - 1,
        )

    def svg(self) -> str:
        """All moments, one below the other."""
        return xray_svg(self._moments, self._width, self._hue, repr(self))

    def __repr__(self) -> str:
        moments = [
            (f"{label}: " if label else "") + ", ".join(_words(piece) for piece in pieces)
            for label, pieces in self._moments.items()
        ]
        return "Byte X-ray: " + "; ".join(moments)

    def _hue(self, span: Span) -> int:
        field = field_of(span)
        return self._fields.index(field) if field else -1


def _by_moment(source: Piece | Sequence[Piece] | Moments) -> dict[str, Sequence[Piece]]:
    if isinstance(source, Piece):
        return {"": [source]}
    return dict(source) if isinstance(source, Mapping) else {"": source}


def _fields(moments: Moments) -> dict[Field, None]:
    """The fields of all pieces in order of their first appearance."""
    spans = (s for pieces in moments.values() for piece in pieces for s in piece.spans)
    return {field: None for span in spans if (field := field_of(span))}


def _words(piece: Piece) -> str:
    size = f"{len(piece.data)} bytes " if piece.data else ""
    return f"{piece.title} {size}{piece.words}".rstrip()
