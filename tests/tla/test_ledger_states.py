"""The states passed to TLC match the events of the run."""

from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Unpack

import pytest

from labkit.system.trace.events import Event, Fields
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.workload.steps import Write
from tests.interop.apache import NotToBeHad
from tests.tla.amendments import AMENDMENTS
from tests.tla.ledger_states import NotComparable, Run, State, run_of
from tests.tla.module import configuration, trace_data
from tests.tla.scenarios import SCENARIOS, run_in
from tests.tla.tlc import Judgement, get_tlc

B0_TO_B2 = frozenset({"b0", "b1", "b2"})


@pytest.fixture(scope="module")
def change() -> Run:
    return run_in("an ensemble change")


def made_by(run: Run, kind: str) -> list[State]:
    return [state for state in run.states if state.event is not None and state.event.kind == kind]


def test_entries_count_from_one_and_a_closed_ledger_has_its_last() -> None:
    ledger = run_in("a plain write").states[-1].ledger
    assert (ledger.stage, ledger.last) == ("closed", 2)
    assert ledger.stored == dict.fromkeys(B0_TO_B2, frozenset({1, 2}))


def test_creation_of_a_ledger_is_one_step_with_its_first_ensemble() -> None:
    first, second, *_ = run_in("a plain write").states
    assert (first.ledger.stage, second.ledger.stage) == ("none", "open")
    assert second.ledger.segments == ((1, B0_TO_B2),)


def test_two_states_in_a_row_differ_in_what_is_visible(change: Run) -> None:
    pairs = zip(change.states, change.states[1:], strict=False)
    assert all(one.ledger != other.ledger for one, other in pairs)


def test_an_answer_counts_no_earlier_than_it_arrives() -> None:
    plain = run_in("a plain write")
    confirmed = made_by(plain, "lac.advanced")[0]
    before = plain.states[plain.states.index(confirmed) - 1]
    arrived = plain.arrivals[: before.arrived]
    assert len([answer for answer in arrived if answer[0] == "add" and answer[3] == 1]) == 2


def test_acknowledgements_during_an_ensemble_change_count_after_it(change: Run) -> None:
    [created, changed] = made_by(change, "ensemble.set")
    assert created.ledger.segments == ((1, B0_TO_B2),)
    before = change.states[change.states.index(changed) - 1]
    assert {answer[3] for answer in change.arrivals[: before.arrived]} == {1}
    assert {answer[3] for answer in change.arrivals[: changed.arrived]} == {1, 2}


def test_an_ensemble_change_begins_with_the_failed_add() -> None:
    # A live client queries the metadata store between the two events, and responses may arrive
    # meanwhile.
    def event(kind: str, entry: int, **fields: Unpack[Fields]) -> Event:
        return Event(next(seqs), 1000, "w", kind, ledger=0, entry=entry, **fields)

    seqs = count()
    run = run_of(
        [
            event("ledger.created", -1, ensemble_size=3, write_quorum=3, ack_quorum=2),
            event("ensemble.set", 0, ensemble=("b0", "b1", "b2")),
            event("add.pushed", 0),
            event("add.failed", 0, peer="b0"),
            event("add.acked", 0, peer="b1"),
            event("add.acked", 0, peer="b2"),
            event("ensemble.changing", 0, bookies=("b0",)),
            event("ensemble.set", 0, ensemble=("b3", "b1", "b2")),
            event("lac.advanced", 0),
        ],
        ["b0", "b1", "b2", "b3"],
    )
    *_, pushed, changed, _confirmed = run.states
    assert (pushed.arrived, changed.arrived) == (0, 2)


def test_recoverer_pushes_from_the_lac_on_that_its_fence_reported() -> None:
    run = run_in("a recovery from a known LAC on")
    [covered] = made_by(run, "recovery.covered")
    assert (covered.ledger.clients["x"].pushed, covered.ledger.clients["x"].confirmed) == (1, 1)
    assert covered.ledger.fenced == B0_TO_B2
    assert run.states[-1].ledger.clients["x"].pushed == 2


def test_striped_ledger_is_not_comparable() -> None:
    scenario = Scenario(workload=(Write(entries=1, ensemble=3, write_quorum=2),))
    events = run(scenario).events
    with pytest.raises(NotComparable, match="no striping: E=3, Qw=2"):
        run_of(events, scenario.cluster.names)


def test_run_without_the_ledger_is_not_comparable() -> None:
    with pytest.raises(NotComparable, match="no client created the ledger"):
        run_of((), ("b0",))


@pytest.mark.parametrize("name", SCENARIOS)
def test_what_follows_the_run_is_not_judged(name: str) -> None:
    assert set(run_in(name).clients) <= {"w", "x", "y"}


def test_module_has_each_state_and_each_answer_in_order(change: Run) -> None:
    text = trace_data(change, AMENDMENTS)
    assert text.count("seen |->") == len(change.states)
    assert 'Arrivals == << <<"add", "w", "b0", 1>>, <<"add", "w", "b1", 1>>' in text


def test_amended_operator_is_replaced_only_with_its_amendment(change: Run) -> None:
    assert "AddToConfirmed <-" in configuration(change, AMENDMENTS)
    assert "AddToConfirmed <-" not in configuration(change, ())


def test_refusal_names_the_first_event_without_an_explanation(change: Run) -> None:
    judgement = Judgement(change, len(change.states) - 1, 7, 1.0)
    assert not judgement.is_behaviour
    assert "nothing in it explains event" in str(judgement)
    assert replace(judgement, explained=len(change.states)).is_behaviour


def test_what_is_missing_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("shutil.which", str)
    monkeypatch.setenv("LABKIT_TLA", str(tmp_path))
    with pytest.raises(NotToBeHad, match="no directory in LABKIT_TLA contains BookKeeperProtocol"):
        get_tlc()
