"""The log of a run, which contains the events of all nodes, numbered and linked to their causes."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter
from typing import TypeAlias

from labkit.system.trace.events import Event, lineage
from labkit.system.trace.kinds import KINDS, Link

Listener = Callable[[Sequence[Event]], None]
_Key: TypeAlias = tuple[int | str, ...]
"""The ledger, the entry, and the values of the columns that the link compares."""
_Index: TypeAlias = dict[_Key, int]
"""For each key, the number of the latest event of one kind."""


class TraceLog:
    """Numbers events in time order and links each one to its cause.

    Events from different processes arrive in bursts and out of order. The log therefore holds each
    event back until `settle` is called with the event's time or a later time. An event that arrives
    even later is numbered after the events that have already been settled. `origin_us` is the time
    on the nodes' clock that corresponds to time 0 in the log.

    Invariants: `events[i].seq == i`, and a cause has a smaller `seq` than its effect.
    """

    def __init__(self, origin_us: int = 0) -> None:
        self.events: list[Event] = []
        self._origin_us = origin_us
        self._waiting: list[Event] = []
        self._listeners: list[Listener] = []
        self._requesters: list[str] = []
        """For each event, the node whose request led to it, or "" if that is unknown."""
        indexes: defaultdict[tuple[str, Link], _Index] = defaultdict(dict)
        self._rules = {
            kind.name: [(link, indexes[cause, link]) for cause, link in kind.causes]
            for kind in KINDS.values()
        }
        self._indexes: defaultdict[str, list[tuple[Link, _Index]]] = defaultdict(list)
        """The indexes that contain the events of each kind; empty if the kind is never a cause."""
        for (cause, link), index in indexes.items():
            self._indexes[cause].append((link, index))

    def add(self, rows: Iterable[Event]) -> None:
        self._waiting.extend(rows)

    def settle(self, until_us: int | None = None) -> None:
        """Number and link the held events whose time on the nodes' clock is at most `until_us`
        (default: all).
        """
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
        """Call `listener` with each batch of settled events. Return a function that removes the
        listener.
        """
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def lineage(self, seq: int) -> list[Event]:
        """Return the event and all of its direct and indirect causes, earliest first."""
        return lineage(dict(enumerate(self.events)), seq)

    def _number(self, rows: Iterable[Event]) -> list[Event]:
        """Append events to the log, and return them with their numbers and causes."""
        events, requesters, origin_us = self.events, self._requesters, self._origin_us
        new = tuple.__new__
        first = len(events)
        for seq, row in enumerate(rows, start=first):
            cause, requester = -1, ""
            for link, index in self._rules[row.kind]:
                cause = _latest(index, link, row)
                if cause >= 0:
                    if link is Link.SENT_HERE:
                        requester = events[cause].node
                    elif link is Link.SAME_NODE or link is Link.SAME_RECORD:
                        requester = requesters[cause]
                    break
            requesters.append(requester)
            # This is twice as fast as `Event(...)`, and tracing spends most of its time here.
            _, time_us, node, kind, _, *others = row
            events.append(new(Event, (seq, time_us - origin_us, node, kind, cause, *others)))
            if kind in self._indexes:
                for link, index in self._indexes[kind]:
                    index[_key(link, row, requester)] = seq
        return events[first:]


def _key(link: Link, event: Event, requester: str) -> _Key:
    """Return the key under which this event can be found as a cause."""
    _, _, node, _, _, ledger, entry, peer, file, offset = event[:10]
    match link:
        case Link.SAME_NODE:
            return ledger, entry, node
        case Link.SENT_HERE:
            return ledger, entry, peer
        case Link.SAME_PEER:
            return ledger, entry, node, peer
        case Link.FROM_PEER:
            return ledger, entry, node, requester
        case Link.SAME_RECORD:
            return ledger, entry, node, file, offset
        case Link.SAME_LEDGER:
            return ledger, -1, node
        case Link.LISTED_BOOKIE:
            return ledger, -1, node, peer


def _latest(index: _Index, link: Link, event: Event) -> int:
    """Return the number of the latest event in the index that may have caused this event, or -1."""
    _, _, node, _, _, ledger, entry, peer, file, offset = event[:10]
    places: tuple[tuple[int | str, ...], ...]
    match link:
        case Link.SAME_NODE | Link.SENT_HERE | Link.SAME_LEDGER:
            places = ((node,),)
        case Link.SAME_PEER:
            places = ((node, peer),)
        case Link.FROM_PEER:
            # The trace may not show which node's request the peer served.
            places = ((peer, node), (peer, ""))
        case Link.SAME_RECORD:
            places = ((node, file, offset),)
        case Link.LISTED_BOOKIE:
            # The loss of a bookie affects all ledgers.
            keys = [(id_, -1, node, name) for id_ in (ledger, -1) for name in event.bookies]
            return max((index.get(key, -1) for key in keys), default=-1)
    for place in places:
        for entry_id in (entry, -1):
            seq = index.get((ledger, entry_id, *place))
            if seq is not None:
                return seq
    return -1
