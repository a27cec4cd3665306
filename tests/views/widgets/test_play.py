"""Tests of the view in which a run is played: cards, buttons, remarks, undo and redo."""

from dataclasses import replace

import pytest

from labkit.course.runs.play import Play
from labkit.views.widgets.cluster.cells import LEGEND
from labkit.views.widgets.timeline import TimelineView
from labkit.worlds.sim.run import run
from labkit.worlds.sim.run_link import RunLink
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.workload.steps import Recover, Write
from tests.views.widgets.films import marks_of

SCENARIO = Scenario(
    Cluster(3),
    (Write(entries=1, close=False), Recover(when=On("add.pushed"))),
    variant="ack after one bookie",
)
MORE = ["Deliver the rest", "Let requests time out"]


@pytest.fixture
def view() -> Play:
    return Play(SCENARIO)


def moves(view: Play) -> dict[str, str]:
    """Return the moves that the picture offers, and the title of each."""
    return {
        str(mark.attributes["data-on"]): mark.children[0].text
        for mark in marks_of(view.scene())
        if mark.attributes.get("data-act") in ("deliver", "move")
    }


def words(view: Play) -> str:
    lines = [line for line, _ in (*view.film["remarks"], *view.film["outcome"])]
    lines += (mark.text for mark in marks_of(view.scene()) if mark.tag == "text")
    return "\n".join(lines)


def press(view: Play, move: str) -> None:
    view.handle({"do": "move", "on": move, "seq": -1})


def choose(view: Play, name: str) -> None:
    view.handle({"set": name, "value": True})


def labels(view: Play) -> list[str]:
    """Return the labels of the buttons that can be pressed."""
    buttons = [each for each in view.controls if each["kind"] == "button"]
    return [each["label"] for each in buttons if not each.get("disabled")]


def test_every_possible_move_is_a_button_that_says_what_it_does(view: Play) -> None:
    offered = moves(view)
    assert {*offered, view.played.wait} == set(view.played.possible)
    assert offered["deliver r>r 0"] == "Let r begin to recover ledger 0"
    assert offered["deliver w>b1 2"] == "Deliver the message “add entry 0” from w to b1"
    assert offered["lose w>b1 2"] == "Lose the message “add entry 0” from w to b1"
    assert offered["copy w>b1 2"] == "Deliver the message “add entry 0” from w to b1 twice"
    assert offered["crash b1 0"].startswith("Cut the power of b1: ")


def test_a_message_that_must_wait_for_an_earlier_one_cannot_be_delivered(view: Play) -> None:
    press(view, "deliver w>b1 2")
    press(view, "crash b1 1")
    assert "deliver b1>w 2" in moves(view)
    assert "deliver b1>w 3" not in moves(view)
    assert "the connection is\nclosed\nmust wait for “entry\n0 is stored”" in words(view)


def test_a_message_that_will_be_dropped_says_why_before_and_after_the_move(view: Play) -> None:
    press(view, "crash b1 0")
    assert "no effect: the\nconnection is closed" in words(view)
    assert moves(view)["deliver w>b1 2"].endswith("drops it, because the connection is closed")
    press(view, "deliver w>b1 2")
    dropped = "“add entry 0” from w to b1 was dropped, because its connection is closed."
    assert view.reel.beats[-1].words == dropped
    press(view, "deliver w>b0 2")
    assert view.reel.beats[-1].words != dropped


def test_a_move_that_causes_no_event_is_described() -> None:
    view = Play(replace(SCENARIO, variant="recovery without fencing"))
    for move in ("r>r 0", "r>b0 2"):
        press(view, f"deliver {move}")
    beat = view.reel.beats[-1]
    assert beat.words.startswith("“read the last entry” from r to b0 arrived.")
    assert round(beat.at, 1) == view.film["opening"] == view.film["moment"]


def test_a_power_cut_before_other_events_is_not_played_from_there(view: Play) -> None:
    before = len(view.played.trace.events)
    press(view, "crash b1 0")
    assert view.played.made[-1].event_count < before
    assert view.film["moment"] == view.film["end"]
    assert view.reel.beats[-1].words == (
        "b1 loses power, right after the last message that it received."
    )


def test_a_play_opens_at_its_end_if_it_has_no_moves_or_the_link_names_its_last_event() -> None:
    for at in (None, len(Play(SCENARIO).run.events) - 1):
        view = Play(SCENARIO, at=at)
        assert view.film["opening"] == view.film["moment"] == view.film["end"]


def test_the_outcome_is_dated_so_that_an_earlier_moment_does_not_show_it(view: Play) -> None:
    for move in ("deliver w>b1 2", "deliver b1>w 2"):
        press(view, move)
    (verdict,) = view.played.broken
    assert view.film["broke"] == round(view.run.at(verdict.seq), 1)
    assert view.film["broke"] <= view.film["latest"] <= view.film["opening"]
    latest = [mark.key for mark in marks_of(view.scene()) if "data-latest" in mark.attributes]
    assert latest == ["flight"]


