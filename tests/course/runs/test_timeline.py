"""Tests simulated runs in the timeline: verdicts, messages, and faults injected at an event."""

import pytest
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output

from labkit.course.checking.card import Card, CardState
from labkit.course.runs.timeline import RunCounterexample, forked, timeline
from labkit.course.runs.timeline_messages import messages_of
from labkit.system.check import broken, check_all
from labkit.views.widgets.timeline.steps import OTHER, first_difference, steps_of
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Pause
from labkit.worlds.sim.scenario.rerun_with_fault import CannotForkError, moment_of
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Recover, Write

QUIET = Scenario(workload=(Write(entries=3, every_ms=1.0), Recover(when=On("lac.advanced", nth=2))))
TOO_EARLY = Scenario(Cluster(3), (Write(entries=2),), variant="ack after one bookie")


@pytest.fixture(scope="module")
def quiet() -> Trace:
    return run(QUIET)


def within_reach(trace: Trace) -> list[int]:
    last = next(e.seq for e in trace.events if e.kind == "epilogue.started")
    return list(range(16, last))


def parting(trace: Trace, other: Scenario) -> tuple[int, str]:
    """Return the number of events before the first difference, and the kind of the first event that
    occurs only in `other`.
    """
    future = run(other)
    steps = steps_of(trace.events, future.events)
    same = first_difference(steps)
    alone = next(step for step in steps if step.which == OTHER)
    return same, future.events[alone.of_other - 1].kind


@pytest.mark.slow
def test_a_fault_strikes_just_after_its_event(quiet: Trace) -> None:
    for seq in within_reach(quiet):
        when = moment_of(quiet.scenario, quiet.events, seq)
        same, kind = parting(quiet, QUIET.with_fault(Pause("b0", 5.0, when)))
        assert kind == "node.paused"
        # If a node reports several events at once, the fault is injected after the last one.
        assert {e.time_us for e in quiet.events[seq:same]} <= {quiet.events[seq].time_us}
        assert {e.node for e in quiet.events[seq:same]} <= {quiet.events[seq].node}


def test_no_fault_strikes_before_the_cluster_is_up_or_after_the_epilogue_began(
    quiet: Trace,
) -> None:
    for seq in (0, 14, len(quiet.events) - 1):
        with pytest.raises(CannotForkError, match="faults can only be added"):
            moment_of(quiet.scenario, quiet.events, seq)


@pytest.mark.slow
def test_the_message_of_an_event_can_be_lost(quiet: Trace) -> None:
    messages = messages_of(quiet)
    kinds = {quiet.events[seq].kind for seq in messages}
    assert {"add.sent", "memtable.put", "add.acked", "read.sent", "read.done"} <= kinds
    for seq in within_reach(quiet):
        if seq in messages:
            _, kind = parting(quiet, forked(quiet, seq, {"name": "lose"}))
            assert kind == "message.lost"


def test_a_message_that_is_delayed_leads_to_its_event_later(quiet: Trace) -> None:
    put = next(e for e in quiet.events if e.kind == "memtable.put" and e.node == "b1")
    future = run(forked(quiet, put.seq, {"name": "delay", "extra_ms": 3}))
    later = next(e for e in future.events if e.kind == "memtable.put" and e.node == "b1")
    assert later.time_us == put.time_us + 3000


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"name": "crash", "node": "b1", "disk": "torn", "for_ms": 5}, "node.killed"),
        ({"name": "pause", "node": "w", "for_ms": 5}, "node.paused"),
        ({"name": "cut", "node": "w", "target": "zk", "direction": "out"}, "link.cut"),
        ({"name": "session", "node": "b2"}, "session.lost"),
        ({"name": "slow", "node": "b2", "extra_ms": 5, "for_ms": 5}, "disk.bad"),
        ({"name": "power", "disk": "lost", "for_ms": 5}, "node.killed"),
    ],
    ids=lambda value: value["name"] if isinstance(value, dict) else "",
)
def test_every_fault_of_the_palette_strikes(
    quiet: Trace, fields: dict[str, object], kind: str
) -> None:
    assert parting(quiet, forked(quiet, 30, fields))[1] == kind


