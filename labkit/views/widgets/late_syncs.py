"""Hides each sync that a bookie reports too early until the disk has really synced the record."""

from collections.abc import Iterator, Mapping

from labkit.system.trace.events import Event


class DelayedSyncs:
    """Delays events that report a sync too early.

    late_syncs: the `seq` of each such event, mapped to the `seq` of the event before which the sync
        really happened, or -1 if it never did.
    """

    def __init__(self, late_syncs: Mapping[int, int]) -> None:
        self._late_syncs = late_syncs
        self._delayed: list[Event] = []

    def due_with(self, event: Event) -> Iterator[Event]:
        """Yield the next event of the run unless it is delayed, then the syncs that are now due."""
        if event.seq in self._late_syncs:
            self._delayed.append(event)
        else:
            yield event
        for each in list(self._delayed):
            if 0 <= self._late_syncs[each.seq] <= event.seq:
                self._delayed.remove(each)
                yield each


def late_sync_words(event: Event) -> str:
    """Describe an event that reports a sync too early."""
    what = f"entry {event.entry}" if event.entry >= 0 else "its journal"
    return f"{event.node} reports a sync, but {what} is not on its disk yet"
