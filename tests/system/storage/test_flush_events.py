"""Tests for the events that a flush records."""

from labkit.system.storage.entry_log import location_of
from labkit.system.storage.flush_events import WrittenEntry, record_flush
from labkit.system.trace.events import Event, unnumbered_event
from labkit.system.trace.recorder import Recorder


def told_of(*written: WrittenEntry) -> list[Event]:
    rows: list[Event] = []
    recorder = Recorder("bookie", lambda: 7)
    recorder.listen(rows.extend)
    record_flush(recorder, written)
    return rows


def test_logs_come_first_then_indexes_then_the_end_of_the_flush() -> None:
    written = (
        WrittenEntry(5, 3, location_of(0x1A, 1028), 41),
        WrittenEntry(0x1234, 0, location_of(0x1B, 4660), 99),
    )
    assert told_of(*written) == [
        unnumbered_event(
            7, "bookie", "entry_log.written", 5, 3, file="1a.log", offset=1028, size=41
        ),
        unnumbered_event(
            7, "bookie", "entry_log.written", 0x1234, 0, file="1b.log", offset=4660, size=99
        ),
        unnumbered_event(7, "bookie", "index.written", 5, 3, file="0/5/5.idx", offset=1048, size=8),
        unnumbered_event(
            7, "bookie", "index.written", 0x1234, 0, file="12/34/1234.idx", offset=1024, size=8
        ),
        unnumbered_event(7, "bookie", "memtable.flushed", size=2),
    ]


def test_a_flush_of_nothing_is_reported_too() -> None:
    assert told_of() == [unnumbered_event(7, "bookie", "memtable.flushed", size=0)]
