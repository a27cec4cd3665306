"""Tests the game's view: goal, score, limits, and what happens when you win."""

import re

import pytest

from labkit.course.runs.game.game import Game
from labkit.course.runs.game.levels import LEVELS, RULES
from labkit.course.runs.open_run import open_run
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.views.widgets.play import move_of
from labkit.views.widgets.timeline import TimelineView


def lines(game: Game) -> str:
    return "\n".join(words for words, _ in (*game.remarks(), *game.outcome()))


def press(game: Game, *moves: str) -> None:
    for move in moves:
        game.handle({"do": "move", "on": move, "seq": -1})


def choose(game: Game, name: str, value: object = True) -> None:
    game.handle({"set": name, "value": value})


def names(game: Game) -> list[str]:
    return [each["name"] for each in game.controls if not each.get("disabled")]


def test_a_level_states_its_goal_the_score_and_par() -> None:
    game = Game()
    assert "Level 1 of 10: One is enough" in lines(game)
    assert "Goal: make the writer confirm entry 0" in lines(game)
    assert "0 moves, par 2" in lines(game)
    press(game, "deliver w>b0 2", "deliver w>b1 2", "deliver b1>w 2")
    assert "✔ You reached the goal in 3 moves. It is possible in 2." in lines(game)
    assert dict(game.texts())["Hint: the bug"].startswith("An add is confirmed when one bookie")


JARGON = re.compile(r"memtable|epilogue|LastAdd|LastLogMark|\bQ[aw]\b|BK\w+|\.(txn|log|idx)\b")


@pytest.mark.slow
@pytest.mark.core
@pytest.mark.parametrize("number", range(1, 11))
def test_no_sentence_uses_a_term_that_the_rules_do_not_explain(number: int) -> None:
    game = Game(number)
    choose(game, "solution")
    for played in (game.played, game.played.to_the_end()):
        game.show(played)
        sentences = [beat.words for beat in game.reel.beats]
        signs = [sign[2] for sign in game.film["signs"]]
        explained = dict(game.texts())
        del explained["How it works"]
        for text in (*sentences, *signs, lines(game), *explained.values()):
            assert not JARGON.search(text), text


def test_the_rules_explain_the_terms_of_the_legend_and_of_the_goals() -> None:
    for term in ("memtable", "journal", "ack quorum", "write set", "LAC", "LAP", "metadata"):
        assert term in RULES


def test_the_player_wins_when_the_promise_of_the_level_breaks() -> None:
    game = Game()
    press(game, "deliver w>b2 2")
    assert (game.has_won, "next" in names(game)) == (False, False)
    press(game, "deliver b2>w 2")
    assert game.has_won
    assert "✔ You reached the goal in 2 moves: par!" in lines(game)
    press(game, "deliver w>b0 2")
    assert len(game.played.moves) == 2
    svg = game.svg()
    assert "The message “add entry 0” from w to b0 is in flight" in svg
    assert "You have reached the goal, so what is still in flight no longer matters." in svg
    assert not {"rest", "wait"} & {*names(game)}
    assert game.film["solved"] == 1
    choose(game, "next")
    assert (game.number, game.has_won, len(game.played.moves)) == (2, False, 0)


def test_a_broken_promise_that_is_not_the_goal_says_so() -> None:
    game = Game(5)
    press(game, "deliver w>b0 2", "deliver b0>w 2")
    assert "but the goal is not reached yet:\n✘ an entry was confirmed with too few" in lines(game)
    assert game.film["solved"] == 0
    choose(game, "solution")
    assert game.has_won
    assert "not reached yet" not in lines(game)


@pytest.mark.parametrize("number", range(1, 11))
def test_a_level_is_won_with_the_move_that_reaches_the_goal_and_explains_one_promise(
    number: int,
) -> None:
    game = Game(number)
    press(game, *LEVELS[number - 1].solution)
    assert (game.has_won, game.played.is_over) == (True, False)
    assert game.allowed() == []
    assert lines(game).count("✘") == 1
    assert len([title for title, _ in game.texts() if title.startswith("Why ")]) == 1


def test_power_cuts_and_losses_are_limited_and_nothing_is_copied() -> None:
    game = Game(3)
    assert "power cuts left: 1" in lines(game)
    assert game.offers("crash b0 0")
    assert not game.offers("lose w>b0 2")
    assert not game.offers("copy w>b0 2")
    press(game, "deliver w>b0 2", "crash b0 1")
    assert "power cuts left: 0" in lines(game)
    assert not game.offers("crash b0 2")
    press(game, "lose b0>w 2")
    assert game.played.moves == ("deliver w>b0 2", "crash b0 1")


def test_a_level_that_ends_without_a_broken_promise_says_how_to_go_on() -> None:
    game = Game(3)
    choose(game, "rest")
    assert not game.has_won
    assert (
        "not reached. You can still cut the power of a bookie. Undo some moves, or start over."
        in lines(game)
    )


def test_the_correct_protocol_says_how_many_states_were_tried() -> None:
    game = Game(3)
    choose(game, "protocol", "correct")
    press(game, *LEVELS[2].solution)
    assert not game.has_won
    assert "all orders of messages and failures were tried, 62 states, and none" in lines(game)
    assert "solution" not in names(game)


def test_the_solution_keeps_what_was_played_as_a_branch_until_the_level_changes() -> None:
    game = Game(3)
    press(game, "crash b0 0")
    choose(game, "solution")
    assert [each.moves for each in game.branches] == [("crash b0 0",)]
    choose(game, "compare", "0")
    assert names(game)[0] == "back"
    choose(game, "back")
    choose(game, "level", "4")
    assert game.branches == []


