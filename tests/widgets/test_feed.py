"""What a view is sent."""

from labkit.trace.events import Event
from labkit.trace.export import from_columns
from labkit.trace.fold import FOLDED_KINDS, fold
from labkit.widgets.feed import Feed
from tests.widgets.scripted import everything_at_once, two_ledgers


def test_a_front_end_that_takes_every_message_has_every_event() -> None:
    events = everything_at_once().events
    feed = Feed(FOLDED_KINDS)
    got: list[Event] = []
    for start in range(0, len(events), 100):
        feed.take(events[start : start + 100])
        message = feed.next_message()
        assert message is not None
        assert message["number"] == start // 100 + 1
        got += from_columns(message["columns"])
    assert got == events
    assert feed.next_message() is None


def test_the_whole_carries_the_number_of_the_last_message() -> None:
    events = everything_at_once().events
    feed = Feed(FOLDED_KINDS)
    feed.take(events[:10])
    first = feed.next_message()
    feed.take(events[10:20])
    second = feed.next_message()
    assert first is not None
    assert second is not None
    assert (first["kind"], second["kind"], second["number"]) == ("whole", "more", 2)
    whole = feed.whole()
    assert whole["number"] == 2
    assert from_columns(whole["columns"]) == events[:20]


def test_kinds_and_ledgers_that_the_view_does_not_show_are_not_sent() -> None:
    feed = Feed(["add.pushed", "node.started"], ledger=8)
    feed.take(two_ledgers().events)
    assert {event.kind for event in feed.events} == {"add.pushed", "node.started"}
    assert {event.ledger for event in feed.events} == {-1, 8}


def test_old_entries_are_left_out_but_never_a_node_or_a_ledger() -> None:
    events = everything_at_once().events
    feed = Feed(FOLDED_KINDS, most_events=100)
    feed.take(events)
    assert len(feed.events) == 100
    assert feed.left_out == len(events) - 100
    message = feed.next_message()
    assert message is not None
    assert (message["kind"], message["left_out"]) == ("whole", feed.left_out)
    short, full = fold(feed.events), fold(events)
    assert short.ledgers == full.ledgers
    assert [b.state for b in short.bookies.values()] == [b.state for b in full.bookies.values()]


def test_leaving_out_makes_the_next_message_the_whole() -> None:
    events = everything_at_once().events
    feed = Feed(FOLDED_KINDS, most_events=100)
    feed.take(events[:110])
    feed.next_message()
    feed.take(events[110:])
    message = feed.next_message()
    assert message is not None
    assert message["kind"] == "whole"