def test_what_was_under_way_on_broken_connections_fails(quiet: Trace) -> None:
    scenario = forked(quiet, 30, {"name": "reset", "node": "w", "target": "b1"})
    assert "add.failed" in {event.kind for event in run(scenario).events}


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"name": "slow", "node": "w"}, "only bookies have disks"),
        ({"name": "crash", "node": "zk"}, "never fails"),
    ],
)
def test_a_fault_that_makes_no_sense_is_refused(
    quiet: Trace, fields: dict[str, object], why: str
) -> None:
    with pytest.raises(CannotForkError, match=why):
        forked(quiet, 30, fields)


def test_a_click_on_fork_runs_the_real_code_again() -> None:
    view = timeline(QUIET)
    for field, value in (("node", "w"), ("disk", "lost"), ("fork", True)):
        view._handle_custom_msg({"set": field, "value": value, "seq": 30}, [])
    first, other = view.shown
    assert other.title == "What if w crashes here?"
    assert first.events[:30] == other.events[:30]
    assert "its node died" in {event.detail for event in other.events}


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("act", "title"),
    [
        ("kill", "What if b0 crashes here?"),
        ("pause", "What if b0 pauses here?"),
        ("cut", "What if b0 is cut off here?"),
    ],
)
def test_the_title_of_a_fork_is_the_question_that_it_answers(act: str, title: str) -> None:
    view = timeline(QUIET)
    view._handle_custom_msg({"do": act, "on": "0:b0", "seq": 30}, [])
    assert view.shown[1].title == title


def test_the_notice_says_why_a_fork_is_not_possible() -> None:
    view = timeline(QUIET)
    view._handle_custom_msg({"set": "fork", "value": True, "seq": 1}, [])
    assert "after the cluster is up" in view.notice


def test_it_opens_where_the_promise_broke() -> None:
    view = timeline(TOO_EARLY, promise="AckQuorumIsReached")
    (first, *_) = view.shown[0].broken
    assert first.name == "AckQuorumIsReached"
    assert view.shown[0].events[view.at - 1].seq == first.seq


def test_another_future_is_titled_by_what_is_different() -> None:
    view = timeline(
        QUIET, other=QUIET.with_fault(Pause("w", 5.0, At(12))).with_decision("lose w>b0 1", 1)
    )
    assert view.shown[1].title == "With Pause(node='w', for_ms=5.0), lose w>b0 1: 1"


def test_bare_events_can_be_opened_but_not_forked(quiet: Trace) -> None:
    view = timeline(list(quiet.events))
    assert not {"fault", "fork"} & {each["name"] for each in view.controls}
    assert view.shown[0].events == quiet.events


def test_a_card_shows_the_run_that_was_found_under_it() -> None:
    trace = run(TOO_EARLY)
    found = RunCounterexample(trace, broken(check_all(trace))[0])
    card = Card("break.it", CardState.REFUSED, "The rule.", found)
    InteractiveShell.instance()
    with capture_output() as shown:
        card._ipython_display_()
    words, picture = (output.data for output in shown.outputs)
    assert words["text/plain"].startswith("✘ break.it: not yet. The rule.\nAck")
    assert picture["text/plain"].startswith("Timeline: ")
    assert picture["text/html"].startswith("<img ")


def test_a_graders_page_has_a_still_picture_of_the_run() -> None:
    trace = run(TOO_EARLY)
    (verdict, *_) = broken(check_all(trace))
    card = Card("step", CardState.REFUSED, "the rule", RunCounterexample(trace, verdict))
    assert "data:image/svg+xml" in card.still_counterexample()
    assert verdict.reason.split()[0] in card.still_counterexample()
