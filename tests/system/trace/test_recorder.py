import pytest

from labkit.system.trace.recorder import Recorder, Row


class Clock:
    """Counts how often it is read."""

    def __init__(self) -> None:
        self.now_us = 0

    def __call__(self) -> int:
        self.now_us += 1
        return self.now_us


def test_without_a_listener_no_event_is_built_and_no_clock_is_read() -> None:
    clock = Clock()
    recorder = Recorder("bookie-1", clock)
    unread = iter([(5, 0)])
    recorder.record("memtable.put", 5, 0)
    recorder.record_entries("memtable.put", unread)
    assert clock.now_us == 0
    assert list(unread) == [(5, 0)]


def test_a_row_carries_node_time_and_fields() -> None:
    recorder, rows = Recorder("bookie-1", Clock()), list[Row]()
    recorder.listen(rows.extend)
    recorder.record(
        "journal.synced", 5, 0, peer="p", file="1.txn", offset=512, size=3, note="group"
    )
    assert rows == [Row(1, "bookie-1", "journal.synced", 5, 0, "p", "1.txn", 512, 3, "group")]


def test_rows_of_one_batch_share_one_time_and_one_call() -> None:
    recorder, batches = Recorder("bookie-1", Clock()), list[list[Row]]()
    recorder.listen(batches.append)
    recorder.record_entries("add.sent", [(5, 0), (5, 1)], peer="bookie-2", size=9)
    assert batches == [
        [
            Row(1, "bookie-1", "add.sent", 5, 0, "bookie-2", size=9),
            Row(1, "bookie-1", "add.sent", 5, 1, "bookie-2", size=9),
        ]
    ]


def test_every_listener_gets_every_row_until_it_stops() -> None:
    recorder, first, second = Recorder("n", Clock()), list[Row](), list[Row]()
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
    recorder, rows = Recorder("n", Clock()), list[Row]()
    stop = recorder.listen(lambda _: stop())
    recorder.listen(rows.extend)
    recorder.record("node.started")
    recorder.record("node.killed")
    assert [row.kind for row in rows] == ["node.started", "node.killed"]


def test_a_node_cannot_report_without_a_kind() -> None:
    with pytest.raises(TypeError):
        Recorder("n", Clock()).record()  # type: ignore[call-arg]
