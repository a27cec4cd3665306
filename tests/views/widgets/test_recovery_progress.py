"""Tests the picture of a recovery's progress, and that it matches the run."""

from collections.abc import Sequence
from dataclasses import asdict, replace

import pytest

from labkit.course.runs.repair_runs import worker_dies
from labkit.system.trace.events import Event, Fields
from labkit.views.widgets.recovery_progress import RecoveryProgress
from labkit.views.widgets.recovery_progress.chart import MAX_LEDGERS, chart_of
from labkit.views.widgets.recovery_progress.fold import Progress, first_bookies, steps_of
from labkit.views.widgets.recovery_progress.state import RecoveryState, RepairStep
from labkit.worlds.sim.run import run
from tests.views.widgets.films import words_in
from tests.views.widgets.recoveries import FAULTS, recovery
from tests.views.widgets.scripted import Script
from tests.views.widgets.test_all_views import box_of, placed


def state_after(
    steps: Sequence[RepairStep], bookies: Sequence[str], count: int | None = None
) -> RecoveryState:
    """Return the state after the first `count` steps, or after all of them."""
    progress = Progress(bookies)
    for step in steps[:count]:
        progress.apply(step)
    return progress.state()


def states(name: str) -> list[RecoveryState]:
    events = recovery(name).events
    steps, bookies = steps_of(events), first_bookies(events)
    return [state_after(steps, bookies, count) for count in range(len(steps) + 1)]


LANES = {
    "a lost bookie": ("lost for good", "b1", "up, down down, gone gone, lost considered lost"),
    "a bookie that comes back in time": ("restart", "b1", "up, down down, gone gone, up"),
    **{f"ledger {n} of the latter": ("restart", f"ledger {n}", "whole") for n in range(3)},
    "a closed ledger": (
        *("lost for good", "ledger 0"),
        "whole, marked marked, locked b0 copying, whole done",
    ),
    "an open ledger is postponed": (
        *("lost for good", "ledger 2"),
        "whole, marked marked, locked b2 copying, waiting b2 waiting, locked b2 copying,"
        " whole done",
    ),
    "a dead auditor keeps its role until its session ends": (
        *("auditor dies in mid-round", "auditor"),
        "none, auditor b0, dead b0 ✕, none, auditor b2",
    ),
    "the lock of a dead worker ends with its session": (
        *("worker dies while it copies", "ledger 0"),
        "whole, marked marked, locked b0 copying, marked marked, locked b0 copying, whole done",
    ),
}
"""The look and the label of each section of a lane, by run and lane."""


@pytest.mark.parametrize(("name", "which", "sections"), LANES.values(), ids=LANES)
def test_a_lane_shows_each_stage_in_turn(name: str, which: str, sections: str) -> None:
    events = recovery(name).events
    lanes = chart_of(steps_of(events), first_bookies(events)).lanes
    lane = next(each for each in lanes if each.name == which)
    assert ", ".join(f"{span.look} {span.label}".strip() for span in lane.spans) == sections


def test_a_ledger_that_lacks_copies_is_not_called_fully_replicated_when_its_mark_is_gone() -> None:
    hole = run(replace(worker_dies(10), variant="metadata before the copy"))
    assert repr(RecoveryProgress(hole)).endswith("ledger 0 at 1 of 2 copies, not marked")
    repaired = run(worker_dies(10))
    assert repr(RecoveryProgress(repaired)).endswith("ledger 0 at 2 of 2 copies, fully replicated")


def test_each_stage_of_a_repair_has_its_label_in_the_picture_and_no_second_clock() -> None:
    words = words_in(RecoveryProgress(recovery("lost for good")).svg()).splitlines()
    assert words.count("marked") == 3
    assert sum(each.endswith("copying") for each in words) == 4
    assert words.count("done") >= 2
    assert not any(each.endswith(" ms") for each in words)


def test_two_workers_repair_two_ledgers_at_once() -> None:
    holders = [
        {ledger.holder for ledger in state.ledgers.values() if ledger.stage == "locked"}
        for state in states("lost for good")
    ]
    assert any(len(each) == 2 for each in holders)


def test_copies_come_back_one_by_one_before_the_metadata_names_their_bookie() -> None:
    counts = [
        (sum(bookie.durable for bookie in fragment.bookies), fragment.min_copies, fragment.targets)
        for state in states("lost for good")
        if 0 in state.ledgers and state.ledgers[0].stage == "locked"
        for fragment in state.ledgers[0].fragments
    ]
    coming = [count for count in counts if count[2]]
    assert coming[:2] == [(24, 1, (("b3", 1),)), (24, 1, (("b3", 2),))]
    assert coming[7] == (24, 1, (("b3", 8),))
    assert counts[-1] == (24, 2, ())


@pytest.mark.parametrize("name", FAULTS)
def test_at_the_end_every_fragment_has_all_its_copies(name: str) -> None:
    for ledger in states(name)[-1].ledgers.values():
        assert ledger.stage == "whole"
        for fragment in ledger.fragments:
            assert all(bookie.durable == bookie.expected for bookie in fragment.bookies)
            assert fragment.min_copies == ledger.write_quorum


