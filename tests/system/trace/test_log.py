from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from labkit.system.trace.events import Event, lineage, unnumbered_event
from labkit.system.trace.kinds import KINDS
from labkit.system.trace.log import TraceLog

W, B1, B2 = "writer", "b0", "b1"
ONE_ADD = [
    unnumbered_event(1, W, "ledger.created", 5),
    unnumbered_event(2, W, "ensemble.set", 5, 0),
    unnumbered_event(3, W, "add.pushed", 5, 0),
    unnumbered_event(4, W, "add.sent", 5, 0, peer=B1),
    unnumbered_event(5, W, "add.sent", 5, 0, peer=B2),
    unnumbered_event(6, B2, "memtable.put", 5, 0),
    unnumbered_event(7, B1, "memtable.put", 5, 0),
    unnumbered_event(8, B1, "journal.appended", 5, 0),
    unnumbered_event(9, B1, "journal.synced", 5, 0),
    unnumbered_event(10, W, "add.acked", 5, 0, peer=B1),
    unnumbered_event(11, W, "lac.advanced", 5, 0),
    unnumbered_event(12, W, "batch.stored", 5, 0),
    unnumbered_event(13, B1, "entry_log.written", 5, 0),
    unnumbered_event(14, B1, "index.written", 5, 0),
    unnumbered_event(15, W, "add.failed", 5, 0, peer=B2),
    unnumbered_event(16, W, "add.failed", 5, 0, peer=B1),
]
CAUSES = [-1, 0, -1, 2, 2, 4, 3, 6, 7, 8, 9, 10, 6, 12, 4, 3]


def settled(rows: list[Event]) -> TraceLog:
    log = TraceLog()
    log.add(rows)
    log.settle()
    return log


def test_every_step_of_an_add_is_linked_to_the_one_that_led_to_it() -> None:
    assert [event.cause for event in settled(ONE_ADD).events] == CAUSES


@given(st.permutations(ONE_ADD))
def test_rows_are_put_in_the_order_of_their_times(rows: list[Event]) -> None:
    assert settled(rows).events == settled(ONE_ADD).events


