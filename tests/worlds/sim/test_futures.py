"""Other futures of a run show when its broken promise became inevitable."""

from dataclasses import replace

import pytest

from labkit.system.model.errors import BKIncorrectParameterException
from labkit.worlds.sim.explore.counterexamples import counterexample, kept
from labkit.worlds.sim.explore.scenarios.storm import storm
from labkit.worlds.sim.future_world import BEFORE_THE_RUN_US
from labkit.worlds.sim.futures import inevitability
from labkit.worlds.sim.run import run
from labkit.worlds.sim.run_link import RunLink
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.variants.variants import VARIANTS
from tests.repeat import repeated
from tests.worlds.sim.digests import BASE

# The decision, fault or event that, according to a careful reader, made the broken promise
# inevitable. All but the first thirteen were written before the curves had been computed.
EXPECTED = {
    "ack after one bookie": "delay b0>w 0",
    "LAC out of order": "delay w>b1 0",
    "ensemble change from the wrong entry": "Crash",
    "no fencing on recovery reads": "swap b1>s 2",
    "fence not persisted": "Crash",
    "acks of emptied bookies counted": "Reformatted",
    "deleted ledger comes back": "ledger.collected",
    "list of ledgers without a sync": "LaggingMetadata",
    "recovery trusts one bookie": "Crash",
    "recovery publishes ensembles early": "lose b2>x 3",
    "could not read taken for no such entry": "BitRot",
    "unreachable taken for an answer": "Crash",
    "auditor without delay": "Crash",
    "recovery without fencing": "add.acked",
    "silence taken for absence": "expire b2 3",
    "metadata before the copy": "Crash",
    "lost sessions noticed late": "PowerCut",
    "cookie not checked": "ReplacedDisks",
    "mark taken after the flush": "disk b0 7",
    "pushed taken for stored": "Partition",
    "takeover without recovery": "Partition",
    "marks not rebuilt": "Crash",
    "pushed again behind later ones": "CrashAtOperation",
    "list of ledgers written blindly": "Partition",
    "sends after a failed one": "Reset",
    "receipt of the newest entry": "Partition",
    "ledger ids in blocks": "Partition",
}
# docs/simulation.md explains these.
DISAGREEMENTS = {
    "recovery without fencing",
    "lost sessions noticed late",
    "takeover without recovery",
    "pushed again behind later ones",
}
FUTURES = 16


def test_each_counterexample_has_an_expectation() -> None:
    assert set(EXPECTED) == set(kept())


@pytest.mark.parametrize("variant", repeated(sorted(set(EXPECTED) - DISAGREEMENTS)))
def test_the_jump_is_where_a_careful_reader_puts_it(variant: str) -> None:
    trace = run(counterexample(variant))
    jump = inevitability(trace, VARIANTS[variant].breaks, FUTURES).jump
    assert jump is not None
    faults = (type(fault).__name__ for fault in jump.faults)
    assert EXPECTED[variant] in (*jump.decisions, *faults, *(event.kind for event in jump.events))
    assert jump.after.share - jump.before.share > 0.4


def test_a_future_of_the_last_moment_is_the_run_itself() -> None:
    trace = run(counterexample("ack after one bookie"))
    again = trace.future(trace.events[-1].time_us, seed=3)
    assert again.events == trace.events


def test_futures_of_the_same_moment_differ_only_after_it() -> None:
    trace = run(counterexample("no fencing on recovery reads"))
    moment_us = trace.events[60].time_us
    futures = [trace.future(moment_us, seed) for seed in range(8)]
    before = [event for event in trace.events if event.time_us <= moment_us]
    assert all(list(each.events[: len(before)]) == before for each in futures)
    assert len({each.digest for each in futures}) > 1


def test_a_future_is_a_run_of_its_own_that_its_decisions_and_its_link_repeat() -> None:
    trace = run(storm(BASE, 2, fault_count=3, horizon_ms=40))
    moment_us = trace.struck[0][0]
    future = trace.future(moment_us, seed=3)
    assert len(future.struck) < len(trace.struck)
    assert run(future.explicit()).digest == future.digest
    assert run(RunLink.parse(future.link()).scenario).digest == future.digest


def test_the_decisions_of_the_run_itself_are_no_future() -> None:
    trace = run(replace(counterexample("ack after one bookie"), seed=0))
    seeds: list[int] = []

    def run_future(scenario: Scenario, moment_us: int, seed: int) -> Trace:
        seeds.append(seed)
        return trace.run_future(scenario, moment_us, seed)

    inevitability(replace(trace, run_future=run_future), "AckQuorumIsReached", 4)
    assert set(seeds) == {1, 2, 3, 4}


def test_a_fault_after_the_moment_does_not_strike() -> None:
    trace = run(counterexample("marks not rebuilt"))
    ((struck_at_us, _),) = trace.struck
    assert trace.future(struck_at_us - 1, seed=0).struck == ()
    assert trace.future(struck_at_us, seed=0).struck == trace.struck
    assert trace.future(BEFORE_THE_RUN_US, seed=0).struck == ()


def test_the_reason_is_a_sentence_about_the_decision_or_the_fault() -> None:
    trace = run(counterexample("mark taken after the flush"))
    found = inevitability(trace, "EveryCopyIsDurable", FUTURES)
    assert found.jump is not None
    assert found.jump.reason == "disk call 7 of b0 took 1 ms longer"
    assert repr(found).startswith("EveryCopyIsDurable: from ")


def test_a_crash_is_described_by_its_event() -> None:
    trace = run(counterexample("ensemble change from the wrong entry"))
    jump = inevitability(trace, "AcknowledgedIsDurable", FUTURES).jump
    assert jump is not None
    assert jump.reason == "b1 was killed: its memory is lost, its files are kept"


@pytest.mark.parametrize(
    ("promise", "reason"),
    [
        ("NoSuchPromise", "'NoSuchPromise' is not the name of a check"),
        ("ReadersAgree", "ReadersAgree holds in this run"),
    ],
)
def test_a_promise_that_does_not_break_is_rejected(promise: str, reason: str) -> None:
    trace = run(counterexample("cookie not checked"))
    with pytest.raises(BKIncorrectParameterException, match=reason):
        inevitability(trace, promise, 1)
