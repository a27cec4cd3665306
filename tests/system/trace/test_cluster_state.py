"""Tests for the state of a cluster at a point in time, reconstructed from scripted logs."""

import pytest

from labkit.system.trace.cluster_state import ClusterState, Read, Segment, fold
from labkit.system.trace.events import Event
from labkit.system.trace.sentence import COPIES, describe, fill
from tests.views.widgets.scripted import (
    LEDGER,
    Script,
    everything_at_once,
    killed_and_restarted,
    two_ledgers,
)


def looks(state: ClusterState, bookie: str, ledger: int = LEDGER) -> dict[int, str]:
    """Return the state of each of the ledger's entries on the bookie."""
    held = state.bookies[bookie].entries.get(ledger, {})
    return {entry: copy.state for entry, copy in held.items()}


def small() -> Script:
    return Script(3, 3, 3, 2)


def state_of(script: Script) -> ClusterState:
    return fold(script.settled().events)


def test_successive_entries_are_striped_over_the_ensemble() -> None:
    script = Script(4, 4, 3, 2)
    for entry in range(4):
        script.add(entry)
    state = state_of(script)
    on = [[name for name in state.bookies if entry in looks(state, name)] for entry in range(4)]
    assert on == [
        ["b0", "b1", "b2"],
        ["b1", "b2", "b3"],
        ["b0", "b2", "b3"],
        ["b0", "b1", "b3"],
    ]


def test_an_entry_goes_from_sent_to_memtable_to_durable_to_flushed() -> None:
    script = small()
    script.push(0)
    seen = [looks(state_of(script), "b0")[0]]
    script.put(0, ["b0"])
    seen.append(looks(state_of(script), "b0")[0])
    script.sync(0, ["b0"])
    seen.append(looks(state_of(script), "b0")[0])
    script.flush("b0")
    seen.append(looks(state_of(script), "b0")[0])
    assert seen == ["sent", "memtable", "durable", "flushed"]


def test_the_sync_of_a_fence_makes_no_copy_of_an_entry() -> None:
    event = Event(0, 0, "b0", "journal.synced", -1, LEDGER, -1, file="1.txn", offset=512)
    assert looks(fold([event], bookies=["b0"]), "b0") == {}


def test_an_entry_in_the_entry_log_counts_as_flushed_only_when_the_flush_is_done() -> None:
    script = small()
    script.add(0)
    script.record("b0", "entry_log.written", LEDGER, 0, file="0.log", offset=1024)
    assert looks(state_of(script), "b0") == {0: "durable"}
    script.kill("b0")
    script.restart("b0")
    script.record("b0", "memtable.flushed", size=0)
    assert looks(state_of(script), "b0") == {0: "durable"}


def test_a_killed_bookie_loses_what_was_only_in_its_memtable_and_keeps_the_rest() -> None:
    script = small()
    script.add(0)
    script.push(1)
    script.put(1, ["b0"])
    script.kill("b0")
    script.restart("b0")
    state = state_of(script)
    assert looks(state, "b0") == {0: "durable", 1: "lost"}
    assert looks(state, "b1") == {0: "durable", 1: "sent"}


def test_a_replay_that_flushes_a_lost_entry_brings_it_back() -> None:
    script = small()
    script.push(0)
    script.put(0, ["b0"])
    script.kill("b0")
    script.flush("b0")
    script.restart("b0")
    assert looks(state_of(script), "b0") == {0: "flushed"}


@pytest.mark.parametrize(
    ("act", "state"),
    [("node.killed", "down"), ("node.paused", "paused"), ("node.resumed", "up")],
)
def test_the_last_event_decides_a_bookies_state(act: str, state: str) -> None:
    script = small()
    script.record("b1", act)
    assert state_of(script).bookies["b1"].state == state


def test_a_bookie_that_replays_its_journal_is_up_before_it_serves() -> None:
    script = small()
    script.kill("b0")
    script.record("b0", "journal.replayed", file="1.txn", offset=512, size=0)
    assert state_of(script).bookies["b0"].state == "up"


