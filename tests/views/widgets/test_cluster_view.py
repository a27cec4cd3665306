"""Tests the Python side of the cluster view: pictures, messages to the browser, and clicks."""

import asyncio
import re
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from itertools import pairwise

import pytest

from labkit.views.widgets.cluster import ClusterView
from labkit.views.widgets.cluster.cells import ROW
from labkit.views.widgets.cluster.heads import ACTS, HEAD
from labkit.views.widgets.drawing.scene import Mark
from labkit.views.widgets.scene_view import Message
from labkit.worlds.sim.run import run
from labkit.worlds.sim.settings.cluster import Cluster
from tests.views.widgets.films import (
    CRASHED,
    TAKEN_OVER,
    crashed,
    marks_of,
    scenes_of,
    titles_of,
    words_in,
)
from tests.views.widgets.scripted import (
    LEDGER,
    Script,
    ScriptedCluster,
    killed_and_restarted,
    two_ledgers,
)
from tests.views.widgets.test_all_views import box_of, placed


class Watched:
    """A live view of a scripted cluster, which records the messages that the view sends."""

    def __init__(self) -> None:
        self.cluster = ScriptedCluster(Script(3, 3, 2, 2))
        self.view = ClusterView(self.cluster)
        self.sent: list[Message] = []
        self.view.send = self.sent.append

    def click(self, command: str, bookie: str = "") -> None:
        self.view._handle_custom_msg({"do": command, "on": bookie}, [])

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():  # noqa: ASYNC110 # a view tells nobody when it is done
                await asyncio.sleep(0.01)


@pytest.fixture
async def watched() -> AsyncIterator[Watched]:
    watched = Watched()
    yield watched
    watched.view.close()


def test_the_output_has_the_view_the_picture_and_a_line_of_words() -> None:
    view = ClusterView(killed_and_restarted())
    data, _ = view._repr_mimebundle_()
    assert set(data) == {
        "application/vnd.jupyter.widget-view+json",
        "text/html",
        "image/svg+xml",
        "text/plain",
    }
    words = "Cluster: 4 bookies, ledger 7 with entries up to 9, LAC 9, closed"
    assert data["text/plain"] == words
    assert data["text/html"].startswith(f'<img alt="{words}" src="data:image/svg+xml;base64,')
    inside = b64decode(data["text/html"].split("base64,")[1].removesuffix('">')).decode()
    assert inside == data["image/svg+xml"] == view.svg()


async def test_the_still_picture_of_a_running_cluster_shows_what_has_just_happened(
    watched: Watched,
) -> None:
    watched.cluster.add(3)
    data, _ = watched.view._repr_mimebundle_()
    assert "entries up to 2" in data["text/plain"]


def test_a_view_can_be_fixed_on_one_ledger() -> None:
    assert "ledger 8 " in repr(ClusterView(two_ledgers()))
    assert "ledger 7 " in repr(ClusterView(two_ledgers(), ledger=LEDGER))


def test_a_replay_needs_no_event_loop_and_offers_no_commands() -> None:
    view = ClusterView(two_ledgers())
    assert (view.film["live"], view.acts().offered) == (False, ())


def test_a_simulated_run_forks_where_a_bookie_is_killed_and_goes_back() -> None:
    trace = run(replace(CRASHED, faults=()))
    view = ClusterView(trace)
    assert view.film["moment"] == view.film["opening"]
    confirmed = next(event for event in trace.events if event.kind == "lac.advanced")
    view._handle_custom_msg({"do": "kill", "on": "b1", "seq": confirmed.seq}, [])
    assert "b1 down" in repr(view)
    assert view.run.events[: confirmed.seq] == list(trace.events[: confirmed.seq])
    (killed,) = (e for e in view.run.events if e.kind == "node.killed" and e.time_us < 20_000)
    assert view.film["moment"] == round(view.run.at(killed.seq), 1)
    view._handle_custom_msg({"do": "undo", "on": "b1", "seq": -1}, [])
    assert view.run.events == list(trace.events)
    assert view.film["moment"] == round(view.run.at(confirmed.seq + 1), 1)


def test_a_fault_after_the_epilogue_is_refused_in_words() -> None:
    view = ClusterView(crashed())
    view._handle_custom_msg({"do": "cut", "on": "b2", "seq": len(crashed().events) - 1}, [])
    assert view.notice.startswith("Could not cut b2 here: faults can only be added")


