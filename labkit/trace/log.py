"""A run's log: the rows of all nodes in time order, numbered, each linked to its cause."""

from collections.abc import Callable, Iterable, Sequence
from operator import attrgetter

from labkit.trace.events import KINDS, Event, Link
from labkit.trace.recorder import Row

Listener = Callable[[Sequence[Event]], None]


class TraceLog:
    """Collects rows and turns them into events.

    Rows of different processes arrive in bursts, so a row waits in the log until `settle` is told
    that all rows up to its time have come.

    Invariants: `events[i].seq == i`; a cause always has a smaller `seq`; a row that comes too late
    is kept, after the events that were settled before it.
    """

    def __init__(self) -> None:
        self.events: list[Event] = []
        self._waiting: list[Row] = []
        self._listeners: list[Listener] = []
        self._last_seq: dict[tuple[str, int, int, Link, str], int] = {}

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
        fresh = [self._append(row) for row in ready]
        for listener in list(self._listeners):
            listener(fresh)

    def listen(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with each batch of new events; the function returned ends that."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def lineage(self, seq: int) -> list[Event]:
        """The event and its causes, first cause first."""
        path: list[Event] = []
        while seq >= 0:
            path.append(self.events[seq])
            seq = path[-1].cause
        return path[::-1]

    def _append(self, row: Row) -> Event:
        cause = self._cause(row)
        event = Event(len(self.events), row.time_us, row.node, row.kind, cause, *row[3:])
        self.events.append(event)
        here = (row.kind, row.ledger, row.entry)
        self._last_seq[*here, Link.SAME_NODE, row.node] = event.seq
        if row.peer:
            self._last_seq[*here, Link.SENT_HERE, row.peer] = event.seq
        return event

    def _cause(self, row: Row) -> int:
        """The latest earlier event that one of the kind's rules points to, or -1.

        An event that names an entry may be caused by one of the whole ledger.
        """
        for kind, link in KINDS[row.kind].causes:
            where = row.peer if link is Link.FROM_PEER else row.node
            how = Link.SENT_HERE if link is Link.SENT_HERE else Link.SAME_NODE
            for entry in (row.entry, -1):
                seq = self._last_seq.get((kind, row.ledger, entry, how, where))
                if seq is not None:
                    return seq
        return -1
