"""The curve of a play names the move after which a broken promise became inevitable."""

import pytest

from labkit.worlds.sim.play.play_curve import PlayCurve, in_effect_order
from labkit.worlds.sim.play.played import Played, play
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.workload.steps import Write
from tests.worlds.sim.play.test_played import ACKNOWLEDGED, POWER_CUT, STORED, UNSYNCED


def curve_of(played: Played, promise: str) -> PlayCurve:
    *_, curve = played.loss_curves(promise)
    return curve


@pytest.mark.parametrize(
    ("moves", "number"),
    [((STORED, POWER_CUT, ACKNOWLEDGED), 2), ((STORED, ACKNOWLEDGED, POWER_CUT), 3)],
)
def test_the_power_cut_is_named_and_not_the_message_before_it(
    moves: tuple[str, ...], number: int
) -> None:
    curve = curve_of(play(UNSYNCED, moves), "EveryCopyIsDurable")
    assert curve.move == (number, "b0 loses power")
    assert (curve.before.share, curve.after.share) == (0, 1)
    assert curve.words.startswith(f"Move {number} (b0 loses power): after it, 16 of 16 futures")
    assert "before it, 0 did" in curve.words


def test_without_the_power_cut_no_future_breaks_the_promise() -> None:
    played = play(UNSYNCED, (STORED, ACKNOWLEDGED))
    assert all(played.future(count, seed).broken == () for count in range(3) for seed in range(4))


def test_a_curve_says_that_no_move_made_a_difference() -> None:
    write = Write(entries=1, window=1, close=False)
    hasty = Scenario(Cluster(3), (write,), variant="ack after one bookie")
    played = play(hasty, ("deliver w>b1 2", "deliver b1>w 2"))
    curve = curve_of(played, "AckQuorumIsReached")
    assert (curve.move, curve.seq) == (None, -1)
    assert curve.words.startswith("Every order breaks the promise")


def test_a_future_repeats_the_moves_and_then_delivers_everything_in_an_order_of_its_own() -> None:
    played = play(UNSYNCED, (STORED, ACKNOWLEDGED))
    future = played.future(1, seed=3)
    assert future.moves[0] == STORED
    assert future.is_over
    assert played.future(1, seed=3) == future


def test_the_points_of_a_curve_are_in_the_order_of_the_events() -> None:
    played = play(UNSYNCED, (STORED, ACKNOWLEDGED, POWER_CUT))
    seqs = [seq for seq, _ in curve_of(played, "EveryCopyIsDurable").points]
    assert seqs == sorted(seqs)
    in_order = [move.name for move in in_effect_order(played.made)]
    assert in_order == [STORED, POWER_CUT, ACKNOWLEDGED]
