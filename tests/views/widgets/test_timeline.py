"""Tests the Python side of the timeline: the run's state, two runs side by side, and forks."""

import pytest

from labkit.system.model.errors import LabkitError
from labkit.system.trace.cluster_state import ClusterFold
from labkit.system.trace.events import Event
from labkit.views.widgets.timeline import BrokenPromise, Palette, PlayedRun, TimelineView
from labkit.views.widgets.timeline.fold import NodeState, RunState
from labkit.views.widgets.timeline.steps import BOTH, FIRST, OTHER, first_difference, steps_of
from labkit.views.widgets.timeline.story import EventList
from tests.views.widgets.films import marks_of, titles_of, words_in


def events(*rows: tuple[object, ...]) -> list[Event]:
    """Return events from rows of node, kind, ledger, entry, peer and other fields, 1 µs apart."""
    filled = [(*row, *(-1, -1, "", {})[len(row) - 2 :]) for row in rows]
    return [
        Event(seq, seq, node, kind, -1, ledger, entry, peer, **fields)  # type: ignore[arg-type]
        for seq, (node, kind, ledger, entry, peer, fields) in enumerate(filled)
    ]


def surroundings(told: list[Event], upto: int | None = None) -> RunState:
    """Return the state after the first `upto` events, or after all of them."""
    cluster = ClusterFold()
    around = RunState(cluster)
    for event in told[:upto]:
        cluster.apply(event)
        around.take(event)
    return around


def test_writer_and_recoverer_are_told_apart() -> None:
    told = surroundings(
        events(
            ("w", "step.started", -1, -1, "", {"step": "write 2 entries to ledger 0"}),
            ("w", "ledger.created", 7),
            ("w", "add.pushed", 7, 0),
            ("w", "add.pushed", 7, 1),
            ("w", "lac.advanced", 7, 0),
            ("r", "recovery.started", 7),
            ("r", "recovery.covered", 7, 0),
        )
    )
    assert told.nodes["w"] == NodeState("write 2 entries to ledger 0", 1, 0)
    assert told.nodes["r"].doing == "continues reading at entry 1"


def test_cut_links_and_bad_disks_are_there_until_they_heal() -> None:
    told = events(
        ("w", "link.cut", -1, -1, "b0"),
        ("b1", "disk.bad", -1, -1, "", {"fault": "slow"}),
        ("b0", "session.lost"),
        ("w", "link.healed", -1, -1, "b0"),
        ("b1", "disk.good", -1, -1, "", {"fault": "slow"}),
        ("b0", "bookie.registered"),
    )
    before, after = surroundings(told, 3), surroundings(told)
    assert list(before.cuts) == ["w>b0"]
    assert before.nodes["b1"].faults == ("disk slow",)
    assert before.nodes["b0"].faults == ("session expired",)
    assert not after.cuts
    assert not any(node.faults for node in after.nodes.values())


def test_events_may_begin_between_a_cut_and_its_healing() -> None:
    told = events(("w", "add.sent", 7, 0, "b0"), ("w", "link.healed", -1, -1, "b0"))
    assert not surroundings(told).cuts
    assert TimelineView(PlayedRun(told)).at == 2


def test_what_is_the_same_in_two_runs_is_one_step() -> None:
    first = events(("w", "add.sent"), ("b0", "memtable.put"), ("w", "ledger.closed"))
    other = [first[0], first[1]._replace(kind="node.killed"), first[2]]
    steps = steps_of(first, other)
    assert [step.which for step in steps] == [BOTH, OTHER, FIRST, BOTH]
    assert (steps[-1].of_first, steps[-1].of_other) == (3, 3)
    assert first_difference(steps) == 1


def test_a_fault_stands_before_what_both_runs_do_at_its_time() -> None:
    first = [Event(0, 5, "b0", "memtable.put"), Event(1, 5, "b1", "memtable.put")]
    other = [Event(0, 5, "w", "node.paused"), *(each._replace(seq=each.seq + 1) for each in first)]
    assert [step.which for step in steps_of(first, other)] == [OTHER, BOTH, BOTH]


