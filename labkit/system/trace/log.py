"""The log of a run: the events of all nodes in time order, numbered and linked to their causes."""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

from labkit.system.trace.events import Event, lineage
from labkit.system.trace.kinds import KINDS, Link

Listener = Callable[[Sequence[Event]], None]
_Key = tuple[str, int, int, str | tuple[str, str]]
"""Kind, ledger, entry, and a node or a (node, peer) pair."""


class TraceLog:
    """Events from different processes arrive in bursts and out of order, so the log holds each
    event back until `settle` is called with a time that is not earlier than the event's. An event
    that arrives too late is numbered after the events that have already been settled. `origin_us`
    is the time on the nodes' clock that becomes time 0.

    Invariants: `events[i].seq == i`, and a cause has a smaller `seq` than its effect.
    """

    def __init__(self, origin_us: int = 0) -> None:
        self.events: list[Event] = []
        self._origin_us = origin_us
        self._waiting: list[Event] = []
        self._listeners: list[Listener] = []
        self._on_node: dict[_Key, int] = {}
        self._sent_to: dict[_Key, int] = {}
        self._about_peer: dict[_Key, int] = {}

    def add(self, rows: Iterable[Event]) -> None:
        self._waiting.extend(rows)

    def settle(self, until_us: int | None = None) -> None:
        """Number and link the waiting events up to the nodes' time `until_us` (default: all)."""
        self._waiting.sort(key=attrgetter("time_us"))
        ready = [row for row in self._waiting if until_us is None or row.time_us <= until_us]
        if not ready:
            return
        del self._waiting[: len(ready)]
        fresh = self._number(ready)
        # Iterate over a copy, because a listener may unsubscribe itself.
        for listener in list(self._listeners):
            listener(fresh)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with each batch of settled events; return a function that removes the
        listener.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def lineage(self, seq: int) -> list[Event]:
        return lineage(self.events, seq)

    def _number(self, rows: Iterable[Event]) -> list[Event]:
        """Append events to the log and return them as stored.

        The cause of an event is the latest earlier event that matches one of its kind's rules. The
        cause of an event about an entry may be an event about the whole ledger.
        """
        events, on_node, sent_to = self.events, self._on_node, self._sent_to
        about_peer, origin_us = self._about_peer, self._origin_us
        new = tuple.__new__
        first = len(events)
        for seq, row in enumerate(rows, start=first):
            _, time_us, node, kind, _, ledger, entry, peer = row[:8]
            cause: int | None = None
            where: str | tuple[str, str]
            for causing, link in KINDS[kind].causes:
                if link is Link.SAME_PAIR:
                    latest, where = about_peer, (node, peer)
                else:
                    where = peer if link is Link.FROM_PEER else node
                    latest = sent_to if link is Link.SENT_HERE else on_node
                cause = latest.get((causing, ledger, entry, where))
                if cause is None and entry != -1:
                    cause = latest.get((causing, ledger, -1, where))
                if cause is not None:
                    break
            else:
                cause = -1
            # This is twice as fast as `Event(...)`, and most of the time that is spent on tracing
            # is spent here.
            events.append(new(Event, (seq, time_us - origin_us, node, kind, cause, *row[5:])))
            # Only events of these kinds can be causes, so the dictionaries do not need to contain
            # any others.
            if kind in _CAUSING:
                on_node[kind, ledger, entry, node] = seq
                if peer:
                    sent_to[kind, ledger, entry, peer] = seq
                    about_peer[kind, ledger, entry, (node, peer)] = seq
        return events[first:]


_CAUSING = frozenset(cause for kind in KINDS.values() for cause, _ in kind.causes)
"""The kinds that can be the cause of another event."""
