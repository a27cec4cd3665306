"""Tests the levels: real moves reach par, and the correct protocol cannot be beaten."""

from dataclasses import replace

import pytest

from labkit.course.runs.game.game import Game
from labkit.course.runs.game.levels import LEVELS, Level
from labkit.course.runs.game.par import Shorter, shorter_plays
from labkit.system.check import broken, check_all
from labkit.worlds.sim.explore.orders.every_order import every_order
from labkit.worlds.sim.play.played import Played, play
from labkit.worlds.sim.play.played_world import ImpossibleMoveError
from labkit.worlds.sim.run import run
from labkit.worlds.sim.variants.variants import VARIANTS

SMALL = 1000
"""Levels with fewer states than this are tried completely in seconds."""

pytestmark = pytest.mark.slow
level_by_level = pytest.mark.parametrize("level", LEVELS, ids=lambda level: level.title)


def wins(level: Level, played: Played) -> bool:
    return level.promise in [each.name for each in played.broken]


def plays_below(par: int, level: Level) -> Shorter:
    crashes, losses = level.crashes, level.losses
    return shorter_plays(level.faulty, level.promise, crashes=crashes, losses=losses, par=par)


def without(level: Level, number: int) -> tuple[str, ...]:
    return level.solution[:number] + level.solution[number + 1 :]


def test_the_ladder_has_ten_levels_that_get_longer() -> None:
    pars = [level.par for level in LEVELS]
    assert (len(pars), pars) == (10, sorted(pars))
    assert (pars[0] <= 3, pars[-1]) == (True, 13)
    assert len({level.title for level in LEVELS}) == 10


@pytest.mark.core
@level_by_level
def test_the_solution_consists_of_moves_that_the_player_has_and_wins_with_the_last(
    level: Level,
) -> None:
    played = play(level.faulty)
    for move in level.solution:
        assert move in played.possible
        assert not wins(level, played)
        played = played.after(move)
    assert wins(level, played)
    kinds = [move.split()[0] for move in level.solution]
    assert (kinds.count("crash"), kinds.count("lose")) == (level.crashes, level.losses)


@level_by_level
def test_no_move_of_the_solution_can_be_left_out(level: Level) -> None:
    for number in range(level.par):
        try:
            played = play(level.faulty, without(level, number))
        except ImpossibleMoveError:
            continue
        assert not wins(level, played), level.solution[number]


@level_by_level
def test_the_same_order_breaks_nothing_in_the_correct_protocol(level: Level) -> None:
    faulty = play(level.faulty, level.solution).scenario
    assert VARIANTS[level.variant].name == faulty.variant
    assert broken(check_all(run(replace(faulty, variant="")))) == []


def _of_size(level: Level) -> object:
    marks = () if level.states < SMALL else (pytest.mark.long, pytest.mark.timeout(1800))
    return pytest.param(level, marks=marks, id=level.title)


@pytest.mark.parametrize("level", [_of_size(level) for level in LEVELS])
def test_the_correct_protocol_cannot_be_beaten(level: Level) -> None:
    found = every_order(
        level.scenario,
        crashes=level.crashes,
        losses=level.losses,
        patience_s=1500,
        on_progress=lambda states, findings: None,
    )
    assert found.complete
    assert (found.findings, found.states) == ((), level.states)


@pytest.mark.parametrize("level", [_of_size(level) for level in LEVELS])
def test_no_play_is_shorter_than_par(level: Level) -> None:
    found = plays_below(level.par, level)
    assert (found.plays, found.unfinished) == ((), 0)
    assert found.states == level.tried


@pytest.mark.parametrize("number", [1, 2, 3])
def test_trying_all_moves_in_the_game_itself_wins_no_earlier_than_par(number: int) -> None:
    game = Game(number)
    plays = [game.played]
    for moves in range(game.level.par + 1):
        assert any(wins(game.level, each) for each in plays) == (moves == game.level.par)
        following = []
        for game.played in plays:
            offered = [move for move in game.played.possible if game.offers(move)]
            following += [game.played.after(move) for move in offered]
        plays = following


# The search judges a lost copy only when it is read back, which happens after par.
FOUND_AT_PAR = [level for level in LEVELS[:7] if level.promise != "EveryCopyIsDurable"]


@pytest.mark.parametrize("level", FOUND_AT_PAR, ids=lambda level: level.title)
def test_the_search_finds_plays_of_par(level: Level) -> None:
    found = plays_below(level.par + 1, level)
    played = [play(scenario) for scenario in found.plays]
    assert played
    assert all(wins(level, each.to_the_end()) for each in played)
    assert level.par in [len(each.moves) for each in played]
