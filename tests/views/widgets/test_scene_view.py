"""Tests how a view handles the messages from its page."""

from collections.abc import Callable

import pytest

from labkit.course.runs.timeline import timeline
from labkit.views.widgets import ClusterView, CrashMapView, MessageIdLineage, SpaceTime, Stripes
from labkit.views.widgets.scene_view import SceneView
from labkit.views.widgets.timeline import Palette, PlayedRun, TimelineView
from tests.views.widgets.crashes import broken
from tests.views.widgets.films import UNFENCED, crashed
from tests.views.widgets.lineages import in_a_batch

VIEWS: dict[str, Callable[[], SceneView]] = {
    "stands": Stripes,
    "of choices": lambda: MessageIdLineage(in_a_batch()),
    "crash map": lambda: CrashMapView(broken()),
    "of a run": lambda: SpaceTime(crashed()),
    "of a run that cannot be forked": lambda: SpaceTime(crashed().events),
    "timeline": lambda: timeline(UNFENCED),
}


@pytest.mark.sampled
@pytest.mark.parametrize("name", VIEWS)
def test_a_message_that_a_view_does_not_know_is_refused_in_its_notice(name: str) -> None:
    view = VIEWS[name]()
    film = view.film
    for message, why in (
        ({"do": "explode", "on": "b1", "seq": 3}, "no button to explode b1"),
        ({"set": "colour", "value": "red"}, "unknown message from its page: {'set': 'colour'"),
        ({"say": "something"}, "unknown message from its page: {'say': 'something'}"),
        ({}, "unknown message from its page: {}"),
    ):
        view.received(None, message, [])
        assert why in view.notice
    assert view.film is film
    view.received(None, {"do": "shown", "seq": 0}, [])
    assert view.notice == ""


def test_a_run_of_bare_events_refuses_a_fault() -> None:
    view = SpaceTime(crashed().events)
    view.received(None, {"do": "kill", "on": "b1", "seq": 9}, [])
    assert view.notice == "This view has no button to kill b1."


class Unforkable:
    """A run whose code raises an exception when it is forked."""

    events = crashed().events

    def fork(self, seq: int, fault: str, node: str) -> "Unforkable":
        raise ValueError("the code of this run is wrong")


def unforkable_timeline() -> TimelineView:
    view = timeline(UNFENCED, again=None)

    def fork(base: PlayedRun, seq: int, fault: object) -> PlayedRun:
        raise ValueError("the code of this run is wrong")

    return TimelineView(
        view.shown[0], palette=Palette((("crash", "Crash", ("node",)),), ("b1",), fork)
    )


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("view", "on"), [(lambda: ClusterView(Unforkable()), "b1"), (unforkable_timeline, "0:b1")]
)
def test_an_error_of_what_was_pressed_is_said_in_the_notice(
    view: Callable[[], SceneView], on: str
) -> None:
    shown = view()
    with pytest.raises(ValueError, match="the code of this run"):
        shown.received(None, {"do": "kill", "on": on, "seq": 40}, [])
    assert shown.notice == "The action failed: ValueError: the code of this run is wrong"
