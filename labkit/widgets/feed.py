"""What of a log a view in the browser is sent: which events, how many, and in which messages.

The browser gets columns (as `labkit.trace.export` makes them): once the whole, then numbered
additions.  A front end that misses a number asks for the whole again.  Old events of single entries
are left out when there are too many; those that say which nodes and ledgers there are stay.
"""

from collections.abc import Iterable
from typing import Any

from labkit.trace.events import Event
from labkit.trace.export import to_columns

Message = dict[str, Any]

_STAY = ("ensemble.set", "ledger.closed")


class Feed:
    """Takes a log's events, keeps those that a view shows and hands them on as messages.

    kinds: the kinds of events that the view needs.
    ledger: keep only this ledger's events and those of no ledger; None keeps all.
    most_events: when a quarter more than these are kept, the oldest are left out.

    Invariant: a front end that took the message numbered n has exactly the events that this feed
    had when it made that message.
    """

    def __init__(
        self, kinds: Iterable[str], ledger: int | None = None, most_events: int = 20_000
    ) -> None:
        self.events: list[Event] = []
        self.left_out = 0
        self._kinds = frozenset(kinds)
        self._ledgers = None if ledger is None else (-1, ledger)
        self._most_events = most_events
        self._number = 0
        self._sent_count = 0

    def take(self, events: Iterable[Event]) -> None:
        """Keep what the view needs of these; they are sent with the next message."""
        for event in events:
            if event.kind in self._kinds and (
                self._ledgers is None or event.ledger in self._ledgers
            ):
                self.events.append(event)
        if len(self.events) > self._most_events * 5 // 4:
            self._leave_out(len(self.events) - self._most_events)

    def next_message(self) -> Message | None:
        """The events since the last message, or the whole if some were left out; None if none."""
        if self._sent_count == len(self.events):
            return None
        self._number += 1
        if self._sent_count == 0:
            return self.whole()
        fresh = self.events[self._sent_count :]
        self._sent_count = len(self.events)
        return {"kind": "more", "number": self._number, "columns": to_columns(fresh)}

    def whole(self) -> Message:
        """All events that are kept, under the number of the last message."""
        self._sent_count = len(self.events)
        return {
            "kind": "whole",
            "number": self._number,
            "columns": to_columns(self.events),
            "left_out": self.left_out,
        }

    def _leave_out(self, count: int) -> None:
        kept = []
        for event in self.events:
            if count > 0 and event.entry >= 0 and event.kind not in _STAY:
                count -= 1
                self.left_out += 1
            else:
                kept.append(event)
        self.events = kept
        self._sent_count = 0