def test_readers_are_described_without_the_number_of_the_last_entry() -> None:
    game = Game(7)
    press(game, *(f"deliver {each}" for each in ("r>r 0", "r>b0 2", "b0>r 2")))
    assert "has heard from b0, which is enough" in game.svg()
    press(game, "deliver r>b1 2", "deliver b1>r 2")
    svg = game.svg()
    assert "did not get the last entry from b1" in svg
    assert "entry -1" not in svg


def test_the_power_can_still_be_cut_after_the_last_delivery() -> None:
    game = Game(3)
    press(game, "deliver w>b0 2", "deliver b0>w 2")
    assert game.played.is_over
    assert game.allowed() == ["crash b0 1"]
    press(game, "crash b0 1")
    assert game.has_won
    assert "in 3 moves: par!" in lines(game)


def test_a_level_is_solved_only_if_no_move_of_the_solution_was_shown() -> None:
    game = Game(3)
    choose(game, "solution")
    assert "✔ This is how to reach the goal in 3 moves." in lines(game)
    assert (game.has_won, game.film["solved"]) == (True, 0)
    choose(game, "undo")
    press(game, game.level.solution[-1])
    assert (game.has_won, game.film["solved"]) == (True, 0)
    choose(game, "again")
    press(game, *game.level.solution)
    assert "✔ You reached the goal in 3 moves: par!" in lines(game)
    assert game.film["solved"] == 3


def test_a_reader_that_fences_nothing_is_not_said_to_have_fenced() -> None:
    game = Game(7)
    choose(game, "solution")
    (verdict,) = game.broken_promises()
    assert "has fenced" not in game.svg()
    assert "fenced" not in game.causes(verdict)
    assert "move 4  r has heard from enough bookies" in game.causes(verdict)


@pytest.mark.parametrize(("number", "entry"), [(5, 0), (6, 1), (7, 0)])
def test_a_lost_entry_is_drawn_after_the_end_of_its_ledger(number: int, entry: int) -> None:
    game = Game(number)
    press(game, *game.level.solution[:-1])
    if number != 7:
        assert "in recovery" in game.svg()
    press(game, game.level.solution[-1])
    assert f">{entry} unreadable<" in game.svg()
    assert "ledger ends" in game.svg()


def test_the_causes_of_a_lost_entry_name_its_confirmation_and_the_last_answer() -> None:
    game = Game(6)
    choose(game, "solution")
    (verdict,) = game.broken_promises()
    assert "although entry 1 had been confirmed to w" in game.reason(verdict)
    causes = game.causes(verdict)
    assert "move 2  b1 has entry 1 in its memory" in causes
    assert "move 8  entry 1 of ledger 0 is confirmed" in causes
    assert "move 9  b0 told r that it does not have entry 0" in causes


def test_an_answer_without_a_fence_is_reported_at_its_own_move() -> None:
    game = Game(8)
    press(game, *game.level.solution[:7])
    assert game.broken_promises() == []
    press(game, game.level.solution[7])
    (verdict,) = game.broken_promises()
    assert "without having fenced it" in verdict.explanation
    assert move_of(game.played, game.played.trace, verdict.seq) == 8


def test_an_entry_on_the_wrong_bookie_is_explained_by_the_metadata() -> None:
    game = Game(4)
    choose(game, "solution")
    (verdict,) = game.broken_promises()
    assert verdict.explanation == (
        "w confirmed entry 0 of ledger 0 although only b2 had acknowledged it: the metadata says"
        " that the entry is on b0."
    )


def test_a_comparison_shows_a_copy_in_memory_until_the_disk_has_it() -> None:
    game = Game(3)
    press(game, "deliver w>b0 2")
    choose(game, "undo")
    press(game, "crash b0 0")
    choose(game, "undo")
    press(game, "deliver w>b0 2", "crash b0 1", "deliver b0>w 2")
    choose(game, "compare", "0")
    words = game.film["words"]
    assert any("b0 reports a sync, but entry 0 is not on its disk yet" in each for each in words)
    assert not any("entry 0 of ledger 0 is now durable" in each for each in words)
    assert "0 lost" in str(game.film)
    opened = open_run(game.film["link"])
    assert isinstance(opened, TimelineView)
    assert isinstance(game.comparison, TimelineView)
    assert [each.title for each in opened.shown] == ["This play: 3 moves", "Branch: 1 move"]
    assert [each.late_syncs for each in opened.shown] == [
        each.late_syncs for each in game.comparison.shown
    ]


@pytest.mark.parametrize("number", range(1, 11))
def test_reasons_name_moves_instead_of_times_and_events(number: int) -> None:
    game = Game(number)
    choose(game, "solution")
    for verdict in game.played.broken:
        text = f"{game.reason(verdict)}\n{game.causes(verdict)}"
        assert not re.search(r"\d ms|event \d| -1\b", text)
        move = move_of(game.played, game.played.trace, verdict.seq)
        assert (text.startswith("Move "), move is None) == (True, False)


def test_every_level_can_be_chosen() -> None:
    game = Game()
    for number in (4, 10):
        choose(game, "level", str(number))
        assert f"Level {number} of 10: {LEVELS[number - 1].title}" in lines(game)


@pytest.mark.parametrize("level", [0, 11])
def test_a_level_that_does_not_exist_is_rejected(level: int) -> None:
    with pytest.raises(BKIncorrectParameterException, match="there is no level"):
        Game(level)
