"""Tests of runs that are played by hand: every game is a scenario, and can be repeated like one."""

from dataclasses import replace
from random import Random

import pytest

from labkit.system.check import broken, check_all
from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.sim.explore.orders.every_order import every_order
from labkit.worlds.sim.play.played import Played, play
from labkit.worlds.sim.play.played_world import ImpossibleMoveError
from labkit.worlds.sim.run import run
from labkit.worlds.sim.run_link import RunLink
from labkit.worlds.sim.scenario.scenario import Scenario, from_json
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import On
from labkit.worlds.sim.workload.steps import Recover, Write
from tests.repeat import repeated

WRITE = Write(entries=1, window=1, close=False)
SCENARIO = Scenario(Cluster(3), (WRITE, Recover(when=On("add.pushed"))))
HASTY = replace(SCENARIO, variant="ack after one bookie")
ALONE = replace(WRITE, ensemble=1, write_quorum=1, ack_quorum=1)
UNSYNCED = Scenario(Cluster(1), (ALONE,), variant="ack before sync", ends_in_power_cut=False)


def played_at_random(scenario: Scenario, seed: int, *, is_quick: bool, most: int = 1000) -> Played:
    random, played = Random(seed), play(scenario, is_quick=is_quick)
    while not played.is_over and len(played.moves) < most:
        deliveries = [move for move in played.possible if move.startswith("deliver ")]
        played = played.after(
            random.choice(played.possible if random.random() < 0.3 else deliveries)
        )
    return played


def in_words(played: Played) -> list[str]:
    return [f"{each.source}>{each.target}: {each.words}" for each in played.in_flight]


def test_only_messages_of_clients_and_bookies_wait_for_the_player() -> None:
    adds = [f"w>b{bookie}: add entry 0" for bookie in range(3)]
    assert in_words(play(SCENARIO)) == ["r>r: recover ledger 0", *adds]
    slow = play(SCENARIO, is_quick=False)
    assert in_words(slow) == ["w>zk: list available"]
    assert not slow.in_flight[0].can_fail


def test_messages_say_what_they_ask_for_and_what_bookies_respond() -> None:
    played = play(SCENARIO).after("deliver w>b1 2", "deliver r>r 0")
    assert "b1>w: entry 0 is stored" in in_words(played)
    assert "r>b0: fence, and read the last entry" in in_words(played)
    played = played.after("deliver r>b0 2", "deliver r>b2 2")
    assert "b0>r: the last entry: I do not have it" in in_words(played)
    played = played.after("deliver w>b0 2")
    assert "b0>w: entry 0: refused, the ledger is fenced" in in_words(played)
    assert "b2>r: the connection is closed" in in_words(played.after("crash b2 1"))


@pytest.mark.slow
@pytest.mark.parametrize("is_quick", [True, False])
@pytest.mark.parametrize("seed", repeated(range(10)))
def test_every_play_is_a_scenario_that_runs_the_same_again(seed: int, is_quick: bool) -> None:
    played = played_at_random(SCENARIO, seed, is_quick=is_quick)
    assert played.is_over
    again = run(from_json(played.scenario.to_json()))
    assert again.digest == played.trace.digest == played.whole().digest


@pytest.mark.slow
@pytest.mark.parametrize("most", [0, 1, 3, 8])
@pytest.mark.parametrize("seed", repeated(range(10)))
def test_an_unfinished_play_is_the_beginning_of_its_scenarios_run(seed: int, most: int) -> None:
    played = played_at_random(SCENARIO, seed, is_quick=True, most=most)
    so_far = len(played.trace.events)
    assert run(played.scenario).events[:so_far] == played.trace.events
    assert played.whole().digest == run(played.scenario).digest


