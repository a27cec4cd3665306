"""Tests the byte X-ray: the description of each byte, and the static picture."""

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from labkit.course.runs.bookie.one_bookie import OneBookie
from labkit.system.model.layout import Field, Layout
from labkit.views.widgets.bookie_inside import BookieInside
from labkit.views.widgets.drawing.scene import Mark
from labkit.views.widgets.lineage.picture import TINTS as LINEAGE_TINTS
from labkit.views.widgets.lineage.rows import LEDGER
from labkit.views.widgets.xray import XRay
from labkit.views.widgets.xray.rows import ByteRow, notes_of, rows_of, text_of
from labkit.views.xray.byte_region import Piece
from labkit.views.xray.file_spans import journal_spans
from tests.views.widgets.films import attributes_of
from tests.views.xray.test_entry_locations import Moments, life_of_an_entry

HEAD = Layout("head", Field("length", "i", "bytes"), Field("ledger id", "q", "the ledger"))
DATA = HEAD.struct.pack(8, 7)
HEAD_PIECE = Piece("journal", "current/1.txn", 0, DATA, tuple(HEAD.spans(DATA)), len(DATA), 4)


@pytest.fixture(scope="module")
def moments() -> Moments:
    return life_of_an_entry()


def test_the_same_bytes_begin_a_row_in_every_piece() -> None:
    assert list(rows_of(HEAD_PIECE, 8)) == [ByteRow(0, 4, 4), ByteRow(4, 0, 8)]


def test_a_run_of_zeros_is_one_row() -> None:
    layout = Layout("file", Field("magic", "4s", "M"), Field("padding", "508x", "zeros"))
    data = layout.struct.pack(b"BKLG")
    piece = Piece("f", "f", 0, data, tuple(layout.spans(data)), 512)
    assert list(rows_of(piece, 16)) == [ByteRow(0, 0, 16), ByteRow(16, 0, 0, 496)]
    assert "⋮ 496 zeros" in XRay(piece).svg()


def test_a_field_has_the_same_colour_in_every_view() -> None:
    other = Layout("other", Field("magic", "4s", "M"), Field("ledger id", "q", "the ledger"))
    data = other.struct.pack(b"BKLG", 7)
    colours = {
        str(field.children[1].attributes["class"])
        for piece in (HEAD_PIECE, Piece("f", "f", 0, data, tuple(other.spans(data)), 12))
        for field in fields_of(XRay(piece).scene())
        if title_of(field).startswith("ledger id")
    }
    assert colours == {f"f-{LINEAGE_TINTS[LEDGER]}"}


def test_a_long_field_shows_its_first_and_its_last_rows() -> None:
    layout = Layout("file", Field("magic", "4s", "M"), Field("payload", "508s", "data"))
    data = layout.struct.pack(b"BKLG", b"x" * 508)
    rows = list(rows_of(Piece("f", "f", 0, data, tuple(layout.spans(data)), 512), 16))
    assert rows == [
        *(ByteRow(0, 0, 16), ByteRow(16, 0, 16), ByteRow(32, 0, 16)),
        *(ByteRow(48, 0, 0, 448), ByteRow(496, 0, 16)),
    ]
    assert sum(row.size + row.left_out for row in rows) == 512


def test_a_note_names_the_fields_that_begin_in_the_row() -> None:
    assert list(notes_of(HEAD_PIECE, ByteRow(0, 4, 4))) == [("length", "8")]
    assert list(notes_of(HEAD_PIECE, ByteRow(6, 0, 6))) == []
    assert text_of(b"a\0~\x7f") == "a·~·"


def fields_of(mark: Mark) -> Iterator[Mark]:
    """Yield the marks for fields, or for the parts of fields in a row."""
    if str(mark.attributes.get("data-kin", "")).startswith("f"):
        yield mark
    for child in mark.children:
        yield from fields_of(child)


def title_of(mark: Mark) -> str:
    return mark.children[0].text if mark.children[0].tag == "title" else ""