def test_a_run_that_goes_on_longer_has_the_last_steps_alone() -> None:
    first = events(("w", "add.sent"), ("w", "add.acked"))
    assert [step.which for step in steps_of(first, first[:1])] == [BOTH, FIRST]
    assert [step.which for step in steps_of(first[:1], first)] == [BOTH, OTHER]


LIFE = events(
    ("w", "ledger.created", 7, -1, "", {"ensemble_size": 2, "write_quorum": 2, "ack_quorum": 2}),
    ("w", "ensemble.set", 7, 0, "", {"ensemble": ("b0", "b1")}),
    ("w", "add.pushed", 7, 0),
    ("w", "add.sent", 7, 0, "b0"),
    ("b0", "memtable.put", 7, 0),
    ("b0", "node.killed"),
)
BROKEN = BrokenPromise("AckFollowsSync", "An ack follows a sync.", "At 4 ms", "it did not.", 4)


def test_it_opens_where_the_first_promise_broke() -> None:
    view = TimelineView(PlayedRun(LIFE, words="✘ broken: AckFollowsSync", broken=[BROKEN]))
    assert view.at == 5
    assert "after 5; b0 has entry 0 of ledger 7 in its memtable" in repr(view)
    words = words_in(view.svg())
    assert "✘ a bookie acknowledged before it synced\nAt 4 ms: it did not." in words
    assert "? w sent 0" in words


def test_it_opens_at_the_event_that_is_asked_for() -> None:
    assert TimelineView(PlayedRun(LIFE, broken=[BROKEN]), at=2).at == 3


def test_two_runs_open_at_their_first_difference() -> None:
    other = [*LIFE[:4], *events(*[("x", "node.paused")] * 5)[4:]]
    view = TimelineView(PlayedRun(LIFE), PlayedRun(other, title="With a pause"))
    assert view.at == 5
    assert "With a pause" in words_in(view.svg())


def forking(view_of: PlayedRun) -> TimelineView:
    def fork(base: PlayedRun, seq: int, fault: object) -> PlayedRun:
        if seq == 0:
            raise LabkitError("not there")
        return PlayedRun(base.events[:seq], title=f"{base.title}, {fault}")

    return TimelineView(view_of, palette=Palette([("crash", "Crash", ("node",))], ["b0"], fork))


def test_a_fork_is_shown_beside_and_can_be_gone_on_from() -> None:
    view = forking(PlayedRun(LIFE))
    press(view, "fork", 4)
    assert [len(run.events) for run in view.shown] == [6, 4]
    assert view.shown[1].title == "This run, {'name': 'crash', 'node': 'b0'}"
    assert view.at == 5
    assert [each["name"] for each in view.controls][-2:] == ["keep", "undo"]
    press(view, "keep", 4)
    assert [len(run.events) for run in view.shown] == [4]
    assert view.at == 4
    press(view, "fork", 2)
    assert len(view.shown[1].events) == 2


def press(view: TimelineView, name: str, seq: int) -> None:
    """Press a button below the picture while it shows the step with this number."""
    view._handle_custom_msg({"set": name, "value": True, "seq": seq}, [])


def test_a_bookie_is_killed_by_its_button_in_the_picture() -> None:
    view = forking(PlayedRun(LIFE))
    view._handle_custom_msg({"do": "kill", "on": "0:b0", "seq": 4}, [])
    assert "'name': 'crash', 'disk': 'kept', 'node': 'b0'" in view.shown[1].title
    titles = titles_of(view.scene())
    assert titles.count("Undo the kill of b0") == 1
    view._handle_custom_msg({"do": "undo", "on": "1:b0", "seq": 4}, [])
    assert len(view.shown) == 1


