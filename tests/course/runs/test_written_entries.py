"""Tests the values that are extracted from a run for each entry of a writer."""

from labkit import Cluster, Crash, On, Scenario, Write, run
from labkit.course.runs.written_entries import written_entries
from labkit.worlds.sim.scenario.faults import SlowDisk


def test_entries_are_confirmed_in_order_although_acknowledgements_arrive_out_of_order() -> None:
    write = Write(0, 6, 3, 2, 2, window=6)
    written = written_entries(run(Scenario(Cluster(3), (write,), (SlowDisk("b1", 20),))))
    acknowledged = [entry.acked_ms[1] for entry in written.values()]
    confirmed = [entry.confirmed_ms or 0.0 for entry in written.values()]
    assert acknowledged[2] < acknowledged[0]
    assert confirmed == sorted(confirmed)
    assert all(at >= acked for at, acked in zip(confirmed, acknowledged, strict=True))


def test_an_entry_carries_what_was_confirmed_when_it_was_pushed() -> None:
    write = Write(0, 3, 3, 2, 2, every_ms=5, close=False)
    written = written_entries(run(Scenario(Cluster(3), (write,))))
    assert [entry.last_add_confirmed for entry in written.values()] == [-1, 0, 1]


def test_an_entry_is_sent_again_after_an_ensemble_change_but_pushed_once() -> None:
    write = Write(0, 4, 3, 2, 2, window=4)
    dies = Crash("b1", when=On("add.pushed", entry=1))
    written = written_entries(run(Scenario(Cluster(4), (write,), (dies,))))
    assert {entry.push_count for entry in written.values()} == {1}
    assert max(entry.sent_count for entry in written.values()) == 3


def test_an_entry_that_was_never_confirmed_has_no_time_of_confirmation() -> None:
    faults = (Crash("w", when=On("add.sent")),)
    written = written_entries(run(Scenario(Cluster(3), (Write(0, 2, 3, 2, 2),), faults)))
    assert [entry.confirmed_ms for entry in written.values()] == [None] * len(written)
    assert written