def test_a_move_shows_a_broken_promise_at_once_with_its_causes(view: Play) -> None:
    press(view, "deliver w>b1 2")
    assert (view.notice, "1 move so far" in words(view)) == ("", True)
    press(view, "deliver b1>w 2")
    assert view.notice == "✘ an entry was confirmed with too few acks"
    assert "✘ an entry was confirmed with too few acks. Move 2 (“entry 0 is stored”" in words(view)
    titles = dict(view.texts())
    moves = titles["Your moves"].splitlines()
    assert moves == ["  1  “add entry 0” from w to b1", "  2  “entry 0 is stored” from b1 to w"]
    why = titles["Why “an entry was confirmed with too few acks”"]
    assert "   move 2  b1 acknowledged entry 0" in why
    assert why.startswith("Move 2 (“entry 0 is stored” from b1 to w): w confirmed entry 0")
    press(view, "lose w>b0 2")
    assert view.notice == ""


def test_the_picture_shows_the_metadata_and_what_each_reader_has_done(view: Play) -> None:
    for moves, reader, metadata in (
        ((), "has done nothing yet", "is open; entries from 0 on are on b0, b1, b2"),
        (("r>r 0",), "has begun to recover ledger 0", ""),
        (("r>b0 2", "b0>r 2"), "has heard from b0, and needs more answers", ""),
        (
            *(("r>b1 2", "b1>r 2"), "has heard from b0, b1, which is enough"),
            "is being recovered; entries from 0 on",
        ),
        (
            *(("r>b0 3", "b0>r 3", "r>b1 3", "b1>r 3"), "has closed ledger 0 without any entry"),
            "is closed without any entry; entries from 0 on",
        ),
    ):
        for move in moves:
            press(view, f"deliver {move}")
        assert f"reader r\n{reader}" in words(view)
        assert f"metadata\nledger 0 {metadata}" in words(view)
    assert "fenced, index 0" in words(view)


def test_the_picture_shows_each_ensemble_in_the_metadata() -> None:
    write = Write(entries=1, ensemble=1, write_quorum=1, ack_quorum=1, close=False)
    view = Play(Scenario(Cluster(2), (write,)))
    press(view, "crash b0 0")
    press(view, "deliver b0>w 2")
    assert "metadata\nledger 0 is open; entries from 0 on are on b1" in words(view)


def test_nothing_is_explained_in_the_picture_where_it_would_cover_a_part_of_it(view: Play) -> None:
    press(view, "deliver w>b1 2")
    assert view.run.clock.firsts
    assert all(mark.key != "note" for beat in view.reel.beats for mark in marks_of(beat.scene))


def test_the_legend_explains_exactly_the_symbols_that_were_shown(view: Play) -> None:
    assert view.current_picture.cluster.grid.symbols == {"sent"}
    for move in ("w>b1 2", "b1>w 2", "r>r 0", "r>b0 2", "w>b0 2", "b0>w 2"):
        press(view, f"deliver {move}")
    found = view.current_picture.cluster.grid.symbols
    stored = {"sent", "memtable", "durable", "acked"}
    assert found == stored | {"adds", "quorum", "refused", "failed", "fenced"}
    legend = view.legend()
    assert legend is not None
    shown = [mark.text for mark in marks_of(legend) if mark.key == "words"]
    assert shown == [text for look, text in LEGEND if look in found]


def test_a_record_that_the_disk_can_still_lose_is_shown_in_memory_only() -> None:
    write = Write(entries=2, ensemble=1, write_quorum=1, ack_quorum=1, window=1, close=False)
    view = Play(Scenario(Cluster(1), (write,), variant="ack before sync"))
    press(view, "deliver w>b0 2")
    assert "0 memory" in words(view)
    press(view, "deliver b0>w 2")
    press(view, "deliver w>b0 3")
    # Writing entry 1 has also synced entry 0.
    assert "0 memory" not in words(view)
    assert "1 memory" in words(view)
    press(view, "crash b0 2")
    assert "1 lost" in words(view)


def test_undo_and_redo_go_through_all_moves_and_a_new_move_ends_redo(view: Play) -> None:
    assert labels(view) == MORE
    for move in ("deliver w>b1 2", "lose w>b0 2", "deliver b1>w 2"):
        press(view, move)
    played = view.played
    choose(view, "undo")
    choose(view, "undo")
    assert view.played.moves == ("deliver w>b1 2",)
    assert labels(view) == ["Undo", "Redo", "Start over", *MORE]
    choose(view, "redo")
    choose(view, "redo")
    assert view.played == played
    assert "Redo" not in labels(view)
    choose(view, "again")
    assert not view.played.moves
    for _ in range(3):
        choose(view, "redo")
    assert view.played == played
    choose(view, "undo")
    press(view, "deliver w>b2 2")
    assert "Redo" not in labels(view)