def test_the_bars_of_an_event_tell_whose_it_is() -> None:
    view = forking(PlayedRun(LIFE))
    press(view, "fork", 2)
    rows = [mark for mark in marks_of(view.scene()) if mark.attributes.get("data-act") == "seek"]
    bars = [{each.key for each in mark.children if each.key.startswith("run ")} for mark in rows]
    assert bars[0] == {"run 0", "run 1"}
    assert {"run 0"} in bars


def test_the_list_shows_the_events_that_were_asked_for() -> None:
    view = TimelineView(PlayedRun(LIFE))
    view._handle_custom_msg({"set": "of kind", "value": "add.", "seq": 0}, [])
    listed = view.current_picture.event_list.listed
    assert [LIFE[at].kind for at in listed] == ["add.pushed", "add.sent"]


def test_a_field_of_the_palette_makes_no_new_film() -> None:
    view = forking(PlayedRun(LIFE))
    film = view.film
    view._handle_custom_msg({"set": "node", "value": "b0", "seq": 0}, [])
    assert view.film is film


def test_a_fork_of_the_other_future_makes_that_the_first() -> None:
    view = forking(PlayedRun(LIFE))
    other = [*LIFE[:4], *events(*[("x", "node.paused")] * 5)[4:]]
    view.put(PlayedRun(LIFE), PlayedRun(other))
    press(view, "fork", 4)
    assert [len(run.events) for run in view.shown] == [5, 4]


def test_an_impossible_fork_is_reported_and_changes_nothing() -> None:
    view = forking(PlayedRun(LIFE))
    press(view, "fork", 0)
    assert view.notice == "not there"
    assert len(view.shown) == 1


def kinds_behind(first: list[Event], other: list[Event], seq: int) -> list[str]:
    """Return the kinds of events that led to an event of the second of two runs."""
    steps = steps_of(first, other)
    runs = [PlayedRun(first), PlayedRun(other)]
    told = EventList(runs, ("original", "fork"), steps, range(len(steps)))
    return [told.event(n)[1].kind for n in told.lineage(told.step_of(1, seq))]


def test_causes_of_a_fork_are_looked_up_by_the_numbers_of_the_fork() -> None:
    first = events(("w", "add.pushed", 7, 0), ("w", "add.sent", 7, 0), ("b0", "memtable.put", 7, 0))
    pushed, sent, put = (event._replace(cause=event.seq - 1) for event in first)
    fault = Event(0, -1, "b1", "node.paused")
    shifted = [each._replace(seq=each.seq + 1, cause=each.seq) for each in (pushed, sent)]
    synced = put._replace(seq=3, cause=2, kind="journal.synced")
    other = [fault, shifted[0]._replace(cause=-1), shifted[1], synced]
    found = kinds_behind([pushed, sent, put], other, 3)
    assert found == ["add.pushed", "add.sent", "journal.synced"]


@pytest.mark.timeout(20)
def test_causes_of_a_fork_that_lacks_an_event_make_no_circle() -> None:
    first = events(("w", "add.pushed"), ("w", "lac.advanced"), ("w", "add.sent"))
    first[2] = first[2]._replace(cause=1)
    other = [first[0], first[2]._replace(seq=1, cause=0), Event(2, 3, "w", "add.acked", 1)]
    assert kinds_behind(first, other, 2) == ["add.pushed", "add.sent", "add.acked"]


def test_only_faults_are_listed_as_faults() -> None:
    run = events(
        ("w", "message.lost", -1, -1, "b0", {"message": "w>b0 1"}),
        ("p", "message.acked"),
        ("b0", "disk.bad", -1, -1, "", {"fault": "slow"}),
        ("b0", "disk.good", -1, -1, "", {"fault": "slow"}),
        ("p", "message.found"),
        ("b0", "bookie.formatted"),
    )
    view = TimelineView(PlayedRun(run))
    view._handle_custom_msg({"set": "of kind", "value": "!", "seq": 0}, [])
    listed = view.current_picture.event_list.listed
    assert [run[at].kind for at in listed] == ["message.lost", "disk.bad", "bookie.formatted"]