def test_a_bookie_of_which_nothing_was_heard_is_unknown_and_up_once_it_speaks() -> None:
    assert fold([], bookies=["b8"]).bookies["b8"].state == "unknown"
    put = Event(0, 0, "b8", "memtable.put", ledger=7, entry=0)
    assert fold([put], bookies=["b8"]).bookies["b8"].state == "up"


def test_a_process_other_than_a_bookie_is_not_drawn_as_a_bookie() -> None:
    started = Event(0, 0, "zookeeper", "node.started")
    assert fold([started]).bookies == {}


def test_bookies_are_in_the_order_of_their_numbers() -> None:
    names = ["b9", "b1", "b0"]
    assert list(fold([], bookies=names).bookies) == ["b0", "b1", "b9"]


def test_a_ledger_knows_its_quorums_its_lap_its_lac_and_that_it_is_closed() -> None:
    ledger = fold(killed_and_restarted().events).ledgers[LEDGER]
    assert (ledger.ensemble_size, ledger.write_quorum, ledger.ack_quorum) == (4, 3, 2)
    assert (ledger.last_add_pushed, ledger.last_add_confirmed) == (9, 9)
    assert ledger.closed


def test_a_ledger_is_in_recovery_until_it_is_closed_with_its_last_entry() -> None:
    script = small()
    script.add(0)
    script.record("reader", "recovery.started", LEDGER)
    assert state_of(script).ledgers[LEDGER].in_recovery
    script.record("reader", "ledger.closed", LEDGER, 0)
    ledger = state_of(script).ledgers[LEDGER]
    assert (ledger.in_recovery, ledger.closed, ledger.last_entry) == (False, True, 0)


def test_an_ensemble_change_starts_a_fragment_and_one_at_the_same_entry_replaces_it() -> None:
    segments = fold(everything_at_once().events).ledgers[LEDGER].segments
    assert segments == (
        Segment(0, ("b0", "b1", "b2")),
        Segment(30, ("b0", "b3", "b2")),
    )
    script = small()
    script.record("writer", "ensemble.set", LEDGER, 0, ensemble=("b2", "b0", "b1"))
    segments = state_of(script).ledgers[LEDGER].segments
    assert segments == (Segment(0, ("b2", "b0", "b1")),)


def test_an_add_that_is_not_acknowledged_says_why_and_leaves_a_stored_copy_alone() -> None:
    script = small()
    script.push(0)
    script.record("writer", "add.failed", LEDGER, 0, peer="b0", error="timed out")
    script.put(0, ["b1"])
    script.record("writer", "add.failed", LEDGER, 0, peer="b1", error="timed out")
    state = state_of(script)
    assert state.bookies["b0"].entries[LEDGER][0].error == "timed out"
    assert looks(state, "b0") == {0: "failed"}
    assert looks(state, "b1") == {0: "memtable"}


def test_a_read_shows_the_bookie_that_served_it() -> None:
    script = small()
    script.add(0)
    script.read(0, "b2")
    state = state_of(script)
    assert state.read == Read("reader", LEDGER, 0, "b2", "done")
    reads = {name: bookie.entries[LEDGER][0].reads for name, bookie in state.bookies.items()}
    assert reads == {"b0": 0, "b1": 0, "b2": 1}


def test_a_moment_is_the_state_after_a_number_of_events() -> None:
    events = two_ledgers().events
    for upto in range(len(events) + 1):
        assert fold(events, upto) == fold(events[:upto])
    assert fold(events, 0).sentence == ""
    assert fold(events).event_count == len(events)


def test_ledgers_do_not_share_entries() -> None:
    state = fold(two_ledgers().events)
    assert looks(state, "b1", 7) == {0: "durable", 1: "durable"}
    assert looks(state, "b2", 8) == {1: "durable"}