@pytest.mark.parametrize("name", FAULTS)
def test_every_step_except_a_described_one_changes_the_picture(name: str) -> None:
    events = recovery(name).events
    steps = steps_of(events)
    told = ("recovery.started", "recovery.ended", "ledger.created", "node.killed")
    found = [asdict(state) for state in states(name)]
    for state in found:
        del state["step_count"]
    for step, before, after in zip(steps, found, found[1:], strict=False):
        is_of_no_ledger_yet = not after["ledgers"]
        if step.event.kind not in told and not is_of_no_ledger_yet:
            assert before != after or step.event.kind == "journal.synced", step


def test_the_chart_covers_the_whole_run_and_each_wait_has_its_length() -> None:
    events = recovery("lost for good").events
    chart = chart_of(steps_of(events), first_bookies(events))
    assert chart.edges[0] == 0
    assert chart.edges[-1] == 1
    assert list(chart.edges) == sorted(chart.edges)
    assert [round(us / 1e6) for _, us in chart.waits] == [1, 3, 10, 30]
    words = words_in(RecoveryProgress(recovery("lost for good")).svg())
    assert "» 10.0 s\n" in words
    assert "One column per step, regardless of its duration; shaded columns are waits." in words


def many_ledgers() -> list[Event]:
    """Create more ledgers than the chart has lanes, and mark the last one."""
    sizes = Fields(ensemble_size=2, write_quorum=2, ack_quorum=1)
    rows = [
        ("w", kind, ledger, 0, fields)
        for ledger in range(MAX_LEDGERS + 3)
        for kind, fields in (
            ("ledger.created", sizes),
            ("ensemble.set", Fields(ensemble=("b0", "b1"))),
        )
    ]
    rows.append(("b0", "ledger.underreplicated", MAX_LEDGERS + 2, -1, Fields(bookies=("b1",))))
    return [
        Event(seq, seq, node, kind, -1, ledger, entry, **fields)
        for seq, (node, kind, ledger, entry, fields) in enumerate(rows)
    ]


def test_of_many_ledgers_the_marked_ones_are_drawn_in_the_chart_and_below_it() -> None:
    events = many_ledgers()
    chart = chart_of(steps_of(events), [])
    drawn = [each.name for each in chart.lanes if each.kind == "ledger"]
    assert len(drawn) == MAX_LEDGERS
    assert drawn[-1] == f"ledger {MAX_LEDGERS + 2}"
    assert chart.hidden_ledger_count == 3
    svg = RecoveryProgress(events).svg()
    assert "Not shown: 3 more ledgers." in svg
    for name in (f"ledger {ledger}" for ledger in range(MAX_LEDGERS + 3)):
        assert words_in(svg).splitlines().count(name) == 2 * (name in drawn)


def test_the_bookies_of_a_wide_ensemble_do_not_cover_the_number_of_copies() -> None:
    script = Script(7, 7, 3, 2)
    script.add(0)
    marks = list(placed(RecoveryProgress(script.settled()).scene()))
    [(words, x, y)] = [each for each in marks if each[0].key == "least"]
    left, _, _, _ = box_of(words, x, y)
    frames = [box_of(*each) for each in marks if each[0].key == "frame"]
    assert len(frames) == 7
    assert all(right <= left for _, right, _, _ in frames)


def test_of_very_many_copies_only_some_are_steps_and_all_are_counted() -> None:
    rows = [
        ("w", "ledger.created", -1, Fields(ensemble_size=1, write_quorum=1, ack_quorum=1)),
        ("w", "ensemble.set", 0, Fields(ensemble=("b0",))),
        ("w", "ledger.closed", 1999, Fields()),
        ("b2", "replication.started", -1, Fields()),
    ]
    for entry in range(2000):
        rows.append(("b1", "journal.synced", entry, Fields()))
        rows.append(("b2", "entry.copied", entry, Fields(peer="b1")))
    rows.append(("b2", "ensemble.set", 0, Fields(ensemble=("b1",))))
    events = [
        Event(seq, seq, node, kind, -1, 7, entry, **fields)
        for seq, (node, kind, entry, fields) in enumerate(rows)
    ]
    steps = steps_of(events)
    assert len(steps) < 400
    (fragment,) = state_after(steps, []).ledgers[7].fragments
    assert [(each.name, each.durable, each.expected) for each in fragment.bookies] == [
        ("b1", 2000, 2000)
    ]


def test_the_picture_tells_the_chosen_moment() -> None:
    trace = recovery("lost for good")
    copied = [e.seq for e in trace.events if e.kind == "journal.synced" and e.ledger == 0]
    view = RecoveryProgress(trace, at=copied[-1])
    words = words_in(view.svg())
    for line in ("b3: 8", "1 of 2 copies", "b1 ✕", "b0 is copying", "» 10.0 s", "considered lost"):
        assert line in words
    assert "ledger 0 at 1 of 2 copies, b0 is copying" in repr(view)


def test_what_is_still_to_come_lies_behind_a_curtain_that_only_goes_right() -> None:
    edges = []
    for beat in RecoveryProgress(recovery("lost for good")).reel.beats:
        cover = next(mark for mark, _, _ in placed(beat.scene) if mark.key == "cover")
        edges.append((cover.attributes["x"], float(cover.attributes["width"])))
    assert [x for x, _ in edges] == sorted(x for x, _ in edges)
    assert edges[0][1] > 700
    assert edges[-1][1] < 10


def test_a_legend_has_only_what_has_no_words_in_the_picture() -> None:
    legend = RecoveryProgress(recovery("lost for good")).legend()
    assert legend
    assert sum(mark.tag == "text" for mark, _, _ in placed(legend)) <= 5
