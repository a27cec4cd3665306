from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from labkit.system.trace.events import Event, lineage
from labkit.system.trace.events import unnumbered_event as row
from labkit.system.trace.kinds import KINDS
from labkit.system.trace.log import TraceLog

W, B1, B2 = "writer", "b0", "b1"
ONE_ADD = [
    row(1, W, "ledger.created", 5),
    row(2, W, "ensemble.set", 5, 0),
    row(3, W, "add.pushed", 5, 0),
    row(4, W, "add.sent", 5, 0, peer=B1),
    row(5, W, "add.sent", 5, 0, peer=B2),
    row(6, B2, "memtable.put", 5, 0),
    row(7, B1, "memtable.put", 5, 0),
    row(8, B1, "journal.appended", 5, 0),
    row(9, B1, "journal.synced", 5, 0),
    row(10, W, "add.acked", 5, 0, peer=B1),
    row(11, W, "lac.advanced", 5, 0),
    row(12, W, "batch.stored", 5, 0),
    row(13, B1, "entry_log.written", 5, 0),
    row(14, B1, "index.written", 5, 0),
    row(15, W, "add.failed", 5, 0, peer=B2),
    row(16, W, "add.failed", 5, 0, peer=B1),
]
RECOVERY = [
    row(1, W, "recovery.started", 5),
    row(2, W, "fence.sent", 5, peer=B1),
    row(3, B1, "ledger.fenced", 5),
    row(4, W, "fence.answered", 5, 2, peer=B1),
    row(5, W, "recovery.covered", 5, 4),
]
CLOSED, ENDED = row(6, W, "ledger.closed", 5, 7), row(7, W, "recovery.ended", 5, 7)
CAUSES = {
    "every step of an add": (ONE_ADD, [-1, 0, -1, 2, 2, 4, 3, 6, 7, 8, 9, 10, 6, 12, 4, 3]),
    "a read through the bookie that served it": (
        [
            row(1, "reader", "read.sent", 5, 0, peer=B1),
            row(2, "reader", "read.sent", 5, 0, peer=B2),
            row(3, B1, "read.served", 5, 0),
            row(4, "reader", "read.done", 5, 0, peer=B1),
            row(5, "reader", "read.failed", 5, 0, peer=B2),
        ],
        [-1, -1, 0, 2, 1],
    ),
    "each of two reads of an entry by its own request": (
        [
            row(1, "one", "read.sent", 5, 0, peer=B1),
            row(2, B1, "read.served", 5, 0),
            row(3, "two", "read.sent", 5, 0, peer=B1),
            row(4, B1, "read.served", 5, 0),
            row(5, "one", "read.done", 5, 0, peer=B1),
            row(6, "two", "read.done", 5, 0, peer=B1),
        ],
        [-1, 0, -1, 2, 1, 3],
    ),
    "a bookie's action without its request": (
        [row(1, B1, "journal.synced", 5, 0), row(2, W, "add.acked", 5, 0, peer=B1)],
        [-1, 0],
    ),
    "the sync of the record at its position": (
        [
            row(1, B1, "journal.fence_appended", 5, file="1.txn", offset=512),
            row(2, B1, "journal.lac_appended", 5, file="1.txn", offset=1024),
            row(3, B1, "journal.synced", 5, file="1.txn", offset=1024),
            row(4, B1, "journal.synced", 5, file="1.txn", offset=512),
            row(5, B1, "journal.synced", 5, file="2.txn", offset=512),
        ],
        [-1, -1, 1, 0, -1],
    ),
    "an ensemble change by the failure of a replaced bookie": (
        [
            row(1, W, "add.failed", 5, 3, peer=B1),
            row(2, W, "add.failed", 5, 4, peer=B2),
            row(3, W, "ensemble.changing", 5, 2, bookies=(B1,)),
            row(4, W, "ensemble.set", 5, 2, ensemble=("b2", B2)),
        ],
        [-1, -1, 0, 2],
    ),
    "a mark by the loss of a bookie": (
        [
            row(1, "auditor", "bookie.lost", peer=B1),
            row(2, "auditor", "bookie.lost", peer=B2),
            row(3, "auditor", "ledger.underreplicated", 5, bookies=(B1,)),
            row(4, "auditor", "ledger.underreplicated", 6, bookies=(B1, B2)),
            row(5, "auditor", "ledger.underreplicated", 7),
        ],
        [-1, -1, 0, 1, -1],
    ),
    "the end of a ledger by its recovery": ([*RECOVERY, CLOSED], [-1, 0, 1, 2, 3, 4]),
    "the end of a recovery by the close": ([*RECOVERY, CLOSED, ENDED], [-1, 0, 1, 2, 3, 4, 5]),
    "the end of a recovery without a close": ([*RECOVERY, ENDED], [-1, 0, 1, 2, 3, 4]),
    "the next rule without an event for the first one": (
        [row(1, W, "add.sent", 5, 0, peer=B1), row(2, W, "add.acked", 5, 0, peer=B1)],
        [-1, 0],
    ),
    "nothing on another ledger, entry or node": (
        [
            row(1, W, "add.pushed", 5, 0),
            row(2, W, "add.sent", 6, 0, peer=B1),
            row(3, W, "add.sent", 5, 1, peer=B1),
            row(4, "other", "add.sent", 5, 0, peer=B1),
            row(5, B2, "memtable.put", 5, 0),
        ],
        [-1] * 5,
    ),
    "a response by the request to the same peer": (
        [
            *(
                row(1, W, f"{what}.sent", 5, -1, peer=b)
                for what in ("read", "fence")
                for b in (B1, B2)
            ),
            *(
                row(2, W, f"{what}.failed", 5, 3, peer=b)
                for what in ("read", "fence")
                for b in (B1, B2)
            ),
        ],
        [-1, -1, -1, -1, 0, 1, 2, 3],
    ),
    "the latest of several possible causes": (
        [
            row(1, W, "add.sent", 5, 0, peer=B1),
            row(2, W, "add.sent", 5, 0, peer=B1),
            row(3, B1, "memtable.put", 5, 0),
        ],
        [-1, -1, 1],
    ),
}


