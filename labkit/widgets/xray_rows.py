"""How a piece of bytes is laid out in rows, the same for the moving picture and the still one."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from labkit.model.layout import Span
from labkit.model.piece import Piece

LONGEST_SPAN_ROWS = 4
"""Of a field that fills more rows, only the first two and the last are drawn."""


class Row(NamedTuple):
    """`size` bytes from `offset` on, behind `lead` empty places; `left_out` bytes for a gap."""

    offset: int
    lead: int
    size: int
    left_out: int = 0


class Field(NamedTuple):
    """What gives a span its colour.  A length word and an entry's length are different things."""

    name: str
    is_word: bool


def field_of(span: Span) -> Field | None:
    """The field that the span is; None for zeros, which mean nothing."""
    return None if span.value == "zeros" else Field(span.name, span.size == 4)


def rows_of(piece: Piece, width: int) -> Iterator[Row]:
    """The rows of a piece; `piece.lined_up` begins one of them.

    Rows that lie wholly inside one long field give way to a gap.
    """
    end = piece.offset + len(piece.data)
    gaps = dict(_gaps(piece, width))
    at = piece.offset
    while at < end:
        if at in gaps:
            yield Row(at, 0, 0, gaps[at])
            at += gaps[at]
            continue
        lead = (at - piece.lined_up) % width
        size = min(width - lead, end - at)
        yield Row(at, lead, size)
        at += size


def _gaps(piece: Piece, width: int) -> Iterator[tuple[int, int]]:
    """(offset, size) of what is not drawn: whole rows inside a long field."""
    for span in piece.spans:
        first = span.offset + (piece.lined_up - span.offset) % width
        whole_rows = (span.offset + span.size - first) // width
        if whole_rows > LONGEST_SPAN_ROWS:
            yield first + 2 * width, (whole_rows - 3) * width


def bytes_of(piece: Piece, row: Row) -> bytes:
    """The bytes that the row shows."""
    start = row.offset - piece.offset
    return piece.data[start : start + row.size]


def notes_of(piece: Piece, row: Row) -> Iterator[tuple[str, str]]:
    """Name and value of each field that begins in the row; a value that is only its bytes once
    more is left out.
    """
    for span in piece.spans:
        if row.offset <= span.offset < row.offset + row.size:
            start = span.offset - piece.offset
            as_bytes = piece.data[start : start + span.size].hex()
            yield span.name, "" if span.value in (as_bytes, span.name) else span.value


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


def text_of(data: bytes) -> str:
    """Bytes as characters, a dot for each that cannot be printed."""
    return "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in data)