def test_an_earlier_play_is_kept_as_a_branch_when_the_player_chooses_differently(
    view: Play,
) -> None:
    for move in ("deliver w>b1 2", "deliver b1>w 2"):
        press(view, move)
    earlier = view.played
    choose(view, "undo")
    press(view, "deliver b1>w 2")  # the same move again
    assert (view.branches, view.played) == ([], earlier)
    choose(view, "again")
    press(view, "deliver w>b1 2")
    assert "Redo" in labels(view)
    press(view, "deliver w>b2 2")
    assert [each.moves for each in view.branches] == [earlier.moves]
    (branch,) = [each for each in view.controls if each["name"] == "branch"]
    words = "1: 2 moves, ✘ an entry was confirmed with too few acks"
    assert branch["options"] == [["", "this one"], ["0", words]]
    other = view.played
    view.handle({"set": "branch", "value": "0"})
    assert (view.played.moves, [each.moves for each in view.branches]) == (
        earlier.moves,
        [other.moves],
    )


def test_a_play_and_a_branch_are_shown_side_by_side(view: Play) -> None:
    press(view, "deliver w>b1 2")
    choose(view, "undo")
    press(view, "deliver w>b2 2")
    before = view.film
    view.handle({"set": "compare", "value": "0"})
    assert view.comparison is not None
    assert view.film["title"] == "Two plays of the same scenario: what did your moves change?"
    assert {each.partition(":")[0] for each in view.film["words"]} >= {
        "Only in the play",
        "Only in the branch",
    }
    assert labels(view)[0] == "Back to the play"
    assert [run.title for run in view.comparison.shown] == [
        "This play: 1 move",
        "Branch: 1 move",
    ]
    link = RunLink.parse(view.film["link"])
    assert (link.scenario, link.other) == (view.scenario, view.branches[0].scenario)
    view.handle({"set": "of node", "value": "b1"})
    assert view.film == view.comparison.whole() | {"stays": True}
    choose(view, "back")
    assert view.film["run"] == before["run"]
    press(view, "deliver b2>w 2")
    assert len(view.played.moves) == 2


def test_reasons_in_a_comparison_name_moves_instead_of_times_and_events(view: Play) -> None:
    press(view, "deliver w>b1 2")
    press(view, "deliver b1>w 2")
    choose(view, "undo")
    press(view, "deliver w>b2 2")
    view.handle({"set": "compare", "value": "0"})
    assert isinstance(view.comparison, TimelineView)
    this, branch = (
        {each.name: each.reason for each in run.broken}["AckQuorumIsReached"]
        for run in view.comparison.shown
    )
    assert this.startswith("After the last move: w confirmed entry 0")
    assert branch.startswith("Move 2 (“entry 0 is stored” from b1 to w): w confirmed entry 0")


def test_the_causes_of_a_broken_promise_name_the_power_cut_as_a_move_of_its_own() -> None:
    write = Write(entries=1, ensemble=1, write_quorum=1, ack_quorum=1, close=False)
    workload = (write, Recover(when=On("add.pushed")))
    view = Play(Scenario(Cluster(1), workload, variant="ack before sync"))
    for move in ("deliver w>b0 2", "deliver b0>w 2", "crash b0 1"):
        press(view, move)
    why = dict(view.texts())["Why “a bookie has lost an acknowledged entry”"]
    assert "  move 1  b0 has entry 0 in its memory" in why
    assert "  move 2  b0 acknowledged entry 0 of ledger 0 to w" in why
    assert "  move 3  b0 lost power, and with it what was not on its disk" in why


def test_the_final_check_is_not_played_unless_the_reader_asks_for_it(view: Play) -> None:
    choose(view, "rest")
    assert view.played.is_over
    last = view.played.moves[-1]
    choose(view, "undo")
    press(view, last)
    assert view.film["moment"] <= view.film["check"]


def test_requests_time_out_while_their_messages_stay_in_flight(view: Play) -> None:
    in_flight = view.played.in_flight
    choose(view, "wait")
    assert view.played.in_flight[: len(in_flight)] == in_flight
    assert "BKTimeoutException" in [event.error for event in view.played.trace.events]


def test_the_run_ends_when_nothing_is_in_flight() -> None:
    view = Play(replace(SCENARIO, variant=""))
    choose(view, "rest")
    assert view.played.is_over
    assert moves(view) == {}
    assert "✔ All entries were read back; no promise was broken" in words(view)
    assert labels(view) == ["Undo", "Start over"]


def test_a_move_that_is_no_longer_possible_is_rejected(view: Play) -> None:
    press(view, "deliver w>b1 2")
    press(view, "deliver w>b1 2")
    assert view.played.moves == ("deliver w>b1 2",)
    assert "no button to move deliver w>b1 2" in view.notice


def test_the_scenario_of_the_moves_can_be_run(view: Play) -> None:
    press(view, "deliver w>b1 2")
    press(view, "deliver b1>w 2")
    events = view.played.trace.events
    assert run(view.scenario).events[: len(events)] == events


def test_the_still_picture_has_the_messages_but_no_buttons(view: Play) -> None:
    svg = view.svg()
    assert "add entry 0" in svg
    assert "Lose" not in svg
    assert "Cut the power" not in svg
    assert repr(view) == "Play: 0 moves, 4 in flight"