def settled(rows: list[Event]) -> TraceLog:
    log = TraceLog()
    log.add(rows)
    log.settle()
    return log


@pytest.mark.parametrize(("rows", "causes"), CAUSES.values(), ids=CAUSES)
def test_events_are_linked_to_their_causes(rows: list[Event], causes: list[int]) -> None:
    assert [event.cause for event in settled(rows).events] == causes


@given(st.permutations(ONE_ADD))
def test_rows_are_put_in_the_order_of_their_times(rows: list[Event]) -> None:
    assert settled(rows).events == settled(ONE_ADD).events


@given(
    st.lists(
        st.builds(
            row,
            st.integers(0, 9),
            st.sampled_from([W, B1, B2]),
            st.sampled_from(sorted(KINDS)),
            st.integers(-1, 1),
            st.integers(-1, 1),
            peer=st.sampled_from(["", B1, B2]),
        )
    ),
    st.integers(0, 9),
)
def test_events_are_numbered_from_0_and_caused_by_earlier_ones(
    rows: list[Event], until_us: int
) -> None:
    log = TraceLog()
    log.add(rows)
    log.settle(until_us)
    log.settle()
    assert [event.seq for event in log.events] == list(range(len(rows)))
    assert all(-1 <= event.cause < event.seq for event in log.events)
    by_seq = dict(enumerate(log.events))
    for event in log.events:
        path = lineage(by_seq, event.seq)
        assert path[-1] == event
        assert path[0].cause == -1


def test_lineage_is_the_chain_of_causes_first_cause_first() -> None:
    path = lineage(dict(enumerate(settled(ONE_ADD).events)), 11)
    assert [event.kind for event in path] == [
        *("add.pushed", "add.sent", "memtable.put", "journal.appended"),
        *("journal.synced", "add.acked", "lac.advanced", "batch.stored"),
    ]


def test_rows_wait_until_their_time_is_settled() -> None:
    log, batches = TraceLog(), list[list[Event]]()
    log.listen(lambda events: batches.append(list(events)))
    log.add(ONE_ADD)
    log.settle(3)
    log.settle(3)
    log.settle(4)
    assert [[event.seq for event in batch] for batch in batches] == [[0, 1, 2], [3]]


def test_times_are_measured_from_the_origin_of_the_log() -> None:
    log = TraceLog(origin_us=5_000)
    log.add([row(5_001, W, "node.started"), row(5_007, B1, "node.started")])
    log.settle(5_006)
    assert [event.time_us for event in log.events] == [1]
    log.settle()
    assert [event.time_us for event in log.events] == [1, 7]


def test_a_row_that_comes_too_late_is_kept_behind_the_settled_ones() -> None:
    log = TraceLog()
    log.add([row(10, W, "add.pushed", 5, 0)])
    log.settle(10)
    log.add([row(2, W, "ledger.created", 5)])
    log.settle(10)
    assert [(event.seq, event.time_us) for event in log.events] == [(0, 10), (1, 2)]


def test_a_stopped_listener_is_not_called() -> None:
    log, seen = TraceLog(), list[int]()

    def hear_once(events: Sequence[Event]) -> None:
        seen.extend(event.seq for event in events)
        stop()

    stop = log.listen(hear_once)
    log.add(ONE_ADD)
    log.settle(1)
    log.settle()
    assert seen == [0]
