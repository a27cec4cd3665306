"""A run's log: the rows of all nodes in time order, numbered, each linked to its cause."""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

from labkit.system.trace.events import KINDS, Event, Link, lineage
from labkit.system.trace.recorder import Row

Listener = Callable[[Sequence[Event]], None]
_Key = tuple[str, int, int, str | tuple[str, str]]
"""Kind, ledger, entry, and where: a node, or a node and its peer."""


class TraceLog:
    """Collects rows and turns them into events.

    Rows of different processes arrive in bursts, so a row waits in the log until `settle` is
    called for its time.

    Invariants: `events[i].seq == i`; a cause always has a smaller `seq`; a row that comes too late
    is kept, after the events that were settled before it.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._waiting: list[Row] = []
        self._listeners: list[Listener] = []
        self._on_node: dict[_Key, int] = {}
        self._sent_to: dict[_Key, int] = {}
        self._about_peer: dict[_Key, int] = {}

    def add(self, rows: Iterable[Row]) -> None:
        """Take rows of any node, in any order."""
        self._waiting.extend(rows)

    def settle(self, until_us: int | None = None) -> None:
        """Number and link the waiting rows up to that time (all of them by default)."""
        self._waiting.sort(key=attrgetter("time_us"))
        ready = [row for row in self._waiting if until_us is None or row.time_us <= until_us]
        if not ready:
            return
        del self._waiting[: len(ready)]
        fresh = self._number(ready)
        # A copy: a listener may end itself while it is called.
        for listener in list(self._listeners):
            listener(fresh)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with each batch of new events; the function returned ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def lineage(self, seq: int) -> list[Event]:
        """The event and its causes, first cause first."""
        return lineage(self.events, seq)

    def _number(self, rows: Iterable[Row]) -> list[Event]:
        """Append the rows to the log.

        A cause is the latest earlier event that one of the kind's rules points to.  An event that
        names an entry may be caused by one of the whole ledger.
        """
        events, on_node, sent_to = self.events, self._on_node, self._sent_to
        about_peer = self._about_peer
        new = tuple.__new__
        first = len(events)
        for seq, row in enumerate(rows, start=first):
            time_us, node, kind, ledger, entry, peer, file, offset, size, note = row
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
            # As `Event(...)` does, in half the time: most of a simulated run's log is spent here.
            fields = seq, time_us, node, kind, cause, ledger, entry, peer, file, offset, size, note
            events.append(new(Event, fields))
            # Others cause nothing, so the dictionaries need not grow with them.
            if kind in _CAUSING:
                on_node[kind, ledger, entry, node] = seq
                if peer:
                    sent_to[kind, ledger, entry, peer] = seq
                    about_peer[kind, ledger, entry, (node, peer)] = seq
        return events[first:]


_CAUSING = frozenset(cause for kind in KINDS.values() for cause, _ in kind.causes)
"""The kinds that others can come from."""
