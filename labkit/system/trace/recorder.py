"""A node's recorder: the one place to which the node's parts report.

Costs one attribute look-up per batch without a listener: parts test `listening` before they
build anything.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple


class Row(NamedTuple):
    """An event before it has met those of other nodes: it has no number and no cause yet."""

    time_us: int
    node: str
    kind: str
    ledger: int = -1
    entry: int = -1
    peer: str = ""
    file: str = ""
    offset: int = -1
    size: int = -1
    note: str = ""


Sink = Callable[[list[Row]], None]


class Recorder:
    """Hands the rows of one node to those who listen.

    `clock_us` gives the run's shared clock in microseconds.
    """

    def __init__(self, node: str, clock_us: Callable[[], int]) -> None:
        self.node = node
        self.listening = False
        self._clock_us = clock_us
        self._sinks: tuple[Sink, ...] = ()

    def listen(self, sink: Sink) -> Callable[[], None]:
        """Send every row from now on to `sink`; the function returned ends that."""
        self._sinks += (sink,)
        self.listening = True

        def stop() -> None:
            # A new tuple: a sink may end while `record` goes through the old one.
            self._sinks = tuple(each for each in self._sinks if each is not sink)
            self.listening = bool(self._sinks)

        return stop

    def record(
        self,
        kind: str,
        ledger: int = -1,
        entry: int = -1,
        *,
        peer: str = "",
        file: str = "",
        offset: int = -1,
        size: int = -1,
        note: str = "",
    ) -> None:
        """Report one event of a kind that `labkit.system.trace.events.KINDS` lists."""
        if self.listening:
            now = self._clock_us()
            rows = [Row(now, self.node, kind, ledger, entry, peer, file, offset, size, note)]
            for sink in self._sinks:
                sink(rows)

    def record_entries(
        self, kind: str, entries: Iterable[tuple[int, int]], *, peer: str = "", size: int = -1
    ) -> None:
        """Report the same event for several (ledger id, entry id) at once."""
        if self.listening:
            now = self._clock_us()
            rows = [
                Row(now, self.node, kind, ledger, entry, peer, size=size)
                for ledger, entry in entries
            ]
            for sink in self._sinks:
                sink(rows)