def test_a_field_has_one_colour_in_every_piece(moments: Moments) -> None:
    looks: dict[str, set[object]] = {}
    for field in fields_of(XRay(moments).scene()):
        if title_of(field):
            size = re.search(r"[\d,]+ bytes?\)$", title_of(field))
            name = f"{title_of(field).split(':')[0]} {size and size[0]}"
            looks.setdefault(name, set()).add(field.children[1].attributes["class"])
    assert len(looks) >= 8
    assert all(len(each) == 1 for each in looks.values())


def test_a_field_is_marked_in_all_its_places_and_says_where(moments: Moments) -> None:
    fields = list(fields_of(XRay(moments).scene()))
    kin = next(f.attributes["data-kin"] for f in fields if "entry id 2:" in title_of(f))
    twins = [title_of(f) for f in fields if f.attributes["data-kin"] == kin]
    assert len(twins) == 3
    assert twins[1].endswith("(journal 1.txn offset 568, 8 bytes)")


def test_bytes_of_an_entry_are_marked_with_it_and_others_are_not() -> None:
    bookie = OneBookie()
    bookie.add((7, 0), (7, 1))
    bookie.commit()
    file = bookie.machine.journals[0].open("current/1.txn")
    data = file.read(0, 1024)
    spans = tuple(s for s in journal_spans(bookie.machine.journals[0], 1) if s.offset < 1024)
    view = XRay(Piece("journal", "current/1.txn", 0, data, spans, 1024))
    kins = {
        title_of(f).partition(" ")[0]: str(f.attributes["data-kin"]).split()[1:]
        for f in fields_of(view.scene())
        if title_of(f)
    }
    assert kins["payload"] == ["e7-1"]
    assert kins["magic"] == kins["master"] == kins["mask"] == []


def test_moments_lie_on_the_clock_of_their_run() -> None:
    bookie = OneBookie()
    bookie.add((7, 0))
    moments, upto = {"added": bookie.places(7, 0)}, [len(bookie.trace.events)]
    bookie.commit()
    moments["synced"] = bookie.places(7, 0)
    upto.append(len(bookie.trace.events))
    view, inside = XRay(moments, run=bookie.trace, upto=upto), BookieInside(bookie.trace)
    assert view.film["run"] == inside.film["run"]
    assert view.film["knots"] == inside.film["knots"]
    assert {beat[0] for beat in view.film["beats"]} < {beat[0] for beat in inside.film["beats"]}
    with pytest.raises(ValueError, match="2 increasing numbers, one per moment"):
        XRay(moments, run=bookie.trace)


def test_a_piece_has_one_place_through_all_moments(moments: Moments) -> None:
    scenes = [beat.scene for beat in XRay(moments).reel.beats]
    frames = [
        [
            (piece.attributes["transform"], piece.children[0].attributes["height"])
            for piece in scene.children
            if piece.key.startswith("piece")
        ]
        for scene in scenes
    ]
    assert len(frames) > 2
    assert all(frame == frames[0] for frame in frames)


def test_each_moment_is_a_click_away(moments: Moments) -> None:
    film = XRay(moments).film
    attributes = attributes_of(film)
    targets = {str(each["data-on"]) for each in attributes if each.get("data-act") == "seek"}
    assert targets == {f"{beat[0]:.10g}" for beat in film["beats"]}
    assert [film["words"][beat[2]] for beat in film["beats"]] == list(moments)


def test_the_output_says_in_words_what_the_picture_shows() -> None:
    view = XRay(replace(HEAD_PIECE, safe_size=4))
    data, _ = view._repr_mimebundle_()
    assert data["text/plain"] == "Byte X-ray: journal 12 bytes partly synced"
    assert data["image/svg+xml"] == view.svg()


def test_the_still_picture_hatches_only_what_is_not_synced() -> None:
    def hatched(view: XRay) -> list[str]:
        fields = fields_of(view.scene())
        return [title_of(f) for f in fields if any(c.key == "unsafe" for c in f.children)]

    assert hatched(XRay(HEAD_PIECE)) == []
    assert "not synced: a power cut" not in XRay(HEAD_PIECE).svg()
    torn = XRay(replace(HEAD_PIECE, safe_size=4))
    assert [words.partition(":")[0] for words in hatched(torn)] == ["ledger id 7"]
    assert "not synced: a power cut" in torn.svg()
