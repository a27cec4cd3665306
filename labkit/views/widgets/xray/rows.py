"""The layout of a piece in rows of bytes, and the fields and entries that the bytes belong to."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from labkit.system.model.layout import Span
from labkit.system.model.length_prefixed import LENGTH_SIZE
from labkit.views.widgets.drawing.kin import entry_kin
from labkit.views.xray.byte_region import Piece

SLOT_SIZE, FIRST_SLOT = 8, 1024
MAX_SPAN_ROWS = 4
"""If a field fills more rows than this, only the first two rows and the last one are drawn."""
MAX_ZERO_ROWS = 1
"""If a field of zeros fills more rows than this, none of these rows is drawn."""


class ByteRow(NamedTuple):
    """A row of `size` bytes starting at `offset`, after `lead` empty cells. If the row stands for
    a gap, `left_out` is the number of omitted bytes.
    """

    offset: int
    lead: int
    size: int
    left_out: int = 0


def field_of(span: Span) -> str:
    """Return the name of the span's field, or "" if the span consists only of meaningless zeros."""
    return "" if span.value == "zeros" else span.name


def rows_of(piece: Piece, width: int) -> Iterator[ByteRow]:
    """Yield the rows of a piece, aligned so that one of them starts at `piece.lined_up`.

    Inside a long field, a gap replaces some of the rows, or all of them if the field contains only
    zeros.
    """
    end = piece.offset + len(piece.data)
    gaps = dict(_gaps(piece, width))
    at = piece.offset
    while at < end:
        if at in gaps:
            yield ByteRow(at, 0, 0, gaps[at])
            at += gaps[at]
            continue
        lead = (at - piece.lined_up) % width
        size = min(width - lead, end - at)
        yield ByteRow(at, lead, size)
        at += size


def _gaps(piece: Piece, width: int) -> Iterator[tuple[int, int]]:
    """Yield the (offset, size) of each gap. A gap replaces whole rows inside a long field."""
    for span in piece.spans:
        first = span.offset + (piece.lined_up - span.offset) % width
        whole_rows = (span.offset + span.size - first) // width
        start = span.offset - piece.offset
        is_zero = not any(piece.data[start : start + span.size])
        if is_zero and whole_rows > MAX_ZERO_ROWS:
            yield first, whole_rows * width
        elif whole_rows > MAX_SPAN_ROWS:
            yield first + 2 * width, (whole_rows - 3) * width


def bytes_of(piece: Piece, row: ByteRow) -> bytes:
    start = row.offset - piece.offset
    return piece.data[start : start + row.size]


def notes_of(piece: Piece, row: ByteRow) -> Iterator[tuple[str, str]]:
    """Yield the name and value of each field that starts in the row, with "" for a value that would
    only repeat the bytes or the name.
    """
    for span in piece.spans:
        if row.offset <= span.offset < row.offset + row.size:
            start = span.offset - piece.offset
            as_bytes = piece.data[start : start + span.size].hex()
            yield span.name, "" if span.value in (as_bytes, span.name) else span.value


def entries_of(piece: Piece) -> dict[int, str]:
    """Return the kin of the entry that each field belongs to, by the field's offset."""
    index = re.search(r"\b([0-9a-f]+)\.idx$", piece.file)
    if index:
        return dict(_slots_of(piece, int(index[1], 16)))
    found: dict[int, str] = {}
    for record in _records_of(piece.spans):
        ids = {span.name: span.value for span in record}
        ledger, entry = ids.get("ledger id", ""), ids.get("entry id", "")
        if ledger and entry.isdecimal():
            found |= {span.offset: entry_kin(ledger, entry) for span in record}
    return found


def _records_of(spans: Sequence[Span]) -> Iterator[list[Span]]:
    """Yield the fields of each record. A record starts with a length prefix or a ledger id, and
    ends before the padding of a sync.
    """
    record: list[Span] = []
    for span in spans:
        is_length_word = span.name == "length" and span.size == LENGTH_SIZE
        is_next = span.name == "ledger id" and any(each.name == "ledger id" for each in record)
        if is_length_word or is_next or span.name == "mask":
            yield record
            record = []
        record.append(span)
    yield record


def _slots_of(piece: Piece, ledger: int) -> Iterator[tuple[int, str]]:
    """Yield the offset of each slot of a ledger's index file, and its related marks."""
    for span in piece.spans:
        if span.offset >= FIRST_SLOT:
            yield span.offset, entry_kin(ledger, (span.offset - FIRST_SLOT) // SLOT_SIZE)


def text_of(data: bytes) -> str:
    """Return the bytes as characters, with a dot for each non-printable one."""
    return "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in data)
