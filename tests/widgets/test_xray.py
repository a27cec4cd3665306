"""The byte X-ray: what it shows of each byte, and its still picture."""

import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from labkit.model.layout import Field, Layout
from labkit.model.piece import Piece
from labkit.widgets.xray import XRay
from labkit.widgets.xray_rows import Row, notes_of, rows_of, text_of
from tests.storage.test_places import life_of_an_entry

HEAD = Layout("head", Field("length", "i", "bytes"), Field("ledger id", "q", "the ledger"))
DATA = HEAD.struct.pack(8, 7)
HEAD_PIECE = Piece("journal", "current/1.txn", 0, DATA, tuple(HEAD.spans(DATA)), len(DATA), 4)


@pytest.fixture(scope="module")
def moments() -> dict[str, tuple[Piece, ...]]:
    return life_of_an_entry()


def test_the_same_bytes_begin_a_row_in_every_piece() -> None:
    assert list(rows_of(HEAD_PIECE, 8)) == [Row(0, 4, 4), Row(4, 0, 8)]


def test_a_long_field_shows_its_first_and_its_last_rows() -> None:
    layout = Layout("file", Field("magic", "4s", "M"), Field("padding", "508x", "zeros"))
    data = layout.struct.pack(b"BKLG")
    rows = list(rows_of(Piece("f", "f", 0, data, tuple(layout.spans(data)), 512), 16))
    assert rows == [
        *(Row(0, 0, 16), Row(16, 0, 16), Row(32, 0, 16)),
        *(Row(48, 0, 0, 448), Row(496, 0, 16)),
    ]
    assert sum(row.size + row.left_out for row in rows) == 512


def test_a_note_names_the_fields_that_begin_in_the_row() -> None:
    assert list(notes_of(HEAD_PIECE, Row(0, 4, 4))) == [("length", "8")]
    assert list(notes_of(HEAD_PIECE, Row(6, 0, 6))) == []
    assert text_of(b"a\0~\x7f") == "a·~·"


def test_a_field_has_one_colour_in_every_piece(moments: dict[str, tuple[Piece, ...]]) -> None:
    view = XRay(moments)
    hues: dict[str, set[int]] = {}
    for piece in view.moments[-1]["pieces"]:
        for span in piece["spans"]:
            hues.setdefault(f"{span['name']} {span['size']}", set()).add(span["hue"])
    assert all(len(each) == 1 for each in hues.values())
    assert len(set.union(*hues.values())) == len(hues)


def test_the_output_says_in_words_what_the_picture_shows() -> None:
    view = XRay(replace(HEAD_PIECE, safe_size=4))
    data, _ = view._repr_mimebundle_()
    assert data["text/plain"] == "Byte X-ray: journal 12 bytes partly synced"
    assert data["image/svg+xml"] == view.svg()


def test_the_still_picture_is_the_same_each_time_and_needs_nothing_from_elsewhere(
    moments: dict[str, tuple[Piece, ...]],
) -> None:
    svg = XRay(moments).svg()
    ElementTree.fromstring(svg)
    assert svg == XRay(moments).svg()
    assert set(re.findall(r"https?://[^'\"]*", svg)) == {"http://www.w3.org/2000/svg"}


def test_the_still_picture_hatches_only_what_is_not_synced() -> None:
    assert "url(#unsynced)" not in XRay(HEAD_PIECE).svg()
    assert "url(#unsynced)" in XRay(replace(HEAD_PIECE, safe_size=0)).svg()
