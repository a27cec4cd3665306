"""Tests the crash map's picture: which crash it shows, and whether it is accurate."""

import json

import pytest

from labkit.views.widgets.crash_map import MAP_MS, CrashMapView
from labkit.views.widgets.crash_map.crashes import Crashes
from labkit.views.widgets.drawing.scene import Mark
from labkit.views.widgets.scene_view import Message
from labkit.worlds.sim.crash_map.crash_map import VARIANTS, crash_map
from labkit.worlds.sim.variants.storage_variants import DEFECTS
from tests.views.widgets.crashes import broken, long
from tests.views.widgets.films import marks_of, titles_of
from tests.worlds.sim.scripts import ADD_INSIDE_FLUSH


def words_in(scene: Mark) -> str:
    return "\n".join(mark.text for mark in marks_of(scene) if mark.tag == "text")


def row_in(step: str, crashes: Crashes) -> int:
    return next(at for at, point in enumerate(crashes.points) if point["step"] == step)


def test_it_opens_at_the_first_crash_that_is_not_safe_and_says_it_in_one_line() -> None:
    found = broken()
    smallest = found.smallest()
    assert smallest is not None
    view = CrashMapView(found)
    assert view.at == (smallest.row, smallest.column)
    assert repr(view).endswith("kept: acknowledged but lost: entry 1 of ledger 5")
    opening = [beat for beat in view.film["beats"] if beat[0] <= view.film["opening"]][-1]
    assert view.film["words"][opening[2]] == view.crashes.words(*view.at)


def test_a_safe_map_opens_at_its_end() -> None:
    view = CrashMapView(crash_map(ADD_INSIDE_FLUSH))
    assert repr(view).endswith("after the last operation, lost: everything acknowledged survived")
    assert view.film["signs"] == []


def test_a_cell_can_be_chosen_from_the_beginning() -> None:
    found = broken()
    row = row_in("commit 5/0", Crashes(found.as_dict()))
    assert "during commit 5/0, torn" in repr(CrashMapView(found, at=(row, 2)))


def test_the_picture_says_what_the_chosen_crash_led_to() -> None:
    words = words_in(CrashMapView(broken()).scene())
    for line in (
        "acknowledged but lost: entry 1 of",
        "entry 0 of ledger 5, entry 1 of ledger 5",
        "kept: rename lastMark.new to lastMark",
        "1.txn: 5/key at 512, 5/0 at 556, 5/1 at 1024",
        "lastMark: replay starts in 1.txn at 1536",
        "0: 00 00 00 00 00 00 00 01 00 00 00 00 00 00 06 00",
        "0 records; 0 after another power cut",
    ):
        assert line in words


@pytest.mark.slow
def test_a_bookie_that_does_not_start_replays_nothing() -> None:
    view = CrashMapView(broken("journals removed before the mark"))
    words = words_in(view.scene())
    assert "the bookie does not start: journal 1.txn is missing" in words.replace("\n", " ")
    assert "none, because the bookie does not start" in words.replace("\n", " ")


@pytest.mark.sampled
@pytest.mark.parametrize("column", range(len(VARIANTS)))
def test_the_head_of_the_chosen_column_is_explained_above_it_and_every_other_where_one_points(
    column: int,
) -> None:
    found = broken()
    scene = CrashMapView(found, at=(0, column)).scene()
    assert f"({VARIANTS[column].meaning})" in words_in(scene)
    for variant in VARIANTS:
        assert f"{variant.name}: {variant.meaning}" in titles_of(scene)


@pytest.mark.slow
def test_no_operation_is_cut() -> None:
    view = long()
    shown = {
        mark.text
        for beat in view.reel.beats
        for line in marks_of(beat.scene)
        if line.key == "about"
        for mark in line.children
    }
    assert {view.crashes.operation(row) for row in range(len(view.crashes.points))} <= shown


def test_the_list_follows_the_chosen_row_and_leaves_rows_to_choose_around_it() -> None:
    view = long()
    last = len(view.crashes.points) - 1
    for beat in view.reel.beats:
        row, column = view.crashes.cells[beat.seq]
        lines = next(mark for mark in beat.scene.children if mark.key == "lines").children
        shown = [int(line.key.removeprefix("row ")) for line in lines if line.key[:3] == "row"]
        assert {max(0, row - 1), row, min(last, row + 1)} <= set(shown)
        (chosen,) = (
            mark for line in lines for mark in line.children if mark.attributes.get("tabindex") == 0
        )
        assert chosen.key == str(column)
        assert chosen.attributes["data-on"] == str(beat.at)


@pytest.mark.sampled
@pytest.mark.parametrize("name", DEFECTS)
def test_every_verdict_of_the_map_reaches_the_picture(name: str) -> None:
    found = broken(name)
    view = CrashMapView(found)
    rows = {
        line.key: [title.removeprefix("Crash ") for title in titles_of(line)[-len(VARIANTS) :]]
        for beat in view.reel.beats
        for line in marks_of(beat.scene)
        if line.key.startswith("row ")
    }
    assert {int(key.removeprefix("row ")) for key in rows} == set(range(len(found.points)))
    for row, cells in enumerate(found.cells):
        assert [view.crashes.verdict(row, at) for at in range(len(cells))] == [
            cell.verdict for cell in cells
        ]
        for title, cell in zip(rows[f"row {row}"], cells, strict=True):
            assert title.endswith(view.crashes.end(row, cells.index(cell))["words"])


def test_every_crash_is_one_moment_and_the_map_plays_row_by_row() -> None:
    view = CrashMapView(broken())
    rows, columns = len(view.crashes.points), len(view.crashes.variants)
    assert [beat.at for beat in view.reel.beats] == sorted({b.at for b in view.reel.beats})
    assert view.crashes.cells == [(row, at) for row in range(rows) for at in range(columns)]
    assert view.reel.beats[-1].at <= MAP_MS


def test_python_knows_which_crash_the_browser_shows() -> None:
    view = CrashMapView(broken())
    view.received(None, {"do": "shown", "seq": 7}, [])
    assert view.at == (1, 1)
    assert "kept" in repr(view)
    assert view.crashes.place(1, 1) in view.reel.beats[7].words
    assert words_in(view.scene()) == words_in(view.reel.beats[7].scene)


def test_a_map_is_sent_again_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    view, sent = CrashMapView(broken()), list[Message]()
    chosen = view.at
    monkeypatch.setattr(view, "send", sent.append)
    view.received(None, {"do": "resync"}, [])
    assert sent == [view.whole()]
    assert sent[0]["opening"] == view.reel.beats[view.crashes.cells.index(chosen)].at
    view.received(None, {"do": "kill", "on": "b1", "seq": 7}, [])
    assert view.at == chosen


def test_a_hundred_operations_are_less_than_a_megabyte_for_the_browser() -> None:
    view = long()
    assert len(view.crashes.points) > 100
    assert len(json.dumps(view.film, separators=(",", ":"))) < 1_000_000
