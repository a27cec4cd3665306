"""A copy that a bookie has acknowledged and lost is noticed before anyone reads it back."""

import pytest

from labkit.worlds.sim.play.played import Played, play
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.workload.steps import Write

WRITE = Write(entries=1, ensemble=1, write_quorum=1, ack_quorum=1, window=1, close=False)
HASTY = Scenario(Cluster(1), (WRITE,), variant="ack before sync", ends_in_power_cut=False)
STORED, POWER_CUT, ACKNOWLEDGED = "deliver w>b0 2", "crash b0 1", "deliver b0>w 2"


def broken_in(played: Played) -> list[str]:
    return [each.name for each in played.broken]


@pytest.mark.parametrize(
    "moves", [(STORED, POWER_CUT, ACKNOWLEDGED), (STORED, ACKNOWLEDGED, POWER_CUT)]
)
def test_a_power_cut_that_destroys_an_acknowledged_copy_breaks_a_promise_at_once(
    moves: tuple[str, ...],
) -> None:
    played = play(HASTY, moves)
    (verdict,) = played.broken
    assert verdict.name == "EveryCopyIsDurable"
    assert verdict.explanation.startswith("b0 has lost entry 0 of ledger 0, although")
    assert {"node.killed", "add.acked"} <= {event.kind for event in verdict.lineage}
    assert broken_in(played.before()) == []


def test_the_loss_is_found_again_when_every_entry_is_read_back() -> None:
    played = play(HASTY, (STORED, POWER_CUT, ACKNOWLEDGED)).to_the_end()
    assert played.is_over
    assert broken_in(played).count("EveryCopyIsDurable") == 1


def test_a_lost_copy_that_nobody_has_acknowledged_breaks_no_promise() -> None:
    assert broken_in(play(HASTY, (STORED, POWER_CUT))) == []


def test_a_bookie_that_syncs_before_it_acknowledges_loses_nothing() -> None:
    correct = Scenario(Cluster(1), (WRITE,))
    assert broken_in(play(correct, (STORED, POWER_CUT, ACKNOWLEDGED))) == []
