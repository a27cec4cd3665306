"""Runs of real processes conform to the public specification, too."""

from dataclasses import replace

import pytest

from labkit.system.trace.events import Event
from tests.tla.live_runs import STORIES, in_steps, live_run
from tests.tla.tlc import Tlc


def event(seq: int, time_us: int, node: str, kind: str) -> Event:
    return Event(seq, time_us, node, kind, ledger=0, entry=0)


@pytest.mark.java
@pytest.mark.slow
@pytest.mark.parametrize("name", STORIES)
async def test_a_live_run_is_a_behaviour_of_the_specification(tlc: Tlc, name: str) -> None:
    judgement = tlc.judge(await live_run(name))
    assert judgement.is_behaviour, str(judgement)


@pytest.mark.java
@pytest.mark.slow
async def test_a_live_run_that_confirms_an_entry_with_one_answer_is_refused(tlc: Tlc) -> None:
    run = await live_run("a plain write")
    _, *others = (answer for answer in run.arrivals if answer[3] == 1)
    arrivals = tuple(answer for answer in run.arrivals if answer not in others)
    assert not tlc.judge(replace(run, arrivals=arrivals)).is_behaviour


def test_what_a_node_reports_without_waiting_has_one_time() -> None:
    events = [
        event(0, 1000, "w", "ledger.created"),
        event(1, 1004, "b", "bookie.registered"),
        event(2, 1009, "w", "ensemble.set"),
    ]
    assert [(each.time_us, each.kind) for each in in_steps(events)] == [
        (1000, "ledger.created"),
        (1000, "ensemble.set"),
        (1004, "bookie.registered"),
    ]


def test_an_answer_begins_a_step() -> None:
    events = [event(0, 1000, "w", "add.acked"), event(1, 1005, "w", "add.acked")]
    assert [each.time_us for each in in_steps(events)] == [1000, 1005]
