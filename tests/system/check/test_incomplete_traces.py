"""Test that traces with missing events are judged, and that correct runs are not rejected because
of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.system.check import Outcome, broken, check_all
from labkit.system.check.promises.health import EveryErrorIsExpected
from labkit.system.check.promises.specification import OnlyValidFragments
from labkit.system.trace.answers import Answer
from labkit.system.trace.events import Event
from labkit.worlds.sim.explore.scenarios.random_scenarios import random_scenario
from labkit.worlds.sim.explore.scenarios.random_topic_scenarios import random_topic_scenario
from labkit.worlds.sim.run import run
from tests.parquet_events import read_parquet
from tests.system.check.commands import Judged, judged_runs
from tests.system.check.story import B0, B1, B3, R, Story, W
from tests.system.check.topic import Topic

RECORDED_RUN = Path(__file__).parents[3] / "data" / "bookie-lost-trace.parquet"
RUNS = [*judged_runs()]
STORIES = [run.story for run in RUNS]
LEDGERS_KEPT = [
    run
    for run in RUNS
    if run.outcome is Outcome.VALID
    # The checks of topics expect the whole trace of a simulated run.
    if not isinstance(run.story, Topic) and not run.story.answers
    # A disk may have been damaged before the trace begins.
    if run.check is not EveryErrorIsExpected
]


@dataclass(frozen=True)
class Incomplete:
    """Some of the events of a run, and everything that its calls returned."""

    events: Sequence[Event]
    answers: Sequence[Answer] = ()


@given(st.data())
def test_a_trace_that_begins_late_can_be_judged(data: st.DataObject) -> None:
    story = data.draw(st.sampled_from(STORIES))
    events = story.events
    first = data.draw(st.integers(0, max(0, len(events) - 1)))
    check_all(Incomplete(events[first:], story.answers))


@given(st.data())
def test_a_trace_that_lacks_an_event_can_be_judged(data: st.DataObject) -> None:
    story = data.draw(st.sampled_from([story for story in STORIES if len(story.rows) > 1]))
    events = story.events
    missing = data.draw(st.integers(0, len(events) - 1))
    check_all(Incomplete([event for event in events if event.seq != missing], story.answers))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_incomplete_traces_of_simulated_runs_can_be_judged(seed: int) -> None:
    for trace in (run(random_scenario(seed)), run(random_topic_scenario(seed))):
        events = trace.events
        for place in range(0, len(events), 1 + len(events) // 25):
            check_all(Incomplete(events[place:], trace.answers))
            check_all(Incomplete((*events[:place], *events[place + 1 :]), trace.answers))


@pytest.mark.slow
def test_incomplete_traces_of_the_recorded_run_can_be_judged() -> None:
    events = read_parquet(RECORDED_RUN)
    for place in range(0, len(events), len(events) // 10):
        check_all(events[place:])
        check_all(events[:place] + events[place + 1 :])


@pytest.mark.parametrize("run", LEDGERS_KEPT, ids=lambda run: run.check.__name__)
def test_a_correct_run_is_not_rejected_because_its_trace_begins_late(run: Judged) -> None:
    events = run.story.events
    for first in range(len(events) + 1):
        assert broken(check_all(events[first:], [run.check])) == []


def test_a_writer_that_learns_late_of_a_change_is_judged_though_the_trace_lacks_all_segments() -> (
    None
):
    """The writer was paused while its ledger was recovered; the trace begins before the close."""
    story = Story(whole=False).tell(R, "recovery.ended", 1).close(1, R)
    story.tell(W, "ensemble.set", 2, ensemble=(B0, B1, B3))
    assert broken(check_all(story)) == []
    assert story.verdict(OnlyValidFragments).outcome is Outcome.UNKNOWN
