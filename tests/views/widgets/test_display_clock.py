"""Tests the clock that all views of a run share."""

from bisect import bisect_right
from itertools import pairwise

import pytest

from labkit.system.trace.events import Event
from labkit.views.widgets.display_clock import APART_MS, READ_MS, SKIP_MS, DisplayClock
from labkit.views.widgets.run import DisplayedRun
from tests.views.widgets.films import crashed


def events(*rows: tuple[int, str]) -> list[Event]:
    return [Event(seq, us, "w", kind, ledger=7, entry=0) for seq, (us, kind) in enumerate(rows)]


def paced(*rows: tuple[int, str]) -> DisplayClock:
    pace = DisplayClock()
    pace.take(events(*rows))
    return pace


def time_at(pace: DisplayClock, position: float) -> float:
    """Return the run's time at a position, in microseconds, as the browser's slider shows it."""
    place = min(bisect_right(pace.knots, (position, 0)), len(pace.knots) - 1)
    (p, t), (q, u) = pace.knots[max(place - 1, 0)], pace.knots[place]
    part = (position - p) / (q - p) if q > p else 1.0
    return t + (u - t) * min(max(part, 0.0), 1.0)


def test_events_of_one_microsecond_follow_each_other() -> None:
    a, b, c = paced((5, "add.pushed"), (5, "add.pushed"), (5, "add.pushed")).positions
    assert b - a == c - b == APART_MS


def test_a_long_quiet_time_is_skipped_and_its_length_is_kept() -> None:
    pace = paced((0, "add.pushed"), (1000, "add.pushed"), (30_001_000, "add.pushed"))
    (skip,) = pace.skips
    assert skip.us == 30_000_000
    assert skip.end - skip.start == SKIP_MS


def test_a_flush_of_nothing_is_not_worth_a_pause() -> None:
    pace = DisplayClock()
    flushes = [
        Event(n, n, "b0", "memtable.flushed", ledger=7, size=size) for n, size in [(0, 0), (1, 3)]
    ]
    pace.take(flushes)
    assert list(pace.firsts) == [1]


def test_after_what_happens_for_the_first_time_there_is_time_to_read() -> None:
    pace = paced((0, "add.sent"), (0, "add.sent"), (0, "memtable.put"))
    a, b, c = pace.positions
    assert b - a == APART_MS
    assert c - b == READ_MS + APART_MS
    assert list(pace.firsts) == [0, 2]


def test_nodes_that_start_are_not_waited_for() -> None:
    pace = DisplayClock()
    pace.take([Event(0, 0, "b0", "node.started"), Event(1, 9_000_000, "b0", "bookie.registered")])
    assert pace.positions[1] - pace.positions[0] < 100
    assert pace.skips == []


@pytest.mark.parametrize("count", [50, 10_000])
def test_events_keep_their_order_and_their_times_also_if_they_come_in_parts(count: int) -> None:
    pace, found = DisplayClock(), crashed().events
    for start in range(0, len(found), count):
        pace.take(found[start : start + count])
    assert all(a < b for a, b in pairwise(pace.positions))
    for event, at in zip(found, pace.positions, strict=True):
        assert abs(time_at(pace, at) - event.time_us) < 1


def test_two_views_of_one_run_have_one_clock() -> None:
    assert DisplayedRun(crashed().events).name == DisplayedRun(crashed().events).name
    assert DisplayedRun(crashed().events).name != DisplayedRun(crashed().events[:-1]).name


def test_a_message_is_on_its_way_from_the_event_that_sent_it() -> None:
    run = DisplayedRun(crashed().events)
    hops = [(seq, hop) for seq, hops in run.departing.items() for hop in hops]
    for seq, hop in hops:
        assert hop.arrived.cause == hop.sent.seq == seq
        assert hop.end == run.at(hop.arrived.seq) > hop.start == run.at(seq)
    kinds = {hop.arrived.kind for _, hop in hops}
    assert {"memtable.put", "add.acked", "read.served", "read.done"} <= kinds
