"""Tests properties that every view must have: its text and buttons fit, and its pictures are
reproducible.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cache, partial
from xml.etree import ElementTree

import pytest

from labkit.course.runs.game.game import Game
from labkit.course.runs.play import Play
from labkit.course.runs.timeline import timeline
from labkit.system.trace.events import Event
from labkit.system.trace.log import TraceLog
from labkit.views.widgets import (
    BookieInside,
    ClusterView,
    CrashMapView,
    EnsembleHistory,
    MessageIdLineage,
    RecoveryProgress,
    SpaceTime,
    Stripes,
    XRay,
)
from labkit.views.widgets.drawing.scene import Mark, size_of
from labkit.views.widgets.drawing.text_metrics import width_of
from labkit.views.widgets.playing import FAULTS, PlayingView
from labkit.views.widgets.scene_view import SceneView
from labkit.views.widgets.timeline import PlayedRun, TimelineView
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash, Fault
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Write
from tests.views.widgets.crashes import broken, long
from tests.views.widgets.films import UNFENCED, crashed, marks_of, titles_of, words_in
from tests.views.widgets.histories import repaired, two_crashes
from tests.views.widgets.lineages import alone, in_a_batch
from tests.views.widgets.lives import PAGE_SIZE, whole_life
from tests.views.widgets.recoveries import recovery
from tests.views.widgets.scripted import Script, killed_and_restarted
from tests.views.xray.test_entry_locations import life_of_an_entry

VIEWS: dict[str, Callable[[], SceneView]] = {
    "bookie inside": lambda: BookieInside(crashed()),
    "cluster": lambda: ClusterView(crashed()),
    "crash map": lambda: CrashMapView(broken()),
    "long crash map": long,
    "crash map of a bookie that does not start": lambda: CrashMapView(
        broken("journals removed before the mark")
    ),
    "ensemble history": lambda: EnsembleHistory(repaired()),
    "lineage": lambda: MessageIdLineage(in_a_batch()),
    "lineage of a message by itself": lambda: MessageIdLineage(alone()),
    "play": lambda: Play(Scenario(Cluster(4), (Write(entries=6, ensemble=4),))),
    "play with metadata": lambda: Play(Scenario(), metadata=True),
    "game": lambda: Game(10),
    "recovery": lambda: RecoveryProgress(recovery("lost for good")),
    "space-time": lambda: SpaceTime(crashed()),
    "stripes": lambda: Stripes(5, 3, 2, failed=(1, 2)),
    "wide stripes": lambda: Stripes(9, 4, 2, entries=20),
    "x-ray": lambda: XRay(life_of_an_entry()),
    "timeline": lambda: timeline(UNFENCED),
    "timeline of two runs": lambda: timeline(UNFENCED, other=replace(UNFENCED, variant="")),
}


@cache
def of_many(count: int, *faults: Fault) -> Trace:
    """Run a cluster of `count` bookies that stores six entries."""
    return run(Scenario(Cluster(count), (Write(entries=6),), faults, seed=7))


CRASH = Crash("b1", when=At(11.5))
MANY: dict[str, Callable[[int], SceneView]] = {
    "cluster": lambda count: ClusterView(of_many(count, CRASH)),
    "ensemble history": lambda count: EnsembleHistory(of_many(count, CRASH)),
    "recovery": lambda count: RecoveryProgress(of_many(count, CRASH)),
    "timeline of two runs": lambda count: timeline(of_many(count, CRASH), other=of_many(count)),
}
VIEWS |= {
    f"{name} of {count} bookies": partial(view, count)
    for name, view in MANY.items()
    for count in (7, 12, 22)
}

VIEWS |= {
    f"play with {count} bookies": partial(
        Play, Scenario(Cluster(count), (Write(entries=2, ensemble=count),))
    )
    for count in (5, 7, 12, 22)
}


VIEWS_OF_A_LOG: dict[str, Callable[[TraceLog | Sequence[Event]], SceneView]] = {
    "cluster": ClusterView,
    "ensemble history": EnsembleHistory,
    "recovery": RecoveryProgress,
    "space-time": SpaceTime,
    "timeline": timeline,
}


@pytest.mark.parametrize("name", VIEWS_OF_A_LOG | {"bookie inside": BookieInside})
def test_long_names_do_not_run_out_of_the_picture(name: str) -> None:
    view = (VIEWS_OF_A_LOG | {"bookie inside": BookieInside})[name]

    def long(short: str) -> str:
        return f"{short}.storage.eu-central-1.<b>example</b>.org:3181" if short else ""

    events = [
        event._replace(
            node=long(event.node),
            peer=long(event.peer),
            ensemble=tuple(map(long, event.ensemble)),
        )
        for event in killed_and_restarted().events
    ]
    shown = view(events)
    ElementTree.fromstring(shown.svg())
    check_texts_fit(shown.scene())


@cache
def on_a_hundred_bookies() -> TraceLog:
    """Write two entries to a ledger whose ensemble has a hundred bookies."""
    script = Script(100, 100, 3, 2)
    for entry in range(2):
        script.add(entry)
    return script.settled()


WITHOUT_BUTTONS: dict[str, Callable[[], SceneView]] = {
    "bookie inside, with a crash": lambda: BookieInside(whole_life().trace, page_size=PAGE_SIZE),
}


@pytest.mark.parametrize("name", VIEWS_OF_A_LOG)
def test_a_ledger_on_a_hundred_bookies_has_a_picture_with_all_their_names(name: str) -> None:
    scene = VIEWS_OF_A_LOG[name](on_a_hundred_bookies()).scene()
    marks = list(marks_of(scene))
    for mark in marks:
        sizes = [float(mark.attributes.get(size, 0)) for size in ("width", "height", "r")]
        assert min(sizes) >= 0, mark
    words = " ".join(mark.text for mark in marks)
    assert all(f"b{at}" in words for at in range(100))
    check_texts_fit(scene)


def placed(mark: Mark, x: float = 0, y: float = 0) -> Iterator[tuple[Mark, float, float]]:
    """Yield every mark with the origin of its coordinate system."""
    shift = re.match(r"translate\((\S+) (\S+)\)", str(mark.attributes.get("transform", "")))
    if shift:
        x, y = x + float(shift[1]), y + float(shift[2])
    yield mark, x, y
    for child in mark.children:
        yield from placed(child, x, y)


def in_a_narrow_place(mark: Mark) -> Mark:
    """Return the mark as it is drawn in a narrow place, on a phone or beside a picture."""
    changed = json.loads(str(mark.attributes.get("data-narrow", "{}")))
    children = tuple(map(in_a_narrow_place, mark.children))
    return mark._replace(attributes=mark.attributes | changed, children=children)


def box_of(mark: Mark, x: float, y: float) -> tuple[float, float, float, float]:
    """Return the left, right, top and bottom edges of a text or a rectangle."""
    at = {name: float(mark.attributes[name]) for name in ("x", "y")}
    if mark.tag == "rect":
        width, height = (float(mark.attributes[name]) for name in ("width", "height"))
        return x + at["x"], x + at["x"] + width, y + at["y"], y + at["y"] + height
    size = float(mark.attributes.get("font-size", 12))
    is_bold = mark.attributes.get("font-weight") == "bold"
    is_mono = "mono" in str(mark.attributes["class"]).split()
    width = 0.6 * size * len(mark.text) if is_mono else width_of(mark.text, size, bold=is_bold)
    before = {"middle": width / 2, "end": width}.get(str(mark.attributes.get("text-anchor")), 0)
    left, base = x + at["x"] - before, y + at["y"]
    return left, left + width, base - size * 0.75, base + size * 0.2


def check_texts_fit(scene: Mark) -> None:
    width, height = size_of(scene)
    for mark, x, y in placed(scene):
        if mark.tag == "text" and mark.text:
            left, right, top, bottom = box_of(mark, x, y)
            assert 0 <= left <= right <= width, mark.text
            assert 0 <= top <= bottom <= height, mark.text


@pytest.mark.sampled
@pytest.mark.parametrize("name", VIEWS | WITHOUT_BUTTONS)
def test_no_text_runs_out_of_its_picture(name: str) -> None:
    view = (VIEWS | WITHOUT_BUTTONS)[name]()
    pictures = [each for each in (view.scene(), view.legend()) if each]
    narrow = [in_a_narrow_place(each) for each in pictures if "data-narrow" in each.attributes]
    for scene in (*pictures, *narrow):
        check_texts_fit(scene)


@pytest.mark.sampled
@pytest.mark.parametrize("name", VIEWS | WITHOUT_BUTTONS)
def test_no_two_marks_of_a_group_have_the_same_key(name: str) -> None:
    """The browser draws one mark for each key."""
    view = (VIEWS | WITHOUT_BUTTONS)[name]()
    for picture in filter(None, (view.scene(), view.legend())):
        for mark in marks_of(picture):
            keys = [child.key for child in mark.children]
            assert len(keys) == len(set(keys)), mark.key


@pytest.mark.sampled
@pytest.mark.parametrize("name", VIEWS)
def test_no_button_lies_on_another_or_outside(name: str) -> None:
    scene = VIEWS[name]().scene()
    boxes = [
        box_of(mark.children[1], x, y)
        for mark, x, y in placed(scene)
        if "data-act" in mark.attributes
    ]
    assert boxes
    for at, (left, right, top, bottom) in enumerate(boxes):
        assert left >= 0, boxes[at]
        assert right <= size_of(scene)[0], boxes[at]
        for other in boxes[at + 1 :]:
            across = min(right, other[1]) - max(left, other[0])
            down = min(bottom, other[3]) - max(top, other[2])
            assert across <= 1 or down <= 1, (boxes[at], other)


@pytest.mark.sampled
@pytest.mark.parametrize("count", [5, 7, 12, 22])
@pytest.mark.parametrize("name", MANY)
def test_every_bookie_has_its_whole_name_and_all_its_buttons(name: str, count: int) -> None:
    marks = [mark for mark, _, _ in placed(MANY[name](count).scene())]
    runs = 2 if "two" in name else 1
    named = Counter(
        "".join(part.text for part in mark.children if part.key in ("name", "rest"))
        for mark in marks
        if mark.key == "about" and "data-kin" in mark.attributes
    )
    acts = Counter(mark.key for mark in marks if mark.attributes.get("data-act") in FAULTS)
    assert all(named[f"b{at}"] == runs for at in range(count)), named
    assert acts["kill"] == acts["pause"] == acts["cut"]
    assert acts["kill"] >= (count - 1) * runs


@pytest.mark.sampled
@pytest.mark.parametrize("name", VIEWS | WITHOUT_BUTTONS)
def test_a_still_picture_is_the_same_each_time_and_needs_nothing_from_elsewhere(name: str) -> None:
    first, second = ((VIEWS | WITHOUT_BUTTONS)[name]().svg() for _ in range(2))
    assert first == second
    ElementTree.fromstring(first)
    assert set(re.findall(r"https?://[^'\"]*", first)) == {"http://www.w3.org/2000/svg"}


@pytest.mark.parametrize(
    ("view", "words"),
    [
        (lambda: BookieInside(TraceLog()), "no bookie, unknown: 0 in the memtable"),
        (lambda: RecoveryProgress([]), "Recovery: no auditor"),
        (lambda: SpaceTime([]), "0 events"),
        (lambda: TimelineView(PlayedRun([])), "Timeline: 0 events, shown after 0"),
    ],
)
def test_a_run_without_events_has_a_picture(view: Callable[[], SceneView], words: str) -> None:
    empty = view()
    ElementTree.fromstring(empty.svg())
    assert words in repr(empty)


@pytest.mark.parametrize(
    ("view", "fault", "bookie", "words"),
    [
        (lambda: BookieInside(crashed(), "b2"), "kill", "b2", "b2: down"),
        (lambda: EnsembleHistory(run(two_crashes())), "pause", "b2", "b2 is paused"),
        (lambda: RecoveryProgress(recovery("restart")), "kill", "b3", "b3 not registered"),
        (lambda: SpaceTime(crashed()), "kill", "b2", "killed"),
    ],
)
def test_a_fault_is_added_in_the_picture(
    view: Callable[[], PlayingView], fault: str, bookie: str, words: str
) -> None:
    forked = view()
    confirmed = (e.seq for e in forked.run.events if e.kind == "lac.advanced" and e.entry == 5)
    forked.received(None, {"do": fault, "on": bookie, "seq": next(confirmed)}, [])
    assert forked.notice == ""
    shown = [repr(forked), words_in(forked.svg()), *titles_of(forked.scene())]
    assert any(words in each for each in shown)
