"""The crash map as a picture: which cell it tells, and that it tells it truly."""

import json
from xml.etree import ElementTree

import pytest

from labkit.sim.crash import CrashMap, crash_map
from labkit.sim.defects import DEFECTS
from labkit.widgets.crash_map import CrashMapView
from labkit.widgets.crash_map_svg import lines_of, verdicts
from tests.sim.scripts import ADD_INSIDE_FLUSH, EVERYTHING, NEXT_JOURNAL


def broken(name: str = "mark taken after the flush") -> CrashMap:
    script = NEXT_JOURNAL if name.startswith("journals") else ADD_INSIDE_FLUSH
    return crash_map(script, store_factory=DEFECTS[name].store_factory)


def words_in(svg: str) -> str:
    root = ElementTree.fromstring(svg)
    return "\n".join(e.text or "" for e in root.iter("{http://www.w3.org/2000/svg}text"))


def test_the_first_unsafe_cell_is_chosen_and_said_in_the_line_of_words() -> None:
    found = broken()
    smallest = found.smallest()
    assert smallest is not None
    view = CrashMapView(found)
    assert view.chosen == [smallest.row, smallest.column]
    assert repr(view).endswith("kept: acknowledged and gone: entry 1 of ledger 5")


def test_of_a_safe_map_the_end_is_chosen() -> None:
    view = CrashMapView(crash_map(ADD_INSIDE_FLUSH))
    assert repr(view).endswith("after the last operation, lost: everything acknowledged is there")


def test_a_cell_can_be_named() -> None:
    found = broken()
    row = next(i for i, point in enumerate(found.points) if point.step == "commit 5/0")
    assert "during commit 5/0, torn" in repr(CrashMapView(found, at=(row, 2)))


def test_the_picture_tells_the_crash_of_the_chosen_cell() -> None:
    words = words_in(CrashMapView(broken()).svg())
    for line in (
        "acknowledged and gone: entry 1 of ledger 5",
        "entry 0 of ledger 5, entry 1 of ledger 5",
        "kept: rename lastMark.new to lastMark",
        "1.txn: 5/key at 512, 5/0 at 556, 5/1 at 1024",
        "lastMark: replay starts in 1.txn at 1536",
        "0: 00 00 00 00 00 00 00 01 00 00 00 00 00 00 06 00",
        "0 records; after one more power cut 0",
    ):
        assert line in words


def test_a_bookie_that_does_not_start_replays_nothing() -> None:
    words = words_in(CrashMapView(broken("journals removed before the mark")).svg())
    assert "the bookie does not start: journal 1.txn is missing" in words.replace("\n", " ")
    assert "none: the bookie does not start" in words


def test_long_maps_draw_the_safe_rows_of_a_step_as_one_and_every_other_row() -> None:
    found = crash_map(EVERYTHING, store_factory=DEFECTS["mark taken after the flush"].store_factory)
    crashes = CrashMapView(found).crashes
    lines = lines_of(crashes, 30)
    assert sum(line.count for line in lines) == len(found.points) > 2 * len(lines)
    assert any(line.row == 30 and line.count == 1 for line in lines)
    unsafe = {r for r in range(len(found.points)) if set(verdicts(crashes, r)) != {"safe"}}
    assert unsafe <= {line.row for line in lines if line.count == 1}


@pytest.mark.parametrize("name", DEFECTS)
def test_every_verdict_of_the_map_reaches_the_picture(name: str) -> None:
    found = broken(name)
    crashes = CrashMapView(found).crashes
    assert [verdicts(crashes, row) for row in range(len(found.points))] == [
        [cell.verdict for cell in row] for row in found.cells
    ]


def test_what_is_sent_is_plain_data_that_names_each_text_once() -> None:
    crashes = CrashMapView(crash_map(EVERYTHING)).crashes
    assert len(json.dumps(crashes)) < 100_000
    assert len(set(crashes["texts"])) == len(crashes["texts"])
    files = [tuple(file) for file in crashes["files"]]
    assert len(set(files)) == len(files)


def test_the_same_map_gives_the_same_picture() -> None:
    assert CrashMapView(broken()).svg() == CrashMapView(broken()).svg()