def test_words_about_a_bookie_stand_below_the_buttons_of_all() -> None:
    notes = [
        mark
        for scene in scenes_of(ClusterView(crashed()).film)
        for mark in marks_of(scene)
        if mark.key == "note" and any("killed" in line.text for line in mark.children)
    ]
    assert notes
    for note in notes:
        _, top = str(note.attributes["transform"]).removesuffix(")").split()
        assert float(top) >= HEAD + ACTS


@pytest.mark.slow
def test_many_bookies_make_a_wide_picture_that_scrolls_instead_of_buttons_over_each_other() -> None:
    scene = ClusterView(run(replace(CRASHED, cluster=Cluster(45)))).scene()
    heads = [mark for mark in marks_of(scene) if mark.key == "head"]
    lefts = sorted(
        float(str(mark.attributes["transform"]).partition("(")[2].split()[0])
        for mark in marks_of(scene)
        if any(child.key == "head" for child in mark.children)
    )
    assert len(heads) == len(lefts) == 45
    assert min(after - before for before, after in pairwise(lefts)) >= 40
    assert scene.attributes["style"] == f"min-width: {scene.attributes['width']}px"
    assert "style" not in ClusterView(crashed()).scene().attributes


def test_another_ledger_is_shown_when_it_is_chosen() -> None:
    view = ClusterView(two_ledgers())
    (choice,) = view.controls
    assert [value for value, _ in choice["options"]] == ["", str(LEDGER)]
    view._handle_custom_msg({"set": "ledger", "value": str(LEDGER)}, [])
    assert f"ledger {LEDGER} " in repr(view)


async def test_a_click_on_kill_reaches_the_cluster_and_the_view_hears_of_it(
    watched: Watched,
) -> None:
    watched.click("kill", "b1")
    await watched.until(lambda: bool(watched.sent))
    assert watched.cluster.script.down == {"b1"}
    beat = watched.sent[-1]["beats"][0]
    assert watched.cluster.trace.events[beat[3]].kind == "node.killed"
    assert "b1 down" in repr(watched.view)


async def test_a_failed_command_is_reported_in_words_and_the_next_one_works(
    watched: Watched,
) -> None:
    for _ in range(2):
        watched.click("kill", "b0")
    await watched.until(lambda: watched.view.notice != "")
    assert watched.view.notice == ("Could not kill b0: b0 is not running; restart it first")
    watched.click("restart", "b0")
    await watched.until(lambda: not watched.cluster.script.down)
    await watched.until(lambda: watched.view.notice == "")


async def test_only_the_cluster_s_commands_on_its_bookies_are_carried_out(watched: Watched) -> None:
    watched.click("add", "b0")
    watched.click("kill", "b76")
    watched.click("kill", "b2")
    await watched.until(lambda: watched.cluster.script.down == {"b2"})
    assert watched.view.notice == ""


async def test_events_go_out_in_numbered_messages_and_the_whole_is_kept_when_all_is_quiet(
    watched: Watched,
) -> None:

    async def add() -> None:
        before = len(watched.sent)
        watched.cluster.add(1)
        await watched.until(lambda: len(watched.sent) > before)

    for _ in range(3):
        await add()
    numbers = [message["number"] for message in watched.sent]
    assert numbers == list(range(1, len(numbers) + 1))
    await watched.until(lambda: watched.view.film["number"] == numbers[-1])
    last = watched.cluster.trace.events[-1].seq
    assert watched.view.film["beats"][-1][3] == watched.sent[-1]["beats"][-1][3] == last
    assert scenes_of(watched.view.film)[-1] == watched.view.scene()


async def test_a_choice_in_a_live_view_makes_a_film_with_the_next_number(watched: Watched) -> None:
    watched.cluster.script.create(8)
    watched.cluster.add(1)
    await watched.until(lambda: bool(watched.sent))
    watched.view._handle_custom_msg({"set": "ledger", "value": str(LEDGER)}, [])
    await watched.until(lambda: f"ledger {LEDGER} " in repr(watched.view))
    assert watched.view.film["number"] == watched.sent[-1]["number"] + 1
    watched.cluster.add(1)
    await watched.until(lambda: watched.sent[-1]["number"] == watched.view.film["number"] + 1)


