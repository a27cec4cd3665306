"""Tests the space-time diagram: the lanes, messages and breaks that it derives from a trace."""

import re
from collections.abc import Sequence
from itertools import combinations, pairwise

import pytest

from labkit.system.check import Verdict, broken, check_all
from labkit.system.trace.events import Event
from labkit.system.trace.kinds import KINDS
from labkit.views.widgets.drawing.scene import Mark
from labkit.views.widgets.space_time import SpaceTime
from labkit.views.widgets.space_time.arrows import Point, y_of
from labkit.views.widgets.space_time.labels import Box, LabelPlace, place_labels
from labkit.views.widgets.space_time.layout import MAX_ROW_GAP, ShownPart, causal_chain
from labkit.views.widgets.space_time.model import ALWAYS, NEVER, Diagram, diagram_of
from labkit.views.widgets.space_time.words import SHOWN_KINDS, label_of, ranges_of, word_of
from labkit.worlds.sim.run import run
from labkit.worlds.sim.scenario.faults import Crash, Partition, Pause
from labkit.worlds.sim.scenario.scenario import Scenario
from labkit.worlds.sim.settings.cluster import Cluster
from labkit.worlds.sim.settings.triggers import At, On
from labkit.worlds.sim.trace import Trace
from labkit.worlds.sim.workload.steps import Read, Recover, Write
from tests.views.widgets.films import crashed, marks_of, words_in
from tests.views.widgets.test_all_views import box_of, placed

WRITE = Write(entries=6, window=2)
RECOVER = Recover(when=On("lac.advanced", 4))


def ran(*faults: object, steps: Sequence[object] = (WRITE,), **more: object) -> Trace:
    scenario = Scenario(
        Cluster(4),
        tuple(steps),  # type: ignore[arg-type]
        faults,  # type: ignore[arg-type]
        ends_in_power_cut=False,
        **more,  # type: ignore[arg-type]
    )
    return run(scenario)


def before_epilogue(trace: Trace) -> list[Event]:
    end = next(e.seq for e in trace.events if e.kind == "epilogue.started")
    return list(trace.events[:end])


def diagram(trace: Trace) -> Diagram:
    return diagram_of(before_epilogue(trace))


def of_an_entry_lost_by_a_bug() -> tuple[Trace, Verdict]:
    """Return a run that breaks a promise, and the verdict."""
    dies = [Crash(name, when=On("add.sent", 1)) for name in ("b0", "b1")]
    pair = Write(entries=3, ensemble=2, write_quorum=2, ack_quorum=2)
    trace = ran(*dies, steps=(pair,), variant="ensemble change from the wrong entry")
    return trace, broken(check_all(trace))[0]


def labels(svg: str) -> list[str]:
    return words_in(svg).splitlines()


def test_lanes_are_writers_then_bookies_then_other_clients_then_metadata() -> None:
    made = diagram(ran(Crash("b1", when=On("lac.advanced", 2)), steps=(WRITE, RECOVER)))
    assert made.lanes == ("w", "b0", "b1", "b2", "b3", "r", "metadata")


def test_every_request_is_a_message_with_its_ends_in_time_order() -> None:
    trace = ran(steps=(WRITE, RECOVER))
    made = diagram(trace)
    requests = ("add.sent", "fence.sent", "read.sent")
    assert len(made.messages) == sum(e.kind in requests for e in made.events)
    for message in made.messages:
        ends = [message.sent, message.arrived, message.left, message.answered]
        times = [made.events[at].time_us for at in ends if at >= 0]
        assert times == sorted(times)
        assert message.end in ("done", "refused")
        arrived = [at for at in ends[1:3] if at >= 0]
        assert all(made.events[at].node == made.lanes[message.target] for at in arrived)


def test_an_add_leaves_when_it_is_synced_and_a_fence_when_that_is() -> None:
    made = diagram(ran(steps=(WRITE, RECOVER)))
    answered = [m for m in made.messages if m.what in ("add", "fence") and m.end == "done"]
    assert answered
    assert {made.events[message.left].kind for message in answered} == {"journal.synced"}


