"""Draws a piece of a file: rows of bytes, labelled with the names of their fields.

Each field has a tint, a bar at its first byte, and a label with its name. Unsynced bytes are
hatched and labelled as unsynced.
"""

from collections.abc import Callable, Mapping
from hashlib import blake2b
from typing import NamedTuple
from zlib import crc32

from labkit.system.model.layout import Span
from labkit.views.widgets.drawing.scene import Mark, group, hatch, path, rect, text
from labkit.views.widgets.drawing.text_metrics import fitted, width_of
from labkit.views.widgets.xray.rows import (
    ByteRow,
    bytes_of,
    entries_of,
    field_of,
    notes_of,
    rows_of,
    text_of,
)
from labkit.views.xray.byte_region import Piece

ROW, BYTE, CHAR, HEAD = 20, 18, 7.3, 30
TINTS = {
    **{"ledger id": "tint0", "entry id": "tint1", "last add confirmed": "tint2"},
    **{"length": "tint3", "digest": "tint4", "offset": "tint5", "magic": "tint6"},
    **{"version": "tint7", "log id": "tint8", "master key": "tint9", "payload": "tint10"},
}
"""The tints of the most common fields, by name. The lineage of a message uses them, too."""
AS_BEFORE = "as before"


class PieceStyle(NamedTuple):
    """The settings for drawing pieces.

    width: the number of bytes in a row.
    panel: the width of a piece.
    fill_of: returns the colour of a field.
    kin_of: returns the kin of a field, in addition to the kin of its entry.
    """

    width: int
    panel: float
    fill_of: Callable[[Piece, Span], str]
    kin_of: Callable[[Piece, Span], str]

    @property
    def left(self) -> float:
        return 48 if self.width <= 8 else 62


def height_of(piece: Piece, width: int) -> float:
    return HEAD + ROW * len(list(rows_of(piece, width))) + (8 if piece.data else 0)


def piece_mark(piece: Piece, look: PieceStyle, x: float, y: float, height: float) -> Mark:
    """Return a piece in a frame of the given height."""
    dash = "" if piece.data or piece.absent == AS_BEFORE else "5 3"
    frame = rect("frame", 0, 0, look.panel, height, rx=6, fill="page", stroke="line", dash=dash)
    kins = entries_of(piece)
    rows = [
        _row(piece, row, look, kins, HEAD + ROW * at)
        for at, row in enumerate(rows_of(piece, look.width))
    ]
    return group(piece.title, frame, _head(piece, look.panel, kins), *rows, x=x, y=y, block=True)


def _head(piece: Piece, panel: float, kins: Mapping[int, str]) -> Mark:
    file = piece.file.removeprefix("current/")
    is_lost = piece.state in ("not synced", "partly synced")
    after = 20 + width_of(piece.title, bold=True)
    title = " ".join(each for each in (piece.title, file, piece.words) if each)
    entries = dict.fromkeys(kins.values())
    return group(
        "head",
        rect("reach", 4, 3, panel - 8, 24, fill="none"),
        text("name", 8, 19, piece.title, bold=True),
        text("file", after, 19, fitted(file, panel - after - 110), fill="faint"),
        text(
            "state",
            panel - 8,
            19,
            piece.words,
            fill="lost" if is_lost else "faint",
            bold=is_lost,
            anchor="end",
        ),
        title=title,
        kin=next(iter(entries)) if len(entries) == 1 else "",
    )


def _row(piece: Piece, row: ByteRow, look: PieceStyle, kins: Mapping[int, str], y: float) -> Mark:
    if row.left_out:
        start = row.offset - piece.offset
        is_zero = not any(piece.data[start : start + row.left_out])
        words = f"⋮ {row.left_out:,} {'zeros' if is_zero else 'bytes'}"
        return group(str(row.offset), text("gap", look.left, 14, words, fill="faint"), y=y)
    at = look.left + BYTE * look.width + 8
    note_x = at + CHAR * look.width + 8
    note = " · ".join(f"{name} {value}".rstrip() for name, value in notes_of(piece, row))
    chars = text_of(bytes_of(piece, row))
    return group(
        str(row.offset),
        text("at", look.left - 6, 14, str(row.offset), fill="faint", anchor="end", mono=True),
        *(_field(piece, row, span, look, kins) for span in piece.spans if _part(row, span)),
        text("text", at + CHAR * row.lead, 14, chars, fill="faint", mono=True),
        text("note", note_x, 14, fitted(note, look.panel - note_x - 6)),
        y=y,
    )


def _part(row: ByteRow, span: Span) -> range:
    return range(max(row.offset, span.offset), min(row.offset + row.size, span.offset + span.size))


def _field(
    piece: Piece, row: ByteRow, span: Span, look: PieceStyle, kins: Mapping[int, str]
) -> Mark:
    part = _part(row, span)
    fill = look.fill_of(piece, span)
    marks = [rect("box", 0, 1, BYTE * len(part), ROW - 3, fill=fill)]
    unsafe = [at for at in part if at >= piece.offset + piece.safe_size]
    if unsafe:
        lines = path("lines", hatch(BYTE * len(unsafe), ROW - 3, step=5), stroke="lost")
        marks.append(group("unsafe", lines, x=BYTE * (unsafe[0] - part.start), y=1))
    is_first = part.start == span.offset
    if is_first:
        marks.append(rect("first", 0, 1, 2, ROW - 3, fill="faint"))
    for at in part:
        byte = f"{piece.data[at - piece.offset]:02x}"
        x = BYTE * (at - part.start) + BYTE / 2
        marks.append(text(str(at), x, 14, byte, anchor="middle", mono=True, halo=at in unsafe))
    return group(
        str(span.offset),
        *marks,
        x=look.left + BYTE * (row.lead + part.start - row.offset),
        title=_words(piece, span) if is_first else "",
        kin=f"{look.kin_of(piece, span)} {kins.get(span.offset, '')}".rstrip(),
    )


def _words(piece: Piece, span: Span) -> str:
    file = piece.file.removeprefix("current/")
    count = f"{span.size:,} byte{'' if span.size == 1 else 's'}"
    where = f"{piece.title} {file} offset {span.offset:,}, {count}"
    return f"{span.name} {span.value}: {span.meaning} ({' '.join(where.split())})"


def tint_of(field: str) -> str:
    """Return the tint of a field, which is the same in every view."""
    return TINTS.get(field) or f"tint{crc32(field.encode()) % len(TINTS)}"


def field_kin(piece: Piece, span: Span) -> str:
    """Return the kin that a field shares with equal fields of other pieces. Meaningless zeros have
    their own kin.
    """
    field = field_of(span)
    about = (field, span.value) if field else (piece.title, piece.file, span.offset)
    return "f" + blake2b(repr(about).encode(), digest_size=6).hexdigest()
