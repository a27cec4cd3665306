"""Tests for running the learner's code inside the simulated world."""

import pytest

from labkit.course.checking.refused import Refused
from labkit.course.runs import cluster_trial
from labkit.course.runs.cluster_trial import (
    ClusterTrial,
    client_with,
    counterexample_at,
    failures,
    must_hold,
    replacing,
    run_with,
)
from labkit.system.client import striping, writer
from labkit.system.client.pending_add import PendingAdd
from labkit.system.client.writer import LedgerWriter
from labkit.worlds.sim.machine.loop import BudgetError
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.variants.variants import VARIANTS
from labkit.worlds.sim.workload.steps import Read, Write

SCENARIO = Scenario(Cluster(3), (Write(entries=4),))


class AckAtOnce(LedgerWriter):
    def has_enough_acks(self, pending: PendingAdd) -> bool:
        return pending.acked != 0


def test_the_guest_takes_the_functions_place_in_the_client_and_gives_it_back() -> None:
    asked = []

    def mine(*arguments: int) -> tuple[int, ...]:
        asked.append(arguments)
        return (0, 1, 2)

    trial = ClusterTrial(mine)
    with replacing(striping.write_set, trial):
        trace = trial.run(SCENARIO)
    assert (3, 3, 3) in asked
    assert not failures(trace)
    assert vars(writer)["write_set"] is striping.write_set


def test_what_the_guest_raises_first_ends_the_run_with_its_own_error() -> None:
    calls = []

    def mine(*arguments: int) -> tuple[int, ...]:
        calls.append(arguments)
        raise KeyError(len(calls))

    trial = ClusterTrial(mine)
    with replacing(striping.write_set, trial), pytest.raises(KeyError, match="1"):
        trial.run(SCENARIO)
    assert len(calls) == 1


def test_a_run_in_circles_is_a_refused_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def endless(scenario: Scenario) -> Trace:
        raise BudgetError("the run reached its limit of 3600 s of virtual time")

    monkeypatch.setattr(cluster_trial, "run", endless)
    with pytest.raises(Refused, match="does not end: the run reached its limit of 3600 s"):
        ClusterTrial(len).run(SCENARIO)


def test_classes_of_ones_own_run_for_that_run_only() -> None:
    before = dict(VARIANTS)
    run_with(SCENARIO, client=client_with(writer_class=AckAtOnce))
    assert before == VARIANTS


def test_the_first_broken_promise_is_put_in_the_lessons_words() -> None:
    client = client_with(writer_class=AckAtOnce)
    with pytest.raises(Refused) as refused:
        must_hold(
            [SCENARIO],
            lambda scenario: run_with(scenario, client=client),
            {"AcknowledgedIsDurable": "not this", "AckQuorumIsReached": "wait for Qa"},
        )
    assert refused.value.message == "wait for Qa"
    assert "AckQuorumIsReached" in str(refused.value.counterexample)


def test_runs_that_hold_are_returned_and_say_which_steps_failed() -> None:
    missing = Scenario(Cluster(1), (Write(entries=1), Read(ledger=0)), limit_s=5)
    held, short = must_hold([SCENARIO, missing], run_with, {})
    assert failures(held) == []
    assert any("BKNotEnoughBookiesException" in note for note in failures(short))


def test_what_no_check_says_can_be_shown_too() -> None:
    trace = run_with(SCENARIO)
    closed = next(event for event in trace.events if event.kind == "ledger.closed")
    assert "→" in str(counterexample_at(trace, closed.seq, "closed too early"))