def test_the_sync_of_an_explicit_lac_is_not_shown_as_that_of_a_fence() -> None:
    rows = [
        ("r", "fence.sent", {"peer": "b0"}),
        ("b0", "journal.lac_appended", {"file": "1.txn", "offset": 512}),
        ("b0", "ledger.fenced", {}),
        ("b0", "journal.fence_appended", {"file": "1.txn", "offset": 1024}),
        ("b0", "journal.synced", {"file": "1.txn", "offset": 512}),
        ("b0", "journal.synced", {"file": "1.txn", "offset": 1024}),
        ("r", "fence.answered", {"peer": "b0"}),
    ]
    events = [
        Event(seq, seq, node, kind, ledger=0, **columns)  # type: ignore[arg-type]
        for seq, (node, kind, columns) in enumerate(rows)
    ]
    made = diagram_of(events)
    synced = [event.seq for event in made.events if event.kind == "journal.synced"]
    assert synced == [5]
    [message] = made.messages
    assert made.events[message.left].seq == 5


def test_a_recovery_does_not_take_over_the_messages_of_a_paused_writer() -> None:
    pause = Pause("w", 20.0, On("lac.advanced", 4))
    made = diagram(ran(pause, steps=(Write(entries=8, window=2, every_ms=0.5), RECOVER)))
    paused = next(e.time_us for e in made.events if e.kind == "node.paused")
    resumed = next(e.time_us for e in made.events if e.kind == "node.resumed")
    old = [m for m in made.messages if m.source == 0 and made.events[m.sent].time_us <= paused]
    late = [m for m in old if m.left >= 0 and made.events[m.answered].time_us >= resumed]
    assert late
    assert all(made.events[m.left].time_us < paused + 2000 for m in late)


def test_what_a_dead_bookie_was_sent_is_lost_and_its_lane_is_broken() -> None:
    made = diagram(ran(Crash("b1", down_ms=5.0, when=On("lac.advanced", 2))))
    lost = [m for m in made.messages if m.end in ("", "silence") and m.arrived < 0]
    assert {made.lanes[message.target] for message in lost} == {"b1"}
    [gap] = made.breaks
    assert (made.lanes[gap.lane], gap.state) == ("b1", "down")
    assert made.events[gap.begin].kind == "node.killed"


def test_a_lost_fence_never_arrives_though_a_read_fences_later() -> None:
    # The read is sent first, so that the connection is open when the fencing request is sent.
    steps = Write(entries=4, close=False), Read(when=At(20.0)), Recover(when=At(30.0))
    trace = ran(steps=steps, decisions={"lose r>b2 3": 1.0})
    made = diagram(trace)
    to_b2 = [m for m in made.messages if made.lanes[m.target] == "b2" and m.what == "fence"]
    assert [message.arrived for message in to_b2] == [-1]
    assert any(e.kind == "ledger.fenced" and e.node == "b2" for e in made.events)


def test_only_a_node_cut_off_from_all_others_has_a_broken_lane() -> None:
    made = diagram(ran(Partition(("b2",), for_ms=3.0, when=On("lac.advanced", 2))))
    [gap] = made.breaks
    assert (made.lanes[gap.lane], gap.state) == ("b2", "cut off")
    assert made.events[gap.end].kind == "link.healed"
    one_sided = diagram(ran(Partition(("w",), ("b2",), when=On("lac.advanced", 2))))
    assert [each for each in one_sided.breaks if one_sided.lanes[each.lane] == "w"] == []


def test_a_chain_holds_what_led_to_an_entry_and_nothing_of_others() -> None:
    made = diagram(ran())
    chain = causal_chain(made, 3)
    kinds = {made.events[at].kind for at in chain}
    assert {"add.pushed", "memtable.put", "journal.synced", "add.acked", "lac.advanced"} <= kinds
    assert {made.events[at].entry for at in chain} <= {3, -1}


def test_only_chosen_entries_are_shown_and_what_is_about_none() -> None:
    made = diagram(ran())
    choice = ShownPart((2, 3), (0, 1e9))
    shown = [e for at, e in enumerate(made.events) if choice.shows(made, at)]
    assert {e.entry for e in shown if e.kind == "memtable.put"} == {2, 3}
    assert any(e.kind == "ledger.closed" for e in shown)
    assert set(made.about) <= {ALWAYS, NEVER, *range(6)}


def test_a_quiet_time_takes_one_row_and_its_length_stands_beside_it() -> None:
    trace = ran(Pause("b1", 3000.0, On("lac.advanced", 2)), steps=(WRITE, Read(when=At(5000.0))))
    view = SpaceTime(trace)
    assert any(re.fullmatch(r"⋮ \d\.\d s", text) for text in labels(view.svg()))


