from typing import Any

import pytest

from labkit.system.trace.events import DEFAULTS, Event, Fields, unnumbered_event
from labkit.system.trace.kinds import KINDS, Kind
from labkit.system.trace.recorder import Recorder
from labkit.system.trace.sentence import describe

VALUES: dict[type, Any] = {str: "x", int: 3, float: 1.5, bool: True, tuple: ("b0", "b1")}


class Clock:
    """A clock that advances by a microsecond each time it is read."""

    def __init__(self) -> None:
        self.now_us = 0

    def __call__(self) -> int:
        self.now_us += 1
        return self.now_us


def test_without_a_listener_no_event_is_built_and_no_clock_is_read() -> None:
    clock = Clock()
    recorder = Recorder("b0", clock)
    unread = iter([(5, 0)])
    recorder.record("memtable.put", 5, 0)
    recorder.record_entries("memtable.put", unread)
    assert clock.now_us == 0
    assert list(unread) == [(5, 0)]


def test_a_row_carries_node_time_and_fields() -> None:
    recorder, rows = Recorder("b0", Clock()), list[Event]()
    recorder.listen(rows.extend)
    recorder.record("ensemble.set", 5, 0, ensemble=("b0", "b1"))
    [row] = rows
    assert row[:8] == (-1, 1, "b0", "ensemble.set", -1, 5, 0, "")
    assert row.ensemble == ("b0", "b1")


def test_rows_of_one_batch_share_one_time_and_one_call() -> None:
    recorder, batches = Recorder("b0", Clock()), list[list[Event]]()
    recorder.listen(batches.append)
    recorder.record_entries("add.sent", [(5, 0), (5, 1)], peer="b1")
    assert batches == [
        [
            unnumbered_event(1, "b0", "add.sent", 5, 0, peer="b1"),
            unnumbered_event(1, "b0", "add.sent", 5, 1, peer="b1"),
        ]
    ]


def test_every_listener_gets_every_row_until_it_stops() -> None:
    recorder, first, second = Recorder("n", Clock()), list[Event](), list[Event]()
    stop_first = recorder.listen(first.extend)
    recorder.record("node.started")
    stop_second = recorder.listen(second.extend)
    recorder.record("node.paused")
    stop_first()
    assert recorder.listening
    recorder.record("node.resumed")
    stop_second()
    assert not recorder.listening
    recorder.record("node.killed")
    assert [row.kind for row in first] == ["node.started", "node.paused"]
    assert [row.kind for row in second] == ["node.paused", "node.resumed"]


def test_a_listener_that_stops_while_it_is_called_costs_the_others_nothing() -> None:
    recorder, rows = Recorder("n", Clock()), list[Event]()
    stop = recorder.listen(lambda _: stop())
    recorder.listen(rows.extend)
    recorder.record("node.started")
    recorder.record("node.killed")
    assert [row.kind for row in rows] == ["node.started", "node.killed"]


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("add.sent", {"ensemble": ("b0",)}),
        ("node.started", {"explanation": "why not"}),
        ("read.served", {"detail": "in the memtable"}),
        ("read.swerved", {}),
    ],
)
def test_a_column_or_a_detail_that_the_kind_does_not_have_is_rejected(
    kind: str, fields: Fields
) -> None:
    recorder = Recorder("n", Clock())
    recorder.listen(lambda _: None)
    with pytest.raises(ValueError, match=kind):
        recorder.record(kind, **fields)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_each_kind_can_be_recorded_with_all_its_columns(kind: Kind) -> None:
    fields: dict[str, Any] = {name: VALUES[type(DEFAULTS[name])] for name in kind.columns.split()}
    if "segments" in fields:
        fields["segments"] = ((0, ("b0",)),)
    if kind.details:
        fields["detail"] = kind.details[0]
    recorder, rows = Recorder("n", Clock()), list[Event]()
    recorder.listen(rows.extend)
    recorder.record(kind.name, **fields)
    assert {name: getattr(rows[0], name) for name in fields} == fields
    assert "{" not in describe(rows[0])