def test_a_sentence_leaves_out_what_does_not_apply() -> None:
    failed = Event(0, 0, "writer", "add.failed", ledger=7, entry=3, peer="b0")
    assert describe(failed) == "b0 did not acknowledge entry 3 of ledger 7 to writer"
    told = Event(0, 0, "writer", "add.failed", -1, 7, 3, "b0", error="timed out")
    assert describe(told) == f"{describe(failed)}: timed out"


def test_words_for_a_copy_name_the_file_and_the_offset() -> None:
    place = {"journal_file": "1a2b.txn", "journal_offset": 512}
    assert fill(COPIES["durable"], place) == "durable, journal 1a2b.txn offset 512"


def test_a_repaired_fragment_keeps_its_place_among_the_others() -> None:
    rows = [(0, "ab"), (4, "ad"), (9, "ed"), (4, "af")]
    events = [
        Event(seq, seq, "w", "ensemble.set", -1, LEDGER, first, ensemble=tuple(names))
        for seq, (first, names) in enumerate(rows)
    ]
    assert fold(events).ledgers[LEDGER].segments == (
        Segment(0, ("a", "b")),
        Segment(4, ("a", "f")),
        Segment(9, ("e", "d")),
    )


def record(kind: str, ledger: int, offset: int) -> Event:
    return Event(0, 0, "b0", kind, ledger=ledger, file="1.txn", offset=offset)


FENCED = [Event(0, 0, "b0", "ledger.fenced", ledger=ledger) for ledger in (7, 8)]
APPENDED = [
    record("journal.lac_appended", 8, 512),
    record("journal.fence_appended", 7, 1024),
    record("journal.fence_appended", 8, 1536),
]
SYNCED = [record("journal.synced", 8, 512), record("journal.synced", 7, 1024)]


def killed(what_happened_to_the_disk: str) -> Event:
    return Event(0, 0, "b0", "node.killed", detail=what_happened_to_the_disk)


@pytest.mark.parametrize(
    ("events", "fenced"),
    [
        ([*FENCED], {7, 8}),
        ([*FENCED, *APPENDED, *SYNCED, killed("lost")], {7}),
        ([*FENCED, killed("kept")], {7, 8}),
        ([*FENCED, Event(0, 0, "b0", "memtable.flushed"), killed("lost")], {7, 8}),
        ([*FENCED, *APPENDED, *SYNCED, Event(0, 0, "b0", "bookie.formatted")], set()),
        ([*FENCED, Event(0, 0, "b0", "ledger.collected", ledger=7)], {8}),
        (
            [
                *FENCED,
                *APPENDED,
                killed("torn"),
                Event(0, 0, "b0", "journal.replayed", file="1.txn", offset=1536),
            ],
            {7},
        ),
    ],
)
def test_a_fence_lasts_as_long_as_memory_or_disk_contains_it(
    events: list[Event], fenced: set[int]
) -> None:
    assert fold(events, bookies=["b0"]).bookies["b0"].fenced == fenced


def test_a_formatted_bookie_has_no_copies() -> None:
    script = small()
    script.add(0)
    script.kill("b0")
    script.record("b0", "bookie.formatted")
    state = state_of(script)
    assert (looks(state, "b0"), looks(state, "b1")) == ({}, {0: "durable"})
    assert state.bookies["b0"].state == "down"


@pytest.mark.parametrize("kind", ["ledger.collected", "ledger.dropped"])
def test_a_bookie_that_has_dropped_a_ledger_has_only_copies_of_the_others(kind: str) -> None:
    script = small()
    script.add(0)
    script.create(8)
    script.add(0, ledger=8)
    script.record("b0", kind, LEDGER)
    script.kill("b0")
    script.restart("b0")
    state = state_of(script)
    assert (looks(state, "b0"), looks(state, "b0", 8)) == ({}, {0: "durable"})
    assert looks(state, "b1") == {0: "durable"}