RUNS = pytest.mark.parametrize(
    "trace",
    [
        ran(Crash("b1", when=On("lac.advanced", 2)), steps=(WRITE, RECOVER)),
        ran(Pause("w", 20.0, On("lac.advanced", 4)), steps=(WRITE, RECOVER)),
        ran(Partition(("b2",), for_ms=3.0, when=On("lac.advanced", 2))),
    ],
    ids=["crash", "pause", "cut"],
)


@pytest.mark.sampled
@RUNS
def test_arrows_are_straight_and_below_the_labels(trace: Trace) -> None:
    view = SpaceTime(trace)
    for beat in view.reel.beats[::25]:
        marks = list(marks_of(beat.scene))
        arrows = [n for n, m in enumerate(marks) if m.tag == "path" and m.key in ("there", "back")]
        labels = [n for n, mark in enumerate(marks) if mark.key == "label"]
        assert all("halo" in str(marks[at].attributes["class"]) for at in labels)
        assert max(arrows, default=0) < min(labels, default=1)
        for at in arrows:
            way, *barbs = str(marks[at].attributes["d"]).split("M")[1:]
            assert way.count("L") == 1
            assert len(barbs) == 2
    assert view.reel.beats


@pytest.mark.sampled
@RUNS
def test_labels_are_whole_and_neither_on_a_dot_nor_on_another_label(trace: Trace) -> None:
    for beat in SpaceTime(trace).reel.beats[::25]:
        marks = list(placed(beat.scene))
        labels = [each for each in marks if each[0].key.startswith("label")]
        boxes = [(mark.text, *box_of(mark, x, y)) for mark, x, y in labels]
        for mark, x, y in marks:
            if mark.key == "dot":
                at = x + float(mark.attributes["cx"]), y + float(mark.attributes["cy"])
                boxes.append(("", at[0] - 4.5, at[0] + 4.5, at[1] - 4.5, at[1] + 4.5))
        for one, other in combinations(boxes, 2):
            across = min(one[2], other[2]) - max(one[1], other[1])
            down = min(one[4], other[4]) - max(one[3], other[3])
            assert across <= 0 or down <= 0, (one, other)
        assert not [text for text, *_ in boxes if text.endswith("…")]


def test_no_arrow_crosses_a_label_if_each_bookie_does_one_thing_at_a_time() -> None:
    marks = list(placed(SpaceTime(ran(steps=(Write(entries=3, window=1),))).scene()))
    arrows = [
        ((x + float(begin[0]), y + float(begin[1])), (x + float(end[0]), y + float(end[1])))
        for mark, x, y in marks
        if mark.key in ("there", "back")
        for begin, end in [re.findall(r"[ML](\S+?) ([^ML]+)", str(mark.attributes["d"]))[:2]]
    ]
    boxes = [Box(*box_of(*each)) for each in marks if each[0].key.startswith("label")]
    assert len(arrows) > 10
    assert len(boxes) > 10
    assert not [1 for box in boxes for arrow in arrows if box.covered_by(*arrow)]


def test_a_label_goes_where_no_arrow_is() -> None:
    x = 100.0, 500.0, 900.0
    above = {((end, y_of(0)), (x[1], y_of(1))) for end in (x[0], x[2])}
    below = {((end, y_of(2)), (x[1], y_of(1))) for end in (x[0], x[2])}

    def place(arrows: set[tuple[Point, Point]]) -> LabelPlace:
        return place_labels(1, [(1, "synced 0")], x, arrows, (0, 1000))[1]

    assert (place(set()).style, place(set()).is_left) == ("beside", False)
    assert place(above).style == "below"
    assert place(below).style == "above"
    assert place({arrow for arrow in above | below if arrow[0][0] == x[2]}).is_left


def test_a_label_that_is_too_wide_takes_two_lines_or_is_cut() -> None:
    dots = [(0, "memtable 3, synced 2"), (1, "memtable 3")]
    place = place_labels(0, dots, (100.0, 200.0), (), (90, 400))[0]
    assert [text for _, text in place.lines(dots[0][1])] == ["memtable 3,", "synced 2"]
    assert place.lines("memtable 3") == ((4.0, "memtable 3"),)
    narrow = place_labels(0, dots, (100.0, 160.0), (), (90, 170))[0]
    assert any(text.endswith("…") for _, text in narrow.lines(dots[0][1]))


def test_what_is_still_to_come_is_shown_faintly_and_where_its_dots_will_be() -> None:
    view = SpaceTime(ran())
    first, last = view.reel.beats[0].scene, view.reel.beats[-1].scene

    def dots(scene: Mark, key: str) -> int:
        return sum(len(mark.children) for mark in marks_of(scene) if mark.key == key)

    assert dots(first, "dots") == 0
    assert dots(first, "future") > 10
    assert dots(last, "future") == 0