@pytest.mark.slow
@pytest.mark.parametrize("is_quick", [True, False])
@pytest.mark.parametrize("seed", repeated(range(10)))
def test_a_link_contains_all_moves_and_the_play_goes_on_from_there(
    seed: int, is_quick: bool
) -> None:
    played = played_at_random(HASTY, seed, is_quick=is_quick, most=9)
    link = RunLink.parse(played.whole().link("Play"))
    again = play(link.scenario)
    assert again.trace.events == played.trace.events
    assert again.in_flight == played.in_flight
    assert again.possible == played.possible
    if is_quick:
        assert (again.moves, again.start) == (played.moves, played.start)


@pytest.mark.slow
def test_what_every_order_finds_can_be_played() -> None:
    write = replace(WRITE, ensemble=2, write_quorum=2)
    scenario = Scenario(Cluster(2), (write, Recover(when=On("add.pushed"))))
    wrong = replace(scenario, variant="recovery without fencing")
    found = every_order(wrong, on_progress=lambda states, findings: None)
    assert found.findings
    for finding in found.findings:
        # Decisions that are 0 have been left out.
        played = play(finding.scenario)
        assert played.whole().digest == run(replace(finding.scenario, in_turn=True)).digest
        broken_at_end = [each.name for each in broken(check_all(played.whole()))]
        assert finding.promise in broken_at_end


def test_undoing_a_move_leads_back_to_the_same_messages() -> None:
    played = play(SCENARIO).after("deliver w>b1 2")
    further = played.after("lose w>b0 2", "crash b1 1", "deliver b1>w 2")
    assert further.before(3) == played


def test_a_promise_counts_as_broken_as_soon_as_it_is() -> None:
    played = play(HASTY).after("deliver w>b1 2")
    assert played.broken == ()
    played = played.after("deliver b1>w 2")
    (verdict,) = played.broken
    assert verdict.name == "AckQuorumIsReached"
    assert played.in_flight
    assert play(SCENARIO).after("deliver w>b1 2", "deliver b1>w 2").broken == ()


def test_what_only_the_last_reads_show_counts_when_the_run_ends() -> None:
    played = play(replace(UNSYNCED, ends_in_power_cut=True)).after("deliver w>b0 2")
    assert not played.is_over
    assert played.broken == ()
    played = played.to_the_end()
    assert played.is_over
    assert [each.name for each in played.broken] == [
        each.name for each in broken(check_all(run(played.scenario)))
    ]
    assert "EveryCopyIsDurable" in [each.name for each in played.broken]


def test_delivering_the_rest_makes_moves_that_can_be_undone() -> None:
    played = play(SCENARIO).after("deliver w>b2 2").to_the_end()
    assert played.is_over
    assert played.possible == played.cuts
    assert not played.before().is_over
    assert play(SCENARIO, played.moves) == played


def test_a_lost_message_is_gone_and_a_copied_one_arrives_twice() -> None:
    lost = play(SCENARIO).after("lose w>b0 2")
    assert "w>b0 2" not in [each.name for each in lost.in_flight]
    copied = play(SCENARIO).after("copy w>b0 2")
    behind = [each.behind for each in copied.in_flight if each.name == "w>b0 2"]
    assert behind == ["", "add entry 0"]
    assert "lose w>b0 2" not in copied.possible
    assert copied.after("deliver w>b0 2", "deliver w>b0 2").broken == ()


def test_a_bookie_whose_power_is_cut_is_back_and_hangs_up() -> None:
    played = play(SCENARIO).after("deliver w>b1 2", "crash b1 1")
    assert [move for move in played.possible if move.startswith("crash")] == [
        "crash b0 0",
        "crash b2 0",
    ]
    kinds = [event.kind for event in played.trace.events if event.node == "b1"]
    assert kinds[kinds.index("node.killed") :].count("node.started") == 1
    closed = "the connection is closed"
    hang_up = next(each for each in played.in_flight if each.words == closed)
    assert not hang_up.can_fail


def test_a_message_to_a_bookie_that_has_lost_power_is_dropped() -> None:
    played = play(SCENARIO).after("crash b1 0")
    assert [each.name for each in played.in_flight if each.is_void] == ["w>b1 2"]
    assert not played.made[-1].is_void
    dropped = played.after("deliver w>b1 2")
    assert dropped.made[-1].is_void
    assert dropped.trace.events == played.trace.events


