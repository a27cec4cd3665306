"""Runs of real processes also conform to the public specification."""

from dataclasses import replace

import pytest

from tests.tla.live_runs import STORIES, live_run
from tests.tla.tlc import Tlc


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
