"""The layout of a piece of bytes in rows, and the field of each byte."""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from labkit.system.model.byte_region import Piece
from labkit.system.model.layout import Span

SLOT_SIZE, FIRST_SLOT, LENGTH_WORD = 8, 1024, 4
LONGEST_SPAN_ROWS = 4
"""Of a field that fills more rows than this, only the first two and the last are drawn."""


class ByteRow(NamedTuple):
    """`size` bytes from `offset` on, after `lead` empty places; `left_out`: the bytes of a gap."""

    offset: int
    lead: int
    size: int
    left_out: int = 0


class Field(NamedTuple):
    """The key of a span's colour.  A length word and an entry's length have different ones."""

    name: str
    is_word: bool


def field_of(span: Span) -> Field | None:
    """The field of a span; None for zeros without meaning."""
    return None if span.value == "zeros" else Field(span.name, span.size == LENGTH_WORD)


def rows_of(piece: Piece, width: int) -> Iterator[ByteRow]:
    """The rows of a piece; `piece.lined_up` begins one of them.

    Rows that are completely inside one long field are replaced by a gap.
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
    """(offset, size) of each gap: whole rows inside a long field."""
    for span in piece.spans:
        first = span.offset + (piece.lined_up - span.offset) % width
        whole_rows = (span.offset + span.size - first) // width
        if whole_rows > LONGEST_SPAN_ROWS:
            yield first + 2 * width, (whole_rows - 3) * width


def bytes_of(piece: Piece, row: ByteRow) -> bytes:
    """The bytes in the row."""
    start = row.offset - piece.offset
    return piece.data[start : start + row.size]


def notes_of(piece: Piece, row: ByteRow) -> Iterator[tuple[str, str]]:
    """The name and value of each field that begins in the row; a value that only repeats the bytes
    is left out.
    """
    for span in piece.spans:
        if row.offset <= span.offset < row.offset + row.size:
            start = span.offset - piece.offset
            as_bytes = piece.data[start : start + span.size].hex()
            yield span.name, "" if span.value in (as_bytes, span.name) else span.value


def entries_of(piece: Piece) -> dict[int, str]:
    """The kin of the entry for each of its fields, by the field's offset."""
    index = re.search(r"\b([0-9a-f]+)\.idx$", piece.file)
    if index:
        return dict(_slots_of(piece, int(index[1], 16)))
    found: dict[int, str] = {}
    for record in _records_of(piece.spans):
        ids = {span.name: span.value for span in record}
        ledger, entry = ids.get("ledger id", ""), ids.get("entry id", "")
        if ledger and entry.isdecimal():
            found |= {span.offset: f"e{ledger}-{entry}" for span in record}
    return found


def _records_of(spans: Sequence[Span]) -> Iterator[list[Span]]:
    """The fields of each record: cut before a length word or a ledger id, with which a record
    begins, and before the padding of a sync.
    """
    record: list[Span] = []
    for span in spans:
        is_length_word = span.name == "length" and span.size == LENGTH_WORD
        is_next = span.name == "ledger id" and any(each.name == "ledger id" for each in record)
        if is_length_word or is_next or span.name == "mask":
            yield record
            record = []
        record.append(span)
    yield record


def _slots_of(piece: Piece, ledger: int) -> Iterator[tuple[int, str]]:
    """The slots of an index file; its name is the ledger's id in hexadecimal."""
    for span in piece.spans:
        if span.offset >= FIRST_SLOT:
            yield span.offset, f"e{ledger}-{(span.offset - FIRST_SLOT) // SLOT_SIZE}"


def text_of(data: bytes) -> str:
    """Bytes as characters, a dot for each that cannot be printed."""
    return "".join(chr(byte) if 32 <= byte < 127 else "·" for byte in data)