@pytest.mark.slow
async def test_a_burst_of_thousands_of_events_is_a_handful_of_messages(watched: Watched) -> None:
    watched.cluster.add(1000)
    await watched.until(lambda: bool(watched.sent))
    watched.click("resync")
    await watched.until(lambda: watched.sent[-1]["kind"] == "whole")
    assert len(watched.sent) < 5
    assert watched.sent[-1]["beats"][-1][3] == watched.cluster.trace.events[-1].seq


async def test_a_view_forgets_the_oldest_moments_of_a_long_run(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("labkit.views.widgets.playing.MAX_BEATS", 100)
    watched.cluster.add(40)
    await watched.until(lambda: bool(watched.sent))
    assert watched.sent[-1]["kind"] == "whole"
    assert len(watched.sent[-1]["beats"]) == 100
    assert scenes_of(watched.sent[-1])[-1] == watched.view.scene()


async def test_a_closed_view_listens_no_longer(watched: Watched) -> None:
    watched.view.close()
    await asyncio.sleep(0)
    watched.cluster.add(1)
    assert watched.view.waiting == []


async def test_a_live_view_that_cannot_draw_an_event_says_so(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watched.view, "send_more", lambda: 1 // 0)
    watched.cluster.add(1)
    await watched.until(lambda: watched.view.notice != "")
    assert watched.view.notice == (
        "This view no longer follows the cluster:"
        " ZeroDivisionError: integer division or modulo by zero"
    )


async def test_a_live_view_hears_the_next_button_after_an_error(watched: Watched) -> None:
    watched.cluster.script.create(8)
    watched.cluster.add(1)
    await watched.until(lambda: bool(watched.view.controls))
    watched.view._handle_custom_msg({"set": "ledger", "value": "seven"}, [])
    await watched.until(lambda: watched.view.notice != "")
    assert watched.view.notice.startswith("The action failed: ValueError: invalid literal")
    watched.click("kill", "b0")
    await watched.until(lambda: watched.cluster.script.down == {"b0"})


async def test_a_view_that_no_page_displays_draws_nothing_until_the_next_page(
    watched: Watched,
) -> None:
    for page in ("first", "second"):
        watched.click("display", page)
    watched.click("end", "first")
    watched.cluster.add(1)
    await watched.until(lambda: bool(watched.sent))
    watched.click("end", "second")
    follower = watched.view.follower
    assert follower is not None
    await watched.until(lambda: not follower.displayed.is_set())
    await asyncio.sleep(0.1)
    sent, film = list(watched.sent), watched.view.film
    watched.cluster.add(5)
    await asyncio.sleep(0.2)
    assert (watched.sent, watched.view.film) == (sent, film)
    watched.click("display", "third")
    last = watched.cluster.trace.events[-1].seq
    await watched.until(lambda: watched.sent[-1]["beats"][-1][3] == last)
    assert watched.view.film["number"] == watched.sent[-1]["number"] - 1


async def test_the_legend_of_a_running_cluster_grows_with_what_happens(watched: Watched) -> None:
    assert watched.view.film["legend"] == -1
    watched.cluster.add(1)
    await watched.until(lambda: bool(watched.sent))
    before = watched.sent[-1]["legend"]
    watched.click("kill", "b0")
    await watched.until(lambda: watched.sent[-1]["legend"] != before)
    legend = watched.view.legend()
    assert legend
    assert "bookie is down" in {mark.text for mark in marks_of(legend)}


async def test_the_picture_of_a_running_cluster_grows_with_its_entries(watched: Watched) -> None:
    heights = list[float]()
    for entry_count in (0, 1, 5, 9, 20):
        watched.cluster.add(entry_count)
        await watched.until(lambda: not watched.view.waiting)
        heights.append(float(watched.view.current_picture.scene().attributes["height"]))
    assert [height - heights[0] for height in heights] == [0, 0, 4 * ROW, 8 * ROW, 8 * ROW]


def test_the_writer_has_the_name_that_the_sentences_use() -> None:
    assert "writer w" in words_in(ClusterView(crashed()).svg()).splitlines()
    assert "writer" in words_in(ClusterView(killed_and_restarted()).svg()).splitlines()


def test_a_still_picture_has_no_room_for_buttons() -> None:
    view = ClusterView(run(replace(CRASHED, faults=())))
    height = re.search(r'height="(\d+)"', view.svg())
    assert height
    legend = view.legend()
    assert legend
    rows = float(view.scene().attributes["height"])
    assert float(height[1]) < rows + float(legend.attributes["height"]) + 18


def test_an_add_to_a_fenced_bookie_bounces_off_its_door() -> None:
    view = ClusterView(run(TAKEN_OVER))
    hops = [hop for hops in view.run.refused.values() for hop in hops]
    assert {hop.arrived.peer for hop in hops} == {"b0", "b1", "b2"}
    for hop in hops:
        beat = [beat for beat in view.reel.beats if beat.at <= (hop.start + hop.end) / 2][-1]
        doors = [mark for mark in marks_of(beat.scene) if mark.key == "door"]
        assert len(doors) == 3
        assert all("accepts adds only from recovery" in door.children[0].text for door in doors)
        (there,) = (mark for mark in marks_of(beat.scene) if mark.key == str(hop.arrived.seq))
        (back,) = there.children

        def shift(position: float, marks: tuple[Mark, ...] = (there, back)) -> float:
            moves = [mark.move.at(position) for mark in marks if mark.move]
            return sum(float(move.removeprefix("translate(").split()[0]) for move in moves)

        middle = round((hop.start + hop.end) / 2, 1)
        assert shift(hop.start) == pytest.approx(0, abs=0.2)
        assert shift(middle) > 50
        assert shift(hop.end) == pytest.approx(0, abs=0.2)


def test_the_acknowledgement_that_completes_a_quorum_looks_different() -> None:
    view = ClusterView(run(replace(CRASHED, faults=())))
    confirmed = [e for e in view.run.events if e.kind == "lac.advanced"]
    assert {e.cause for e in confirmed} == view.run.completing
    inks = dict[bool, set[str]]()
    for hop in (hop for hops in view.run.departing.values() for hop in hops):
        if hop.arrived.kind == "add.acked":
            beat = [beat for beat in view.reel.beats if beat.at <= (hop.start + hop.end) / 2][-1]
            (sign,) = (m for m in marks_of(beat.scene) if m.key == str(hop.arrived.seq))
            ink = str(sign.children[0].attributes["class"]).split()[0]
            inks.setdefault(hop.arrived.seq in view.run.completing, set()).add(ink)
    assert inks == {True: {"f-confirmed"}, False: {"f-well"}}


def test_a_still_picture_says_how_to_play_it() -> None:
    assert ">In Jupyter, run the cell to play this.</text>" in ClusterView(crashed()).svg()


def test_a_fence_that_was_not_synced_disappears_with_the_power() -> None:
    script = Script(3, 3, 2, 2)
    script.record("b0", "ledger.fenced", LEDGER)
    assert "fenced, index 0" in words_in(ClusterView(script.settled()).svg())
    script.record("b0", "node.killed", detail="lost")
    script.restart("b0")
    view = ClusterView(script.settled())
    assert "fenced" not in words_in(view.svg())
    assert "door" not in [mark.key for mark in marks_of(view.scene())]


def test_a_formatted_bookie_is_shown_without_entries() -> None:
    script = Script(3, 3, 3, 2)
    script.add(0)
    script.record("b1", "bookie.formatted")
    titles = titles_of(ClusterView(script.settled()).scene())
    assert [f"entry 0 of ledger 7 on b{at}" in " ".join(titles) for at in range(3)] == [
        True,
        False,
        True,
    ]


@pytest.mark.parametrize("count", [3, 22])
def test_the_check_mark_of_a_cell_and_its_label_do_not_overlap(count: int) -> None:
    script = Script(count, count, count, 2)
    for entry in range(11):
        script.add(entry)
    texts: dict[str, list[tuple[float, float, float, float]]] = {}
    for mark, x, y in placed(ClusterView(script.settled()).scene()):
        if mark.tag == "text" and mark.key in ("label", "acked"):
            texts.setdefault(mark.key, []).append(box_of(mark, x, y))
    assert texts["acked"]
    for left, right, top, bottom in texts["label"]:
        for other in texts["acked"]:
            assert right <= other[0] or other[1] <= left or bottom <= other[2] or other[3] <= top