def test_times_in_milliseconds_and_in_seconds_fit_beside_the_lanes() -> None:
    crash = Crash("b1", when=On("lac.advanced", 2))
    view = SpaceTime(ran(crash, steps=(WRITE, Read(polls=2, poll_ms=2000, when=At(40)))))
    times = [(mark, x) for mark, x, _ in placed(view.scene()) if mark.key == "time"]
    assert {mark.text.split()[1] for mark, _ in times} == {"ms", "s"}
    assert all(box_of(mark, x, 0)[0] >= 0 for mark, x in times)


def test_a_label_without_room_on_its_right_is_on_its_left() -> None:
    assert "OPEN, from 0: b0 b1 b2" in labels(SpaceTime(crashed()).svg())


def test_the_answer_no_such_entry_is_not_a_refusal() -> None:
    made = diagram(ran(steps=(WRITE, RECOVER)))
    absent = [
        at
        for at, event in enumerate(made.events)
        if event.kind == "read.failed" and event.error == "BKNoSuchEntryException"
    ]
    assert absent
    assert {m.end for m in made.messages if m.answered in absent} == {"done"}
    svg = SpaceTime(ran(steps=(WRITE, RECOVER))).svg()
    assert "no entry" in svg
    assert not re.search(r'class="f-lost">[^<]*no entry', svg)


def test_there_is_one_unit_of_time() -> None:
    texts = labels(SpaceTime(ran()).svg())
    times = [text for text in texts if re.fullmatch(r"[\d,.]+ ?\w*", text) and "." in text]
    assert times
    assert all(re.fullmatch(r"[\d,]+\.\d\d ms", text) for text in times)


def test_the_still_picture_stands_at_the_moment_and_marks_where_a_promise_broke() -> None:
    trace, verdict = of_an_entry_lost_by_a_bug()
    view = SpaceTime(trace, broken=verdict)
    assert "epilogue" in labels(view.svg())
    assert any(text.startswith("✘ a confirmed entry is lost: ") for text in labels(view.svg()))
    assert repr(view).endswith("broken: AcknowledgedIsDurable")
    first = next(e.seq for e in trace.events if e.kind == "add.pushed")
    early = SpaceTime(trace, broken=verdict, at=first)
    assert not any("Acknowledged" in text for text in labels(early.svg()))
    assert "adds entry 0 to ledger 0" in repr(early)


@pytest.mark.slow
def test_long_ledgers_open_with_few_entries_and_few_rows() -> None:
    view = SpaceTime(ran(steps=(Write(entries=300, window=1),)))
    assert view.entries == (0, 7)
    view.received(None, {"set": "last", "value": 299}, [])
    assert view.entries == (0, 299)
    assert len(view.svg()) < 250_000
    assert int(view.scene().attributes["height"]) < 700


def test_an_entry_is_followed_as_long_as_it_is_shown() -> None:
    view = SpaceTime(ran(), follow=3)
    everything = SpaceTime(ran())
    assert "memtable" in view.svg()
    assert len(labels(view.svg())) < len(labels(everything.svg()))
    view.received(None, {"set": "first", "value": 4}, [])
    assert view.follow == -1