@given(
    st.lists(
        st.builds(
            unnumbered_event,
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


def test_a_read_is_linked_through_the_bookie_that_served_it() -> None:
    log = settled(
        [
            unnumbered_event(1, "reader", "read.sent", 5, 0, peer=B1),
            unnumbered_event(2, "reader", "read.sent", 5, 0, peer=B2),
            unnumbered_event(3, B1, "read.served", 5, 0),
            unnumbered_event(4, "reader", "read.done", 5, 0, peer=B1),
            unnumbered_event(5, "reader", "read.failed", 5, 0, peer=B2),
        ]
    )
    assert [event.cause for event in log.events] == [-1, -1, 0, 2, 1]


def test_of_two_readers_of_an_entry_each_gets_what_its_own_request_was_answered_with() -> None:
    log = settled(
        [
            unnumbered_event(1, "one", "read.sent", 5, 0, peer=B1),
            unnumbered_event(2, B1, "read.served", 5, 0),
            unnumbered_event(3, "two", "read.sent", 5, 0, peer=B1),
            unnumbered_event(4, B1, "read.served", 5, 0),
            unnumbered_event(5, "one", "read.done", 5, 0, peer=B1),
            unnumbered_event(6, "two", "read.done", 5, 0, peer=B1),
        ]
    )
    assert [event.cause for event in log.events] == [-1, 0, -1, 2, 1, 3]


def test_a_request_that_the_trace_lacks_does_not_hide_what_the_bookie_did() -> None:
    rows = [
        unnumbered_event(1, B1, "journal.synced", 5, 0),
        unnumbered_event(2, W, "add.acked", 5, 0, peer=B1),
    ]
    assert settled(rows).events[1].cause == 0


def test_a_sync_belongs_to_the_record_at_its_position() -> None:
    log = settled(
        [
            unnumbered_event(1, B1, "journal.fence_appended", 5, file="1.txn", offset=512),
            unnumbered_event(2, B1, "journal.lac_appended", 5, file="1.txn", offset=1024),
            unnumbered_event(3, B1, "journal.synced", 5, file="1.txn", offset=1024),
            unnumbered_event(4, B1, "journal.synced", 5, file="1.txn", offset=512),
            unnumbered_event(5, B1, "journal.synced", 5, file="2.txn", offset=512),
        ]
    )
    assert [event.cause for event in log.events] == [-1, -1, 1, 0, -1]


def test_an_ensemble_change_follows_from_the_failure_of_a_bookie_that_it_replaces() -> None:
    log = settled(
        [
            unnumbered_event(1, W, "add.failed", 5, 3, peer=B1),
            unnumbered_event(2, W, "add.failed", 5, 4, peer=B2),
            unnumbered_event(3, W, "ensemble.changing", 5, 2, bookies=(B1,)),
            unnumbered_event(4, W, "ensemble.set", 5, 2, ensemble=("b2", B2)),
        ]
    )
    assert [event.cause for event in log.events] == [-1, -1, 0, 2]


def test_a_ledger_is_marked_because_one_of_its_bookies_was_lost() -> None:
    log = settled(
        [
            unnumbered_event(1, "auditor", "bookie.lost", peer=B1),
            unnumbered_event(2, "auditor", "bookie.lost", peer=B2),
            unnumbered_event(3, "auditor", "ledger.underreplicated", 5, bookies=(B1,)),
            unnumbered_event(4, "auditor", "ledger.underreplicated", 6, bookies=(B1, B2)),
            unnumbered_event(5, "auditor", "ledger.underreplicated", 7),
        ]
    )
    assert [event.cause for event in log.events] == [-1, -1, 0, 1, -1]


def test_the_end_of_a_recovery_leads_back_to_its_start_whatever_it_has_found() -> None:
    def kinds_from(*end: Event) -> list[str]:
        rows = [
            unnumbered_event(1, W, "recovery.started", 5),
            unnumbered_event(2, W, "fence.sent", 5, peer=B1),
            unnumbered_event(3, B1, "ledger.fenced", 5),
            unnumbered_event(4, W, "fence.answered", 5, 2, peer=B1),
            unnumbered_event(5, W, "recovery.covered", 5, 4),
            *end,
        ]
        found = settled(rows).events
        return [event.kind for event in lineage(dict(enumerate(found)), len(found) - 1)]

    fenced = ["recovery.started", "fence.sent", "ledger.fenced", "fence.answered"]
    closed = unnumbered_event(6, W, "ledger.closed", 5, 7)
    ended = unnumbered_event(7, W, "recovery.ended", 5, 7)
    assert kinds_from(closed) == [*fenced, "recovery.covered", "ledger.closed"]
    assert kinds_from(closed, ended) == [
        *(*fenced, "recovery.covered", "ledger.closed"),
        "recovery.ended",
    ]
    assert kinds_from(ended) == [*fenced, "recovery.covered", "recovery.ended"]


def test_without_the_first_rules_event_the_next_rule_counts() -> None:
    log = settled(
        [
            unnumbered_event(1, W, "add.sent", 5, 0, peer=B1),
            unnumbered_event(2, W, "add.acked", 5, 0, peer=B1),
        ]
    )
    assert [event.cause for event in log.events] == [-1, 0]


def test_a_cause_must_name_the_same_ledger_entry_and_node() -> None:
    log = settled(
        [
            unnumbered_event(1, W, "add.pushed", 5, 0),
            unnumbered_event(2, W, "add.sent", 6, 0, peer=B1),
            unnumbered_event(3, W, "add.sent", 5, 1, peer=B1),
            unnumbered_event(4, "other", "add.sent", 5, 0, peer=B1),
            unnumbered_event(5, B2, "memtable.put", 5, 0),
        ]
    )
    assert [event.cause for event in log.events] == [-1] * 5


def test_an_answer_comes_from_what_was_sent_to_the_same_peer() -> None:
    asked = [
        unnumbered_event(1, W, f"{what}.sent", 5, -1, peer=b)
        for what in ("read", "fence")
        for b in (B1, B2)
    ]
    failed = [
        unnumbered_event(2, W, f"{what}.failed", 5, 3, peer=b)
        for what in ("read", "fence")
        for b in (B1, B2)
    ]
    assert [event.cause for event in settled([*asked, *failed]).events[4:]] == [0, 1, 2, 3]


def test_the_latest_of_several_possible_causes_counts() -> None:
    log = settled(
        [
            unnumbered_event(1, W, "add.sent", 5, 0, peer=B1),
            unnumbered_event(2, W, "add.sent", 5, 0, peer=B1),
            unnumbered_event(3, B1, "memtable.put", 5, 0),
        ]
    )
    assert log.events[2].cause == 1


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
    log.add(
        [unnumbered_event(5_001, W, "node.started"), unnumbered_event(5_007, B1, "node.started")]
    )
    log.settle(5_006)
    assert [event.time_us for event in log.events] == [1]
    log.settle()
    assert [event.time_us for event in log.events] == [1, 7]


def test_a_row_that_comes_too_late_is_kept_behind_the_settled_ones() -> None:
    log = TraceLog()
    log.add([unnumbered_event(10, W, "add.pushed", 5, 0)])
    log.settle(10)
    log.add([unnumbered_event(2, W, "ledger.created", 5)])
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
