"""Tests for the reconstructed state of a bookie, from the events that a real store records."""

from collections.abc import Callable

import pytest

from labkit.course.runs.bookie.one_bookie import OneBookie
from labkit.system.trace.bookie_state import BookieState, Mark, ServedEntry
from labkit.system.trace.cluster_state import fold_bookie
from labkit.system.trace.events import Event
from labkit.system.trace.kinds import KINDS
from labkit.worlds.sim.machine.disk_operation import kept


@pytest.fixture
def bookie() -> OneBookie:
    """Return a bookie with two ledgers and three groups of records, none of them flushed."""
    bookie = OneBookie()
    bookie.add((7, 0), (8, 0))
    bookie.commit()
    bookie.add((7, 1))
    bookie.commit()
    bookie.add((8, 1))
    return bookie


def state_of(bookie: OneBookie) -> BookieState:
    return fold_bookie(bookie.trace.events, "b0")


def memtable(state: BookieState) -> list[str]:
    return [f"{each.ledger}/{each.entry} {each.state}" for each in state.memtable]


def records(state: BookieState, file: str = "1.txn") -> list[str]:
    return [
        f"{each.ledger}/{each.entry if each.kind == 'entry' else each.kind} {each.state}"
        for each in state.journals[file]
    ]


def stored(state: BookieState, file: str = "0.log") -> list[tuple[int, int]]:
    return [(each.ledger, each.entry) for each in state.logs[file] if each.indexed]


def test_the_memtable_is_in_order_and_the_journal_as_it_came(bookie: OneBookie) -> None:
    state = state_of(bookie)
    assert memtable(state) == ["7/0 put", "7/1 put", "8/0 put", "8/1 put"]
    first = ["7/key synced", "7/0 synced", "8/key synced", "8/0 synced"]
    assert records(state) == [*first, "7/1 synced", "8/1 written"]
    assert [record.group for record in state.journals["1.txn"]] == [0, 0, 0, 0, 1, -1]


def test_a_flush_writes_in_the_memtable_s_order_empties_it_and_moves_the_mark(
    bookie: OneBookie,
) -> None:
    bookie.commit()
    bookie.flush()
    state = state_of(bookie)
    assert stored(state) == [(7, 0), (7, 1), (8, 0), (8, 1)]
    assert memtable(state) == []
    assert state.mark == Mark("1.txn", bookie.store.marks[0].offset)


def test_during_a_flush_an_entry_is_in_memtable_and_entry_log(bookie: OneBookie) -> None:
    bookie.commit()
    bookie.flush()
    events = bookie.trace.events
    first = next(event.seq for event in events if event.kind == "entry_log.written")
    assert memtable(fold_bookie(events, "b0", first + 1))[0] == "7/0 written"


def test_a_crash_loses_the_memtable_and_leaves_unsynced_records_unsure(bookie: OneBookie) -> None:
    bookie.crash()
    state = state_of(bookie)
    assert state.state == "down"
    assert {each.state for each in state.memtable} == {"lost"}
    assert records(state)[-1] == "8/1 unsure"


def test_replay_brings_back_what_is_behind_the_mark_and_nothing_else(bookie: OneBookie) -> None:
    bookie.commit()
    bookie.flush()
    bookie.add((8, 2), (7, 2))
    bookie.commit()
    bookie.add((8, 3))
    bookie.crash()
    bookie.restart()
    events = bookie.trace.events
    replay = next(event.seq for event in events if event.kind == "journal.replayed")
    assert memtable(fold_bookie(events, "b0", replay + 1)) == ["7/2 replayed", "8/2 replayed"]
    state = state_of(bookie)
    assert memtable(state) == []
    assert stored(state, "2.log") == [(7, 2), (8, 2)]
    assert records(state)[-1] == "8/3 lost"


def test_a_record_that_survived_without_a_sync_is_found_by_replay(bookie: OneBookie) -> None:
    bookie.fence(9)
    bookie.store.journals[0].write_and_sync(bookie.store.journals[0].seal())  # type: ignore[arg-type]
    bookie.crash(kept)
    bookie.restart()
    assert records(state_of(bookie))[-3:] == ["8/1 synced", "9/key synced", "9/fence synced"]


def test_a_fence_has_its_record_and_is_synced_with_its_group(bookie: OneBookie) -> None:
    bookie.commit()
    bookie.fence(8)
    bookie.set_explicit_lac(7, 1)
    assert records(state_of(bookie))[-2:] == ["8/fence written", "7/LAC written"]
    bookie.commit()
    state = state_of(bookie)
    assert records(state)[-2:] == ["8/fence synced", "7/LAC synced"]
    assert [record.group for record in state.journals["1.txn"]][-3:] == [2, 3, 3]


def test_a_sync_of_an_entry_covers_the_fence_before_it_and_none_behind_it(
    bookie: OneBookie,
) -> None:
    bookie.commit()
    bookie.fence(8)
    bookie.add((7, 2))
    bookie.fence(7)
    bookie.commit()
    events = bookie.trace.events
    synced = next(e.seq for e in events if e.kind == "journal.synced" and e.entry == 2)
    assert records(fold_bookie(events, "b0", synced + 1))[-3:] == [
        "8/fence synced",
        "7/2 synced",
        "7/fence written",
    ]


def test_replay_puts_no_fence_into_the_memtable(bookie: OneBookie) -> None:
    bookie.fence(8)
    bookie.commit()
    bookie.crash()
    bookie.restart()
    events = bookie.trace.events
    replay = next(event.seq for event in events if event.kind == "journal.replayed")
    assert len(memtable(fold_bookie(events, "b0", replay + 1))) == 4


@pytest.mark.parametrize(
    ("before", "where"), [(OneBookie.commit, "memtable"), (OneBookie.flush, "entry log")]
)
def test_a_read_is_found_where_the_store_found_it_until_the_next_event(
    bookie: OneBookie, before: Callable[[OneBookie], None], where: str
) -> None:
    bookie.commit()
    before(bookie)
    bookie.read(7, 1)
    assert state_of(bookie).served == ServedEntry(7, 1, where)
    bookie.add((7, 2))
    assert state_of(bookie).served is None


def test_a_log_that_begins_in_the_middle_of_a_life_can_be_folded() -> None:
    for kind in KINDS:
        event = Event(0, 0, "b0", kind, -1, 7, 0, "", "1.txn", 512, 1, "")
        assert fold_bookie([event], "b0").state


def test_what_a_bookie_has_dropped_is_garbage_until_its_log_is_removed(bookie: OneBookie) -> None:
    bookie.commit()
    bookie.flush()
    events = [*bookie.trace.events, Event(0, 0, "b0", "ledger.collected", ledger=7)]
    state = fold_bookie(events, "b0")
    assert stored(state) == [(8, 0), (8, 1)]
    garbage = [(each.ledger, each.entry) for each in state.logs["0.log"] if each.is_garbage]
    assert garbage == [(7, 0), (7, 1)]
    removed = Event(0, 0, "b0", "log.removed", file="0.log")
    assert fold_bookie([*events, removed], "b0").logs == {}
