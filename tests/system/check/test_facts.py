"""Test which events the facts consider to have happened before a call returned."""

import pytest

from labkit.system.check.facts import Facts
from labkit.system.trace.answers import TopicUnloaded
from tests.system.check.story import Story


@pytest.mark.parametrize(("at", "seq"), [(0, 0), (1, 0), (2, 1), (5, 4)])
def test_a_call_returned_after_the_events_before_it(at: int, seq: int) -> None:
    facts = Facts(Story().add(0).events)
    assert facts.before(TopicUnloaded(at, "broker", "t")).seq == seq


def test_a_call_returned_after_the_last_event_that_the_trace_still_has() -> None:
    events = [event for event in Story().add(0).events if event.seq != 3]
    assert Facts(events).before(TopicUnloaded(4, "broker", "t")).seq == 2