def test_in_real_time_rows_are_as_far_apart_as_their_times_up_to_a_quiet_time() -> None:
    pause = Pause("b1", 400.0, At(3.0))
    view = SpaceTime(ran(pause, steps=(Write(entries=6, every_ms=5.0),)))
    in_order = view.current_picture.plan
    view.received(None, {"set": "real_time", "value": "time"}, [])
    plan = view.current_picture.plan
    moments = [at for at in plan.times if at in set(in_order.times)]
    assert moments == list(in_order.times)
    gaps = [b - a for a, b in pairwise(moments)]
    rows = [plan.times.index(b) - plan.times.index(a) for a, b in pairwise(moments)]
    median = sorted(gaps)[len(gaps) // 2]
    assert rows == [min(max(round(gap / median), 1), MAX_ROW_GAP) for gap in gaps]
    assert len(set(rows)) > 2
    assert {plan.times[row] for row in plan.quiet} == {
        after for after, gap in zip(moments[1:], gaps, strict=True) if gap > 4.5 * median
    }
    assert list(plan.times) == sorted(plan.times)


def test_a_click_on_a_dot_goes_to_its_moment_and_marks_what_led_to_it() -> None:
    view = SpaceTime(ran(), entries=(0, 0))
    dots = [mark for mark, _, _ in placed(view.scene()) if "data-pin" in mark.attributes]
    confirmed = next(dot for dot in dots if "LAC 0" in [part.text for part in dot.children])
    pinned, at = (str(confirmed.attributes[name]) for name in ("data-pin", "data-on"))
    advanced = next(e for e in view.run.events if f"c{e.seq}" == pinned)
    assert advanced.kind == "lac.advanced"
    assert view.run.at(advanced.seq) <= float(at) <= view.run.at(advanced.seq + 8)
    led = [
        [part.text for part in dot.children if part.tag == "text"]
        for dot in dots
        if pinned in str(dot.attributes["data-kin"]).split()
    ]
    assert led == [["add 0"], ["memtable 0"], ["synced 0"], ["LAC 0"]]


def test_a_dot_says_each_kind_of_event_once_with_its_entries() -> None:
    dots = [
        mark for mark, _, _ in placed(SpaceTime(ran()).scene()) if "data-pin" in mark.attributes
    ]
    words = [dot.children[0].text for dot in dots]
    assert any(
        re.search(r"its memtable, not yet durable \(entries [\d–]+\); ", each) for each in words
    )
    assert max(each.count("memtable") for each in words) == 1


@pytest.mark.parametrize("kind", sorted(SHOWN_KINDS))
def test_every_kind_that_is_shown_exists_and_has_a_word_or_none(kind: str) -> None:
    assert kind in KINDS
    assert "{" not in word_of(Event(0, 0, "b0", kind, error="BKTimeoutException", peer="b1"))


def test_a_dot_says_the_most_telling_words_first_and_each_once() -> None:
    words = [("acked #", 1), ("LAC #", 1), ("LAC #", 2), ("add #", 3), ("sends #", 3)]
    assert label_of(words) == "LAC 1–2, add 3"
    assert ranges_of([5, 0, 1, 2]) == "0–2 5"


def forked_at_the_last_add(view: SpaceTime) -> SpaceTime:
    """Kill a bookie in the view at the last add; return the view."""
    sent = [event.seq for event in view.run.events if event.kind == "add.sent"]
    view.received(None, {"do": "kill", "on": "b1", "seq": sent[-1]}, [])
    assert view.notice == ""
    return view


def test_a_fork_shows_everything_that_its_fault_causes() -> None:
    view = SpaceTime(ran())
    before = view.window_ms
    forked_at_the_last_add(view)
    last = next(e for e in view.run.events if e.kind == "epilogue.started")
    assert before[1] < view.window_ms[1] == view.run.events[last.seq - 1].time_us / 1000


def test_a_broken_promise_belongs_to_the_run_in_which_it_broke_not_to_a_fork() -> None:
    trace, verdict = of_an_entry_lost_by_a_bug()
    view = SpaceTime(trace, broken=verdict)
    first = next(event.seq for event in trace.events if event.kind == "add.pushed")
    view.received(None, {"do": "pause", "on": "w", "seq": first}, [])
    assert "broken" not in repr(view)
    assert not any("✘" in text for text in labels(view.svg()))
    view.received(None, {"do": "undo", "on": "b2", "seq": -1}, [])
    assert repr(view).endswith("broken: AcknowledgedIsDurable")


def test_a_fork_keeps_the_entries_and_times_that_were_chosen() -> None:
    view = SpaceTime(ran(), window_ms=(5.0, 20.0))
    view.chosen("last", 2)
    forked_at_the_last_add(view)
    assert (view.entries, view.window_ms) == ((0, 2), (5.0, 20.0))


def test_marks_of_a_node_whose_name_has_spaces_share_one_kin() -> None:
    """A space separates the kins of a mark."""
    trace = ran()
    names = {"w": "my writer", "b0": "my bookie"}
    events = [
        event._replace(
            node=names.get(event.node, event.node),
            peer=names.get(event.peer, event.peer),
            ensemble=tuple(names.get(each, each) for each in event.ensemble),
        )
        for event in before_epilogue(trace)
    ]
    kins = {
        each
        for mark in marks_of(SpaceTime(events).scene())
        for each in str(mark.attributes.get("data-kin", "")).split()
    }
    assert {"n-my-writer", "n-my-bookie"} <= kins
    assert not {"writer", "bookie", "n-my"} & kins
