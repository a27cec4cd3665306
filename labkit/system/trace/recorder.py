"""The recorder of a node. All components of the node report their events to it.

Callers on hot paths check `listening` before they build an event, so without a listener, tracing
costs only one attribute lookup.
"""

from collections.abc import Callable, Iterable
from typing import ClassVar, Unpack

from labkit.system.trace.events import Event, Fields
from labkit.system.trace.kinds import validate

Sink = Callable[[list[Event]], None]


class Recorder:
    """Passes the events of one node to its listeners; `clock_us` returns the run's shared time."""

    is_strict: ClassVar[bool] = False
    """Whether `record` checks each event against its kind; tests set this."""

    def __init__(self, node: str, clock_us: Callable[[], int]) -> None:
        self.node = node
        self.listening = False
        self._clock_us = clock_us
        self._sinks: tuple[Sink, ...] = ()

    def listen(self, sink: Sink) -> Callable[[], None]:
        """Send all future events to `sink`. Return a function that unsubscribes it."""
        self._sinks += (sink,)
        self.listening = True

        def stop() -> None:
            # Create a new tuple, because a sink may unsubscribe while `_send` iterates over the old
            # one.
            self._sinks = tuple(each for each in self._sinks if each is not sink)
            self.listening = bool(self._sinks)

        return stop

    def record(
        self, kind: str, ledger: int = -1, entry: int = -1, **fields: Unpack[Fields]
    ) -> None:
        """Report one event. If `is_strict`, raise `ValueError` for an unknown kind or column."""
        if self.listening:
            event = Event(-1, self._clock_us(), self.node, kind, -1, ledger, entry, **fields)
            self._send([event])

    def record_entries(
        self, kind: str, entries: Iterable[tuple[int, int]], **fields: Unpack[Fields]
    ) -> None:
        """Report one event for each (ledger id, entry id). All other columns are the same in all of
        these events.
        """
        if self.listening:
            now, node = self._clock_us(), self.node
            self._send([Event(-1, now, node, kind, -1, *ids, **fields) for ids in entries])

    def _send(self, events: list[Event]) -> None:
        if self.is_strict:
            for event in events:
                validate(event)
        for sink in self._sinks:
            sink(events)