def test_a_message_says_which_one_must_arrive_before_it() -> None:
    played = play(SCENARIO).after("deliver w>b1 2", "crash b1 1")
    closed = next(each for each in played.in_flight if each.name == "b1>w 3")
    assert closed.behind == "entry 0 is stored"
    assert "deliver b1>w 3" not in played.possible


def test_a_power_cut_takes_effect_before_a_later_message_to_another_bookie() -> None:
    played = play(SCENARIO).after("deliver w>b1 2", "deliver w>b0 2", "crash b1 1")
    first, second, cut = (move.event_count for move in played.made)
    assert first < cut < second
    assert played.trace.events[cut].kind == "node.killed"


def test_requests_time_out_in_a_wait_and_the_writer_replaces_the_bookies() -> None:
    scenario = replace(SCENARIO, cluster=Cluster(4))
    played = play(scenario).after("deliver w>b0 2", "deliver w>b1 2")
    waited = played.after(played.wait)
    assert waited.moves[-1] == played.wait
    assert set(played.in_flight) < set(waited.in_flight)
    assert "w>b3: add entry 0" in in_words(waited)
    assert waited.wait == ""
    again = waited.after("crash b0 2")
    kinds = [event.kind for event in again.trace.events]
    assert kinds.index("node.killed") > kinds.index("ensemble.changing")
    assert again.to_the_end().broken == ()


def test_a_message_that_is_not_in_flight_cannot_be_delivered() -> None:
    with pytest.raises(ImpossibleMoveError, match="cannot deliver b1>w 2; possible: deliver"):
        play(SCENARIO, ["deliver b1>w 2"])
    everything = play(SCENARIO).to_the_end()
    with pytest.raises(ImpossibleMoveError, match="the run has ended"):
        everything.after("deliver b1>w 2")


def test_a_scenario_with_a_seed_is_rejected() -> None:
    with pytest.raises(BKIncorrectParameterException, match="with a seed cannot be played"):
        play(replace(SCENARIO, seed=1))


def test_a_scenarios_own_decisions_are_no_moves() -> None:
    played = play(replace(SCENARIO, decisions={"lose w>b2 2": 1.0}))
    assert played.moves == ()
    assert "w>b2: add entry 0" not in in_words(played)


# A copy that a bookie has acknowledged and lost is noticed before anyone reads it back


STORED, POWER_CUT, ACKNOWLEDGED = "deliver w>b0 2", "crash b0 1", "deliver b0>w 2"


def broken_in(played: Played) -> list[str]:
    return [each.name for each in played.broken]


@pytest.mark.parametrize(
    "moves", [(STORED, POWER_CUT, ACKNOWLEDGED), (STORED, ACKNOWLEDGED, POWER_CUT)]
)
def test_a_power_cut_that_destroys_an_acknowledged_copy_breaks_a_promise_at_once(
    moves: tuple[str, ...],
) -> None:
    played = play(UNSYNCED, moves)
    (verdict,) = played.broken
    assert verdict.name == "EveryCopyIsDurable"
    assert verdict.explanation.startswith("b0 has lost entry 0 of ledger 0, although")
    assert {"node.killed", "add.acked"} <= {event.kind for event in verdict.lineage}
    assert broken_in(played.before()) == []


def test_the_loss_is_found_again_when_every_entry_is_read_back() -> None:
    played = play(UNSYNCED, (STORED, POWER_CUT, ACKNOWLEDGED)).to_the_end()
    assert played.is_over
    assert broken_in(played).count("EveryCopyIsDurable") == 1


def test_a_lost_copy_that_nobody_has_acknowledged_breaks_no_promise() -> None:
    assert broken_in(play(UNSYNCED, (STORED, POWER_CUT))) == []


def test_a_bookie_that_syncs_before_it_acknowledges_loses_nothing() -> None:
    correct = Scenario(Cluster(1), (ALONE,))
    assert broken_in(play(correct, (STORED, POWER_CUT, ACKNOWLEDGED))) == []
